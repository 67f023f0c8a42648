"""Register, fence and unfence brokers and controllers (Kafka's `ClusterControlManager`)."""

from collections.abc import Iterable, Iterator
from typing import Any

import attrs

from barnabas.cluster.controller import directory_changes
from barnabas.cluster.controller.broker_heartbeats import BrokerControlState, BrokerHeartbeats
from barnabas.cluster.controller.operation_result import ControllerResult
from barnabas.cluster.metadata.image import (
    NO_LEADER,
    BrokerImage,
    ControllerImage,
    Endpoint,
    MetadataImage,
)
from barnabas.cluster.metadata.image_records import broker_record, controller_record
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from barnabas.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from barnabas.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from barnabas.protocol.messages_base import Message
from barnabas.protocol.records.metadata_records import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
)

# Values of `fenced` and `in_controlled_shutdown` in a BrokerRegistrationChangeRecord.
_UNFENCE, _FENCE, _SHUTTING_DOWN = -1, 1, 1
# org.apache.kafka.metadata.LeaderRecoveryState
_RECOVERING = 1


def register_controller(
    request: ControllerRegistrationRequest,
) -> ControllerResult[ControllerRegistrationResponse]:
    """Record a controller's endpoints and features."""
    controller = ControllerImage(
        id=request.controller_id,
        incarnation_id=request.incarnation_id,
        endpoints=_endpoints(request.listeners),
        features=_features(request.features),
    )
    response = ControllerRegistrationResponse(error_message=None)
    return ControllerResult([controller_record(controller)], response)


def register_broker(
    image: MetadataImage, request: BrokerRegistrationRequest, epoch: int
) -> ControllerResult[BrokerRegistrationResponse]:
    """Register a broker, fenced, under a new `epoch` (the offset of its record).

    A second registration of the same incarnation updates endpoints, features and directories; the
    broker keeps its epoch and its state. A new incarnation leaves the leaderships and in-sync sets
    of the one before it (Kafka's `handleBrokerShutdown`).

    Raises KafkaError INCONSISTENT_CLUSTER_ID.
    """
    if request.cluster_id != image.cluster_id:
        raise KafkaError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"Expected cluster ID {image.cluster_id}, but got cluster ID {request.cluster_id}",
        )
    registered = BrokerImage(
        id=request.broker_id,
        epoch=epoch,
        incarnation_id=request.incarnation_id,
        endpoints=_endpoints(request.listeners),
        features=_features(request.features),
        rack=request.rack,
        fenced=True,
        in_controlled_shutdown=False,
        directories=tuple(request.log_dirs),
    )
    records: list[Message] = []
    known = image.brokers.get(request.broker_id)
    if known is not None and known.incarnation_id != request.incarnation_id:
        # The earlier incarnation is gone, perhaps with its page cache.
        records += directory_changes.leave_all(image, known.id)
    elif known is not None:
        registered = attrs.evolve(
            registered,
            epoch=known.epoch,
            fenced=known.fenced,
            in_controlled_shutdown=known.in_controlled_shutdown,
            cordoned_directories=known.cordoned_directories,
        )
    response = BrokerRegistrationResponse(broker_epoch=registered.epoch)
    if registered == known:
        return ControllerResult([], response)
    return ControllerResult([*records, broker_record(registered)], response)


def _endpoints(listeners: Iterable[Any]) -> dict[str, Endpoint]:
    return {
        point.name: Endpoint(point.name, point.host, point.port, point.security_protocol)
        for point in listeners
    }


def _features(features: Iterable[Any]) -> dict[str, tuple[int, int]]:
    return {
        feature.name: (feature.min_supported_version, feature.max_supported_version)
        for feature in features
    }


def heartbeat(
    image: MetadataImage,
    heartbeats: BrokerHeartbeats,
    request: BrokerHeartbeatRequest,
    next_offset: int,
) -> ControllerResult[BrokerHeartbeatResponse]:
    """Decide the next state of a broker: fenced, unfenced, in controlled shutdown, or free to stop.

    The broker stops leading replicas in `offline_log_dirs` (KIP-858). `next_offset` is the offset
    of the first record that is returned.

    Raises KafkaError STALE_BROKER_EPOCH when the broker has registered again since.
    """
    broker = directory_changes.registered_broker(image, request.broker_id, request.broker_epoch)
    heartbeats.touch(broker, request.current_metadata_offset)
    records: list[Message] = []
    records += directory_changes.directories_failed(image, broker, request.offline_log_dirs)
    current = BrokerControlState.of(broker)
    following = heartbeats.next_state(
        image, broker, request, lambda: directory_changes.leads_anything(image, broker.id)
    )
    if following is not current:
        records += _transition(image, broker, following)
    if following is BrokerControlState.CONTROLLED_SHUTDOWN:
        heartbeats.begin_controlled_shutdown(broker, next_offset + len(records) - 1)
    stops = following is BrokerControlState.SHUTDOWN_NOW
    response = BrokerHeartbeatResponse(
        is_caught_up=request.current_metadata_offset >= broker.epoch,
        is_fenced=stops or following is BrokerControlState.FENCED,
        should_shut_down=stops,
    )
    return ControllerResult(records, response)


def _transition(
    image: MetadataImage, broker: BrokerImage, following: BrokerControlState
) -> Iterable[Message]:
    if following is BrokerControlState.UNFENCED:
        return _unfence(image, broker)
    if following is BrokerControlState.CONTROLLED_SHUTDOWN:
        change = BrokerRegistrationChangeRecord(
            broker_id=broker.id, broker_epoch=broker.epoch, in_controlled_shutdown=_SHUTTING_DOWN
        )
        return [change, *directory_changes.leave_all(image, broker.id)]
    return () if broker.fenced else fence(image, broker).records


def _unfence(image: MetadataImage, broker: BrokerImage) -> Iterator[Message]:
    """Unfence a broker, then elect it in the leaderless partitions that it may lead."""
    yield BrokerRegistrationChangeRecord(
        broker_id=broker.id, broker_epoch=broker.epoch, fenced=_UNFENCE
    )
    yield from _leaderless_partitions_for(image, broker)
    # It led them before it restarted, perhaps in a directory that it no longer has.
    yield from directory_changes.leave_offline(image, broker)


def fence(image: MetadataImage, broker: BrokerImage) -> ControllerResult[None]:
    """Fence a broker and move its leaderships (Kafka's `handleBrokerFenced`)."""
    change = BrokerRegistrationChangeRecord(
        broker_id=broker.id, broker_epoch=broker.epoch, fenced=_FENCE
    )
    return ControllerResult([*directory_changes.leave_all(image, broker.id), change], None)


def _leaderless_partitions_for(
    image: MetadataImage, broker: BrokerImage
) -> Iterable[PartitionChangeRecord]:
    """Elect the broker in leaderless partitions whose in-sync or eligible replica it is.

    Without any such replica, the last known leader is elected; that election may be unclean.
    """
    for topic in image.topics_by_id.values():
        for number, partition in topic.partitions.items():
            if partition.leader != NO_LEADER or not broker.has_online(
                partition.directory(broker.id)
            ):
                continue
            in_sync = (*partition.isr, *partition.elr)
            if broker.id not in (in_sync or partition.last_known_elr[:1]):
                continue
            change = PartitionChangeRecord(topic_id=topic.id, partition_id=number, leader=broker.id)
            if broker.id not in partition.isr:
                change.isr = [broker.id]
            if broker.id in partition.elr:
                change.eligible_leader_replicas = [
                    replica for replica in partition.elr if replica != broker.id
                ]
            if not in_sync:
                change.leader_recovery_state = _RECOVERING
            if partition.last_known_elr:
                change.last_known_elr = []
            yield change

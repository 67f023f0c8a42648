"""Registering, fencing and unfencing nodes (Kafka's `ClusterControlManager`)."""

from collections.abc import Collection, Iterable, Mapping

import attrs

from barnabas.cluster.controller import directory_changes
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
from barnabas.protocol.records.metadata_records import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
)
from barnabas.protocol.types import Uuid

# Values of `fenced` and `in_controlled_shutdown` in a BrokerRegistrationChangeRecord.
_UNFENCE, _FENCE, _SHUTTING_DOWN = -1, 1, 1
# org.apache.kafka.metadata.LeaderRecoveryState
_RECOVERING = 1


@attrs.frozen(slots=True)
class BrokerRegistration:
    """What a starting broker says of itself."""

    broker_id: int
    cluster_id: str
    incarnation_id: Uuid
    endpoints: tuple[Endpoint, ...]
    features: Mapping[str, tuple[int, int]]
    rack: str | None
    directories: tuple[Uuid, ...]


@attrs.frozen(slots=True)
class ControllerRegistration:
    """What a starting controller says of itself."""

    controller_id: int
    incarnation_id: Uuid
    endpoints: tuple[Endpoint, ...]
    features: Mapping[str, tuple[int, int]]


def register_controller(controller: ControllerRegistration) -> ControllerResult[None]:
    """The record of a controller's registration."""
    registered = ControllerImage(
        id=controller.controller_id,
        incarnation_id=controller.incarnation_id,
        endpoints={point.name: point for point in controller.endpoints},
        features=controller.features,
    )
    return ControllerResult([controller_record(registered)], None)


def register_broker(
    image: MetadataImage, broker: BrokerRegistration, epoch: int
) -> ControllerResult[int]:
    """Register a broker under a new `epoch` (the offset of its record), fenced for now.

    The same incarnation asking again amends what is known of it and stays as it is, epoch and
    all. Raises KafkaError INCONSISTENT_CLUSTER_ID.
    """
    if broker.cluster_id != image.cluster_id:
        raise KafkaError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"Expected cluster ID {image.cluster_id}, but got cluster ID {broker.cluster_id}",
        )
    registered = BrokerImage(
        id=broker.broker_id,
        epoch=epoch,
        incarnation_id=broker.incarnation_id,
        endpoints={point.name: point for point in broker.endpoints},
        features=broker.features,
        rack=broker.rack,
        fenced=True,
        in_controlled_shutdown=False,
        directories=broker.directories,
    )
    known = image.brokers.get(broker.broker_id)
    if known is not None and known.incarnation_id == broker.incarnation_id:
        registered = attrs.evolve(
            registered,
            epoch=known.epoch,
            fenced=known.fenced,
            in_controlled_shutdown=known.in_controlled_shutdown,
            cordoned_directories=known.cordoned_directories,
        )
        if registered == known:
            return ControllerResult([], known.epoch)
    return ControllerResult([broker_record(registered)], registered.epoch)


def heartbeat(
    image: MetadataImage,
    broker_id: int,
    broker_epoch: int,
    *,
    want_fence: bool,
    want_shutdown: bool,
    offline_directories: Collection[Uuid] = (),
) -> ControllerResult[bool]:
    """Fence or unfence as the broker asks; unfenced, it takes partitions that have no leader.

    What lies in `offline_directories` is led by it no more (KIP-858). Raises KafkaError
    STALE_BROKER_EPOCH when it was registered anew since.
    """
    broker = directory_changes.registered_broker(image, broker_id, broker_epoch)
    records = list(directory_changes.directories_failed(image, broker, offline_directories))
    change = BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=broker_epoch)
    if want_fence != broker.fenced:
        change.fenced = _FENCE if want_fence else _UNFENCE
    if want_shutdown and not broker.in_controlled_shutdown:
        change.in_controlled_shutdown = _SHUTTING_DOWN
    if not change.fenced and not change.in_controlled_shutdown:
        return ControllerResult(records, broker.fenced)
    records.append(change)
    if not want_fence and not want_shutdown:
        records += _leaderless_partitions_for(image, broker)
        # It led them when it was last here, perhaps with a directory that it does not have now.
        records += directory_changes.leave_offline(image, broker)
    return ControllerResult(records, want_fence)


def fence(image: MetadataImage, broker: BrokerImage) -> ControllerResult[None]:
    """A broker is not heard of any more: it leads nothing (`handleBrokerFenced`)."""
    change = BrokerRegistrationChangeRecord(
        broker_id=broker.id, broker_epoch=broker.epoch, fenced=_FENCE
    )
    return ControllerResult([*directory_changes.leave_all(image, broker.id), change], None)


def _leaderless_partitions_for(
    image: MetadataImage, broker: BrokerImage
) -> Iterable[PartitionChangeRecord]:
    """Partitions that wait for this broker: nobody leads them, and it is in sync.

    Or it was the last one that was, and nobody is any more: electing it may be unclean.
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

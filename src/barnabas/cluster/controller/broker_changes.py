"""Register, fence and unfence brokers and controllers (Kafka's `ClusterControlManager`)."""

from collections.abc import Iterable
from typing import Any

import attrs

from barnabas.cluster.controller import directory_changes, isr_changes
from barnabas.cluster.controller.broker_heartbeats import BrokerControlState, BrokerHeartbeats
from barnabas.cluster.controller.operation_result import (
    Context,
    ControllerResult,
    check_record_count,
)
from barnabas.cluster.metadata.image import BrokerImage, ControllerImage, Endpoint
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
from barnabas.protocol.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from barnabas.protocol.messages_base import Message


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
    context: Context, request: BrokerRegistrationRequest, epoch: int
) -> ControllerResult[BrokerRegistrationResponse]:
    """Register a broker, fenced, under a new `epoch` (the offset of its record).

    A second registration of the same incarnation updates endpoints, features and directories; the
    broker keeps its epoch and its state. A new incarnation leaves the leaderships and in-sync sets
    of the one before it, and after an unclean shutdown the eligible leader replicas.

    Raises KafkaError INCONSISTENT_CLUSTER_ID.
    """
    image = context.image
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
    if known is None or known.incarnation_id != request.incarnation_id:
        is_clean = known is not None and request.previous_broker_epoch == known.epoch
        records += isr_changes.end_incarnation(context, request.broker_id, is_clean=is_clean)
    else:
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


def unregister_broker(
    context: Context, request: UnregisterBrokerRequest
) -> ControllerResult[UnregisterBrokerResponse]:
    """Remove a broker's registration; a live broker may be unregistered, too.

    Raises KafkaError BROKER_ID_NOT_REGISTERED.
    """
    broker = context.image.brokers.get(request.broker_id)
    if broker is None:
        raise KafkaError(
            ErrorCode.BROKER_ID_NOT_REGISTERED,
            f"Broker ID {request.broker_id} is not currently registered",
        )
    records = isr_changes.unregister(context, broker)
    check_record_count(records)
    return ControllerResult(records, UnregisterBrokerResponse(error_message=None))


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
    context: Context,
    heartbeats: BrokerHeartbeats,
    request: BrokerHeartbeatRequest,
    next_offset: int,
) -> ControllerResult[BrokerHeartbeatResponse]:
    """Decide the next state of a broker: fenced, unfenced, in controlled shutdown, or free to stop.

    The broker stops leading replicas in `offline_log_dirs` (KIP-858). `next_offset` is the offset
    of the first record that is returned.

    Raises KafkaError STALE_BROKER_EPOCH when the broker has registered again since.
    """
    image = context.image
    broker = directory_changes.registered_broker(image, request.broker_id, request.broker_epoch)
    heartbeats.touch(broker, request.current_metadata_offset)
    records: list[Message] = []
    records += isr_changes.directories_failed(context, broker, request.offline_log_dirs)
    current = BrokerControlState.of(broker)
    following = heartbeats.next_state(
        image, broker, request, lambda: isr_changes.leads_anything(image, broker.id)
    )
    if following is not current:
        records += _transition(context, broker, following)
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
    context: Context, broker: BrokerImage, following: BrokerControlState
) -> list[Message]:
    if following is BrokerControlState.UNFENCED:
        return isr_changes.unfence(context, broker)
    if following is BrokerControlState.CONTROLLED_SHUTDOWN:
        return isr_changes.begin_controlled_shutdown(context, broker)
    return [] if broker.fenced else isr_changes.fence(context, broker)

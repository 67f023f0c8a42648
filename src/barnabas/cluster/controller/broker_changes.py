"""Fence and unfence brokers, and shut them down (Kafka's `ReplicationControlManager`)."""

import attrs

from barnabas.cluster.controller import directory_changes, isr_changes
from barnabas.cluster.controller.broker_heartbeats import BrokerControlState, BrokerHeartbeats
from barnabas.cluster.controller.operation_result import Context, ControllerResult
from barnabas.cluster.metadata.delta import MetadataDelta
from barnabas.cluster.metadata.feature_levels import supports_cordoned_directories
from barnabas.cluster.metadata.image import BrokerImage, MetadataImage
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from barnabas.protocol.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from barnabas.protocol.messages_base import Message
from barnabas.protocol.records.metadata_records import (
    BrokerRegistrationChangeRecord,
    UnregisterBrokerRecord,
)


def unregister_broker(
    context: Context, request: UnregisterBrokerRequest, most: int
) -> ControllerResult[UnregisterBrokerResponse]:
    """Remove a broker's registration; a live broker may be unregistered, too.

    It leaves its ISRs first, `most` partitions at a time.

    Raises KafkaError BROKER_ID_NOT_REGISTERED.
    """
    broker = context.image.brokers.get(request.broker_id)
    if broker is None:
        raise KafkaError(
            ErrorCode.BROKER_ID_NOT_REGISTERED,
            f"Broker ID {request.broker_id} is not currently registered",
        )
    records = isr_changes.leave_all(context, broker, most)
    response = UnregisterBrokerResponse(error_message=None)
    if len(records) == most:
        return ControllerResult(records, response, is_complete=False)
    unregistered = UnregisterBrokerRecord(broker_id=broker.id, broker_epoch=broker.epoch)
    return ControllerResult([*records, unregistered], response)


def heartbeat(
    context: Context,
    heartbeats: BrokerHeartbeats,
    request: BrokerHeartbeatRequest,
    next_offset: int,
    most: int | None = None,
) -> ControllerResult[BrokerHeartbeatResponse]:
    """Decide the next state of a broker: fenced, unfenced, in controlled shutdown, or free to stop.

    The broker stops leading replicas in `offline_log_dirs` (KIP-858) and gets no new ones in
    `cordoned_log_dirs` (KIP-1066). `next_offset` is the offset of the first returned record. With
    `most`, at most that number of partitions changes with the state; `finish` changes the others.

    Raises KafkaError STALE_BROKER_EPOCH when the broker has registered again since.
    """
    broker = directory_changes.registered_broker(
        context.image, request.broker_id, request.broker_epoch
    )
    heartbeats.touch(broker, request.current_metadata_offset)
    records = _directory_changes(context, broker, request)
    image = _replayed(context.image, records)
    context, broker = attrs.evolve(context, image=image), image.brokers[broker.id]
    current = BrokerControlState.of(broker)
    following = heartbeats.next_state(
        image, broker, request, lambda: isr_changes.leads_anything(image, broker.id)
    )
    if following is not current:
        records += _transition(context, broker, following, most)
    if following is BrokerControlState.CONTROLLED_SHUTDOWN:
        heartbeats.begin_controlled_shutdown(broker, next_offset + len(records) - 1)
    stops = following is BrokerControlState.SHUTDOWN_NOW
    response = BrokerHeartbeatResponse(
        is_caught_up=request.current_metadata_offset >= broker.epoch,
        is_fenced=stops or following is BrokerControlState.FENCED,
        should_shut_down=stops,
    )
    return ControllerResult(records, response, is_atomic=False)


def finish(
    context: Context,
    heartbeats: BrokerHeartbeats,
    broker: BrokerImage,
    next_offset: int,
    most: int,
) -> list[Message]:
    """Return the next changes of an unfenced broker's partitions, which its state requires."""
    if not broker.in_controlled_shutdown:
        return isr_changes.elect_in_leaderless(context, broker, most)
    records = isr_changes.begin_controlled_shutdown(context, broker, most)
    if records:
        heartbeats.extend_controlled_shutdown(broker, next_offset + len(records) - 1)
    return records


def _directory_changes(
    context: Context, broker: BrokerImage, request: BrokerHeartbeatRequest
) -> list[Message]:
    """Return the records for directories that failed or were cordoned since the last heartbeat."""
    records = isr_changes.directories_failed(context, broker, request.offline_log_dirs)
    cordoned = request.cordoned_log_dirs  # None until the broker knows its configuration
    if (
        cordoned is not None
        and supports_cordoned_directories(context.image.features)
        and set(cordoned) != set(broker.cordoned_directories)
    ):
        records.append(
            BrokerRegistrationChangeRecord(
                broker_id=broker.id, broker_epoch=broker.epoch, cordoned_log_dirs=list(cordoned)
            )
        )
    return records


def _replayed(image: MetadataImage, records: list[Message]) -> MetadataImage:
    """Return the image after records that are not appended yet."""
    if not records:
        return image
    delta = MetadataDelta(image)
    for record in records:
        delta.replay(record)
    return delta.apply(image.offset, image.record_epoch)


def _transition(
    context: Context, broker: BrokerImage, following: BrokerControlState, most: int | None
) -> list[Message]:
    if following is BrokerControlState.UNFENCED:
        return isr_changes.unfence(context, broker, most)
    if following is BrokerControlState.CONTROLLED_SHUTDOWN:
        return isr_changes.begin_controlled_shutdown(context, broker, most)
    return [] if broker.fenced else isr_changes.fence(context, broker)

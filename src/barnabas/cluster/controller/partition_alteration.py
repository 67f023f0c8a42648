"""Change the ISR of partitions at the request of their leaders (AlterPartition, KIP-497).

As Kafka's `ReplicationControlManager#alterPartition`, with its order of checks. A leader names the
leader epoch and the partition epoch that its new ISR builds on, so every accepted ISR follows
exactly from the one before it.
"""

from collections.abc import Sequence

from barnabas.cluster.controller.directory_changes import registered_broker
from barnabas.cluster.controller.election_rules import builder_of, election_of
from barnabas.cluster.controller.operation_result import Context, ControllerResult
from barnabas.cluster.controller.partition_change_builder import (
    NO_LEADER_CHANGE,
    RECOVERED,
    RECOVERING,
)
from barnabas.cluster.metadata.delta import changed_partition
from barnabas.cluster.metadata.image import PartitionImage, TopicImage
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
)
from barnabas.protocol.messages_base import Message
from barnabas.protocol.records.metadata_records import PartitionChangeRecord
from barnabas.protocol.types import Uuid

PartitionData = AlterPartitionRequest.PartitionData
BrokerState = AlterPartitionRequest.BrokerState
PartitionResult = AlterPartitionResponse.PartitionData
TopicResult = AlterPartitionResponse.TopicData

# The ISR of a request before version 3 names brokers without their epochs.
_EPOCHS_SINCE = 3
_ANY_EPOCH = -1


def alter_partitions(
    context: Context, request: AlterPartitionRequest, version: int
) -> ControllerResult[AlterPartitionResponse]:
    """Change the ISRs that a leader proposes; a refused one does not prevent the others.

    Raises KafkaError STALE_BROKER_EPOCH.
    """
    registered_broker(context.image, request.broker_id, request.broker_epoch)
    records: list[Message] = []
    response = AlterPartitionResponse()
    seen: set[tuple[Uuid, int]] = set()
    for asked in request.topics:
        result = TopicResult(topic_id=asked.topic_id)
        response.topics.append(result)
        topic = context.image.topics_by_id.get(asked.topic_id)
        for data in asked.partitions:
            answer = PartitionResult(partition_index=data.partition_index)
            result.partitions.append(answer)
            try:
                if topic is None:
                    raise _refused(ErrorCode.UNKNOWN_TOPIC_ID)
                partition = _partition(topic, data.partition_index)
                isr = _isr(data, version)
                _check(context, request.broker_id, partition, data, isr)
                if (asked.topic_id, data.partition_index) in seen:
                    raise _refused(ErrorCode.INVALID_UPDATE_VERSION)
                seen.add((asked.topic_id, data.partition_index))
                change = _alter(context, topic, partition, data, isr)
                if change is not None:
                    records.append(change)
                _answer(answer, request.broker_id, partition, change)
            except KafkaError as error:
                answer.error_code = error.code
    return ControllerResult(records, response)


def _partition(topic: TopicImage, number: int) -> PartitionImage:
    partition = topic.partitions.get(number)
    if partition is None:
        raise _refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return partition


def _isr(data: PartitionData, version: int) -> Sequence[BrokerState]:
    """Return the proposed ISR, with epochs."""
    if version >= _EPOCHS_SINCE:
        return data.new_isr_with_epochs
    return [BrokerState(broker_id=each, broker_epoch=_ANY_EPOCH) for each in data.new_isr]


def _check(
    context: Context,
    broker_id: int,
    partition: PartitionImage,
    data: PartitionData,
    isr: Sequence[BrokerState],
) -> None:
    """Raises KafkaError unless the leader may have this ISR."""
    if (
        data.leader_epoch > partition.leader_epoch
        or data.partition_epoch > partition.partition_epoch
    ):
        # The leader has seen a later state, so this node is no longer the active controller.
        raise _refused(ErrorCode.NOT_CONTROLLER)
    if data.leader_epoch < partition.leader_epoch:
        raise _refused(ErrorCode.FENCED_LEADER_EPOCH)
    if broker_id != partition.leader:
        raise _refused(ErrorCode.INVALID_REQUEST)
    if data.partition_epoch < partition.partition_epoch:
        raise _refused(ErrorCode.INVALID_UPDATE_VERSION)
    if not _is_valid(partition, data.leader_recovery_state, [state.broker_id for state in isr]):
        raise _refused(ErrorCode.INVALID_REQUEST)
    if not all(_is_eligible(context, state) for state in isr):
        raise _refused(ErrorCode.INELIGIBLE_REPLICA)


def _is_valid(partition: PartitionImage, recovery_state: int, isr: Sequence[int]) -> bool:
    """True when the ISR has replicas only, each once, the leader among them.

    After an unclean election, the leader is alone in the ISR until it has recovered.
    """
    members = {*isr}
    if len(members) < len(isr) or not members <= {*partition.replicas}:
        return False
    if partition.leader not in members or recovery_state not in (RECOVERED, RECOVERING):
        return False
    if recovery_state == RECOVERED:
        return True
    return len(isr) == 1 and partition.leader_recovery_state == RECOVERING


def _is_eligible(context: Context, state: BrokerState) -> bool:
    """True when the broker is active, in the incarnation that the leader knows (KIP-841, 903)."""
    if not context.is_active(state.broker_id):
        return False
    return state.broker_epoch in (_ANY_EPOCH, context.image.brokers[state.broker_id].epoch)


def _alter(
    context: Context,
    topic: TopicImage,
    partition: PartitionImage,
    data: PartitionData,
    isr: Sequence[BrokerState],
) -> PartitionChangeRecord | None:
    """Return the change; it may complete a reassignment."""
    builder = builder_of(context, topic, partition, election=election_of(context, topic.name))
    builder.isr = tuple(state.broker_id for state in isr)
    builder.recovery_state = data.leader_recovery_state
    return builder.build(topic.id, data.partition_index)


def _answer(
    answer: PartitionResult,
    broker_id: int,
    partition: PartitionImage,
    change: PartitionChangeRecord | None,
) -> None:
    """Set the resulting state.

    Raises KafkaError NEW_LEADER_ELECTED when the change completes a reassignment that moves the
    leadership: the former leader must wait for the metadata.
    """
    if change is not None:
        if change.leader not in (broker_id, NO_LEADER_CHANGE):
            raise _refused(ErrorCode.NEW_LEADER_ELECTED)
        partition = changed_partition(partition, change)
    answer.leader_id = partition.leader
    answer.leader_epoch = partition.leader_epoch
    answer.isr = list(partition.isr)
    answer.leader_recovery_state = partition.leader_recovery_state
    answer.partition_epoch = partition.partition_epoch


def _refused(code: ErrorCode) -> KafkaError:
    return KafkaError(code, "")

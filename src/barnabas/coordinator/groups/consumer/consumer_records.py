"""The records of consumer groups, in the versions of Kafka 4.3.

Kafka: GroupCoordinatorRecordHelpers.
"""

from collections.abc import Iterable, Mapping, Sequence

from barnabas.coordinator.core.coordinator_output import Record
from barnabas.coordinator.groups.consumer.consumer_member import (
    Assignment,
    ClassicPart,
    ConsumerMember,
    MemberState,
    Owned,
)
from barnabas.protocol.records.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from barnabas.protocol.types import Uuid

_CurrentPartitions = ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions
_TargetPartitions = ConsumerGroupTargetAssignmentMemberValue.TopicPartition
_ClassicMetadata = ConsumerGroupMemberMetadataValue.ClassicMemberMetadata
_ClassicProtocol = ConsumerGroupMemberMetadataValue.ClassicProtocol


def member_subscription(group_id: str, member: ConsumerMember) -> Record:
    """A member's identity and subscription."""
    classic = member.classic
    return Record(
        ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id),
        ConsumerGroupMemberMetadataValue(
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=sorted(member.subscribed_names),
            subscribed_topic_regex=member.subscribed_regex,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            server_assignor=member.server_assignor,
            classic_member_metadata=None
            if classic is None
            else _ClassicMetadata(
                session_timeout_ms=classic.session_timeout_ms,
                supported_protocols=[
                    _ClassicProtocol(name=name, metadata=metadata)
                    for name, metadata in classic.protocols
                ],
            ),
        ),
    )


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> Record:
    """The group's epoch, and the hash of the topics at that epoch."""
    return Record(
        ConsumerGroupMetadataKey(group_id=group_id),
        ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash),
    )


def target_member(group_id: str, member_id: str, assignment: Assignment) -> Record:
    """A member's target."""
    return Record(
        ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=[
                _TargetPartitions(topic_id=topic_id, partitions=sorted(partitions))
                for topic_id, partitions in assignment.items()
            ]
        ),
    )


def target_metadata(group_id: str, epoch: int, timestamp_ms: int) -> Record:
    """The epoch of the target assignment, and when it was computed."""
    return Record(
        ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id),
        ConsumerGroupTargetAssignmentMetadataValue(
            assignment_epoch=epoch, assignment_timestamp=timestamp_ms
        ),
    )


def current_assignment(group_id: str, member: ConsumerMember) -> Record:
    """A member's current assignment, and what it must still revoke."""
    return Record(
        ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id),
        ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=member.member_epoch,
            previous_member_epoch=member.previous_member_epoch,
            state=member.state,
            assigned_partitions=_current(member.assigned),
            partitions_pending_revocation=_current(member.revoking),
        ),
    )


def _current(owned: Owned) -> list[_CurrentPartitions]:
    return [
        _CurrentPartitions(
            topic_id=topic_id,
            partitions=list(epochs),
            assignment_epochs=list(epochs.values()),
        )
        for topic_id, epochs in owned.items()
    ]


def regular_expression(
    group_id: str, regex: str, topics: Iterable[str], version: int, timestamp_ms: int
) -> Record:
    """The topics that a regular expression matched at a version of the metadata."""
    return Record(
        ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex),
        ConsumerGroupRegularExpressionValue(
            topics=sorted(topics), version=version, timestamp=timestamp_ms
        ),
    )


def regular_expression_tombstone(group_id: str, regex: str) -> Record:
    """The removal of an expression without subscribers."""
    return Record(
        ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex), None
    )


def partition_metadata_tombstone(group_id: str) -> Record:
    """The removal of what brokers before 4.1 wrote in place of the metadata hash."""
    return Record(ConsumerGroupPartitionMetadataKey(group_id=group_id), None)


def member_tombstones(group_id: str, member_id: str) -> list[Record]:
    """The removal of a member."""
    return [
        _current_tombstone(group_id, member_id),
        _target_tombstone(group_id, member_id),
        _subscription_tombstone(group_id, member_id),
    ]


def group_tombstones(
    group_id: str, member_ids: Sequence[str], regexes: Iterable[str]
) -> list[Record]:
    """The removal of a group and all that belongs to it, in an order that replay accepts."""
    return [
        *(_current_tombstone(group_id, member_id) for member_id in member_ids),
        *(_target_tombstone(group_id, member_id) for member_id in member_ids),
        Record(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None),
        *(_subscription_tombstone(group_id, member_id) for member_id in member_ids),
        *(regular_expression_tombstone(group_id, regex) for regex in regexes),
        partition_metadata_tombstone(group_id),
        Record(ConsumerGroupMetadataKey(group_id=group_id), None),
    ]


def _current_tombstone(group_id: str, member_id: str) -> Record:
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)
    return Record(key, None)


def _target_tombstone(group_id: str, member_id: str) -> Record:
    key = ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    return Record(key, None)


def _subscription_tombstone(group_id: str, member_id: str) -> Record:
    return Record(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None)


# Reading records


def read_classic_part(value: ConsumerGroupMemberMetadataValue) -> ClassicPart | None:
    """Return the classic protocol's part of a member's record."""
    classic = value.classic_member_metadata
    if classic is None:
        return None
    return ClassicPart(
        classic.session_timeout_ms,
        tuple((one.name, one.metadata) for one in classic.supported_protocols),
    )


def read_state(value: ConsumerGroupCurrentMemberAssignmentValue) -> MemberState:
    """Return the state of a member's record."""
    return MemberState.of(value.state)


def read_owned(partitions: Sequence[_CurrentPartitions], member_epoch: int) -> Owned:
    """Return partitions with their epochs; records before 4.3 have none, so the member's counts."""
    default_epoch = max(member_epoch, 0)
    owned: dict[Uuid, Mapping[int, int]] = {}
    for topic in partitions:
        epochs = topic.assignment_epochs
        if epochs is None or len(epochs) != len(topic.partitions):
            epochs = [default_epoch] * len(topic.partitions)
        owned[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return owned


def read_target(value: ConsumerGroupTargetAssignmentMemberValue) -> Assignment:
    """Return the target of a member's record."""
    return {topic.topic_id: frozenset(topic.partitions) for topic in value.topic_partitions}

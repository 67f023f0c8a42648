"""The state of a consumer group, as its records build it.

Kafka: ConsumerGroup and ModernGroup.
"""

import enum
from collections import Counter
from collections.abc import Callable, Collection, Mapping

import attrs

from barnabas.coordinator.core.coordinator_output import Record
from barnabas.coordinator.groups.consumer import consumer_records
from barnabas.coordinator.groups.consumer.consumer_member import (
    LEAVE_EPOCH,
    NO_ASSIGNMENT,
    NO_PARTITIONS,
    NOTHING,
    Assignment,
    ConsumerMember,
    Owned,
)
from barnabas.coordinator.groups.consumer.regex_subscriptions import Resolved
from barnabas.coordinator.groups.consumer.subscription_counts import Subscriptions
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.list_groups import ListGroupsResponse
from barnabas.protocol.records.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from barnabas.protocol.records.group_records import OffsetCommitValue
from barnabas.protocol.types import Uuid

CONSUMER_PROTOCOL_TYPE = "consumer"
# A group begins at epoch 1, and its first member makes it 2 (Kafka 4.3: ModernGroup).
_FIRST_EPOCH = 1
_NO_TARGET_EPOCH = -1
# OffsetCommit v9+ has a field for member epochs.
_MEMBER_EPOCH_VERSION = 9

# Validates a commit of one partition by topic id and number; raises KafkaError.
PartitionCheck = Callable[[Uuid, int], None]


class ConsumerGroupState(enum.Enum):
    """The state of a group; clients see the values."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class ConsumerGroup:
    """Members, epochs and target of one group.

    `metadata_epoch` is the group epoch at which the subscribed topics were last examined; None
    makes the next heartbeat examine them.
    """

    type_name = "consumer"

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.group_epoch = _FIRST_EPOCH
        self.metadata_hash = 0
        self.assignment_epoch = _FIRST_EPOCH
        self.assignment_timestamp_ms = 0
        self.members: dict[str, ConsumerMember] = {}
        self.static_members: dict[str, str] = {}
        self.subscriptions = Subscriptions()
        self.target: dict[str, Assignment] = {}
        # By topic and partition, the epoch of the member that has it.
        self._partition_epochs: dict[Uuid, dict[int, int]] = {}
        self.classic_count = 0
        self._classic_support: Counter[str] = Counter()
        self._assignors: Counter[str] = Counter()
        self.has_partition_metadata = False
        self.metadata_epoch: int | None = None

    def __repr__(self) -> str:
        return (
            f"ConsumerGroup({self.group_id!r}, {self.state_name}, epoch={self.group_epoch}, "
            f"target={self.assignment_epoch}, members={list(self.members)})"
        )

    # Properties of the group

    @property
    def state(self) -> ConsumerGroupState:
        """Return how far the group is with its epoch."""
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.group_epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        epoch = self.assignment_epoch
        if all(member.is_reconciled_to(epoch) for member in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    @property
    def state_name(self) -> str:
        """The state as clients see it."""
        return self.state.value

    @property
    def is_empty(self) -> bool:
        """True when the group has no members."""
        return not self.members

    @property
    def wants_metadata(self) -> bool:
        """True when the subscribed topics must be examined again.

        An examination does not count when its epoch was never written because the append was
        refused.
        """
        return self.metadata_epoch is None or self.group_epoch < self.metadata_epoch

    def is_settled_for(self, member: ConsumerMember) -> bool:
        """True when a member that changes nothing needs nothing: the usual heartbeat."""
        epoch = self.assignment_epoch
        return (
            epoch >= self.group_epoch and not self.wants_metadata and member.is_reconciled_to(epoch)
        )

    def is_subscribed_to(self, topic: str) -> bool:
        """True when a member consumes the topic."""
        return topic in self.subscriptions

    def member(self, member_id: str) -> ConsumerMember:
        """Return a member. Raises UNKNOWN_MEMBER_ID."""
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"Member {member_id} is not a member of group {self.group_id}.",
            )
        return member

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        """Return the member that has an instance id, None without one."""
        if instance_id is None:
            return None
        member_id = self.static_members.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def target_of(self, member: ConsumerMember) -> Assignment:
        """Return a member's target, for a static member by its instance id."""
        member_id = member.member_id
        if member.instance_id is not None:
            member_id = self.static_members.get(member.instance_id, member_id)
        return self.target.get(member_id, NO_ASSIGNMENT)

    def partition_epochs(self, topic_id: Uuid) -> Mapping[int, int]:
        """Return the assigned partitions of a topic, with the epochs of their members."""
        return self._partition_epochs.get(topic_id, NO_PARTITIONS)

    def preferred_assignor(
        self, old: ConsumerMember | None = None, new: ConsumerMember | None = None
    ) -> str | None:
        """Return the assignor that most members request when `new` replaces `old`."""
        counts = Counter(self._assignors)
        if old is not None and old.server_assignor is not None:
            counts[old.server_assignor] -= 1
        if new is not None and new.server_assignor is not None:
            counts[new.server_assignor] += 1
        wanted = counts.most_common(1)
        return wanted[0][0] if wanted and wanted[0][1] > 0 else None

    def supports_classic(self, protocol_type: str, names: Collection[str]) -> bool:
        """True when a classic member with these protocols can be in the group with the others."""
        return protocol_type == CONSUMER_PROTOCOL_TYPE and any(
            self._classic_support[name] == self.classic_count for name in names
        )

    def all_classic_without(self, leaving: Collection[ConsumerMember]) -> bool:
        """True when only members of the classic protocol are left without these members."""
        gone = sum(member.uses_classic_protocol for member in leaving)
        return self.classic_count - gone == len(self.members) - len(leaving)

    def awaits_release(self, member: ConsumerMember) -> bool:
        """True when another member still holds a partition of this member's target."""
        return any(
            partition not in member.assigned.get(topic_id, NO_PARTITIONS)
            and partition in self.partition_epochs(topic_id)
            for topic_id, partitions in self.target_of(member).items()
            for partition in partitions
        )

    # Validation of requests about its offsets and its deletion

    def validate_offset_commit(
        self,
        member_id: str,
        group_instance_id: str | None,
        member_epoch: int,
        *,
        version: int = _MEMBER_EPOCH_VERSION,
        is_transactional: bool = False,
    ) -> PartitionCheck | None:
        """Raise the error of a commit, or return the check of each of its partitions.

        An older epoch of the member is enough for partitions that it has had since then (KIP-1251).
        """
        if member_epoch < 0 and not self.members:
            return None
        if is_transactional and member_epoch == -1 and not member_id and group_instance_id is None:
            return None
        member = self.member(member_id)
        if not is_transactional and member.classic is None and version < _MEMBER_EPOCH_VERSION:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                "OffsetCommit version 9 or above must be used by members using the consumer "
                "group protocol",
            )
        if member_epoch == member.member_epoch:
            return None
        stale = _stale_code(member)
        if member_epoch > member.member_epoch:
            raise KafkaError(
                stale,
                f"Received epoch {member_epoch} is newer than current member epoch "
                f"{member.member_epoch}.",
            )

        def check(topic_id: Uuid, partition: int) -> None:
            since = member.assigned.get(topic_id, NO_PARTITIONS).get(partition)
            if since is None:
                since = member.revoking.get(topic_id, NO_PARTITIONS).get(partition)
            if since is None or member_epoch < since:
                raise KafkaError(
                    stale, f"The member has partition {partition} since epoch {since}."
                )

        return check

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Raise UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH or ILLEGAL_GENERATION."""
        if member_id is None and member_epoch < 0:
            return
        member = self.member(member_id or "")
        if member_epoch != member.member_epoch:
            raise KafkaError(
                _stale_code(member),
                f"The received member epoch {member_epoch} does not match the expected member "
                f"epoch {member.member_epoch}.",
            )

    def validate_offset_delete(self) -> None:
        """Accept: offsets of topics without consumers may be deleted at any time."""

    def validate_delete(self) -> None:
        """Raise NON_EMPTY_GROUP while the group has members."""
        if self.members:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP, "the group has members")

    def offset_expiration_base(self) -> Callable[[OffsetCommitValue], int]:
        """Return the time from which an offset's retention counts: its commit, in milliseconds."""
        return lambda value: value.commit_timestamp

    def listed(self) -> ListGroupsResponse.ListedGroup:
        """Return the group's entry in ListGroups."""
        return ListGroupsResponse.ListedGroup(
            group_id=self.group_id,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            group_state=self.state_name,
            group_type=self.type_name,
        )

    def tombstones(self) -> list[Record]:
        """Return the records that remove the group."""
        return consumer_records.group_tombstones(
            self.group_id, list(self.members), self.subscriptions.resolved
        )

    # Replay

    def replay_epoch(self, value: ConsumerGroupMetadataValue) -> None:
        """Apply the group's epoch."""
        self.group_epoch = value.epoch
        self.metadata_hash = value.metadata_hash

    def replay_subscription(
        self, member_id: str, value: ConsumerGroupMemberMetadataValue | None
    ) -> None:
        """Apply a member's subscription, or its removal."""
        old = self.members.get(member_id)
        if value is None:
            if old is not None:
                self._replace(old, None)
            return
        self._replace(
            old,
            attrs.evolve(
                old or ConsumerMember(member_id),
                instance_id=value.instance_id,
                rack_id=value.rack_id,
                client_id=value.client_id,
                client_host=value.client_host,
                subscribed_names=self.subscriptions.shared(frozenset(value.subscribed_topic_names)),
                subscribed_regex=value.subscribed_topic_regex or "",
                rebalance_timeout_ms=value.rebalance_timeout_ms,
                server_assignor=value.server_assignor,
                classic=consumer_records.read_classic_part(value),
            ),
        )

    def replay_current(
        self, member_id: str, value: ConsumerGroupCurrentMemberAssignmentValue | None
    ) -> None:
        """Apply a member's current assignment."""
        old = self.members.get(member_id)
        if value is None:
            if old is not None:
                gone = attrs.evolve(
                    old,
                    member_epoch=LEAVE_EPOCH,
                    previous_member_epoch=LEAVE_EPOCH,
                    assigned=NOTHING,
                    revoking=NOTHING,
                )
                self._replace(old, gone)
            return
        epoch = value.member_epoch
        self._replace(
            old,
            attrs.evolve(
                old or ConsumerMember(member_id),
                member_epoch=epoch,
                previous_member_epoch=value.previous_member_epoch,
                state=consumer_records.read_state(value),
                assigned=consumer_records.read_owned(value.assigned_partitions, epoch),
                revoking=consumer_records.read_owned(value.partitions_pending_revocation, epoch),
            ),
        )

    def replay_target(
        self, member_id: str, value: ConsumerGroupTargetAssignmentMemberValue | None
    ) -> None:
        """Apply a member's target."""
        if value is None:
            self.target.pop(member_id, None)
        else:
            self.target[member_id] = consumer_records.read_target(value)

    def replay_target_epoch(self, value: ConsumerGroupTargetAssignmentMetadataValue | None) -> None:
        """Apply the epoch of the target."""
        self.assignment_epoch = _NO_TARGET_EPOCH if value is None else value.assignment_epoch
        self.assignment_timestamp_ms = 0 if value is None else value.assignment_timestamp

    def replay_regex(self, regex: str, value: ConsumerGroupRegularExpressionValue | None) -> None:
        """Apply the topics that an expression matches."""
        resolved = None
        if value is not None:
            resolved = Resolved(frozenset(value.topics), value.version, value.timestamp)
        self.subscriptions.resolve(regex, resolved)

    def replay_partition_metadata(self, value: ConsumerGroupPartitionMetadataValue | None) -> None:
        """Note a record of an older broker, which the next epoch removes."""
        self.has_partition_metadata = value is not None

    def _replace(self, old: ConsumerMember | None, new: ConsumerMember | None) -> None:
        self.subscriptions.replace(old, new)
        if old is not None:
            self._count(old, -1)
            self._release(old.assigned, old.member_epoch)
            self._release(old.revoking, old.member_epoch)
            instance_id = old.instance_id
            if new is None and self.static_members.get(instance_id or "") == old.member_id:
                del self.static_members[instance_id or ""]
        if new is None:
            if old is not None:
                del self.members[old.member_id]
            return
        self.members[new.member_id] = new
        self._count(new, 1)
        self._take(new.assigned, new.member_epoch)
        self._take(new.revoking, new.member_epoch)
        if new.instance_id is not None:
            self.static_members[new.instance_id] = new.member_id

    def _count(self, member: ConsumerMember, step: int) -> None:
        if member.server_assignor is not None:
            self._assignors[member.server_assignor] += step
        if member.classic is not None:
            self.classic_count += step
            for name, _ in member.classic.protocols:
                self._classic_support[name] += step

    def _release(self, owned: Owned, epoch: int) -> None:
        for topic_id, partitions in owned.items():
            epochs = self._partition_epochs.get(topic_id)
            if epochs is None:
                continue
            for partition in partitions:
                # Another member has it already when compaction dropped the record of its release.
                if epochs.get(partition) == epoch:
                    del epochs[partition]
            if not epochs:
                del self._partition_epochs[topic_id]

    def _take(self, owned: Owned, epoch: int) -> None:
        for topic_id, partitions in owned.items():
            epochs = self._partition_epochs.setdefault(topic_id, {})
            for partition in partitions:
                before = epochs.get(partition)
                if before is not None and before >= epoch:
                    raise RuntimeError(
                        f"{self!r}: {topic_id}-{partition} is still owned at epoch {before}"
                    )
                epochs[partition] = epoch


def _stale_code(member: ConsumerMember) -> ErrorCode:
    if member.uses_classic_protocol:
        return ErrorCode.ILLEGAL_GENERATION
    return ErrorCode.STALE_MEMBER_EPOCH

"""A classic group: its members, generation and protocol, and its record.

Kafka: ClassicGroup.
"""

from collections import Counter
from collections.abc import Callable

from barnabas.coordinator.core.coordinator_output import Record, Token
from barnabas.coordinator.groups.classic.classic_member import ClassicMember, Protocols
from barnabas.coordinator.groups.classic.classic_state import (
    COMPLETING_REBALANCE,
    DEAD,
    EMPTY,
    STABLE,
    TRANSITIONS,
    ClassicGroupState,
)
from barnabas.coordinator.groups.classic.classic_subscription import subscribed_topics
from barnabas.coordinator.groups.offset_and_group_records import group_tombstone
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.describe_groups import DescribeGroupsResponse
from barnabas.protocol.messages.list_groups import ListGroupsResponse
from barnabas.protocol.records.group_records import GroupMetadataValue, OffsetCommitValue

CONSUMER_PROTOCOL_TYPE = "consumer"


class ClassicGroup:
    """One group of the classic protocol, or a simple one: offsets without members.

    `state_timestamp_ms` is when the state last changed, None when its record has no time.
    """

    type_name = "classic"

    def __init__(self, group_id: str, now_ms: int | None = None) -> None:
        self.group_id = group_id
        self.state = EMPTY
        self.previous_state = DEAD
        self.state_timestamp_ms = now_ms
        self.generation_id = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        # In the order of joining, which elects leaders.
        self.members: dict[str, ClassicMember] = {}
        self.static_members: dict[str, str] = {}
        self.pending_joins: set[str] = set()
        self.pending_syncs: set[str] = set()
        # True when a member joined during the initial delay, which may extend it.
        self.new_member_added = False
        # The number of members that offer each protocol.
        self._support: Counter[str] = Counter()
        # None: unknown (another protocol type, or a subscription that cannot be parsed).
        self.subscribed_topics: frozenset[str] | None = None

    def __repr__(self) -> str:
        return (
            f"ClassicGroup({self.group_id!r}, {self.state.value}, generation={self.generation_id}, "
            f"members={list(self.members)})"
        )

    # Properties of the group

    @property
    def state_name(self) -> str:
        """The state as clients see it."""
        return self.state.value

    @property
    def is_empty(self) -> bool:
        """True when the group has no members."""
        return self.state is EMPTY

    @property
    def uses_consumer_protocol(self) -> bool:
        """True when its subscriptions are those of consumers, which can be read here."""
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    @property
    def rebalance_timeout_ms(self) -> int:
        """The time that members have to rejoin: the longest rebalance timeout of a member."""
        return max((m.rebalance_timeout_ms for m in self.members.values()), default=0)

    @property
    def awaiting_join_count(self) -> int:
        """The number of members that wait for a JoinGroup response."""
        return sum(m.awaiting_join is not None for m in self.members.values())

    @property
    def has_all_members_joined(self) -> bool:
        """True when all members have joined in the join phase."""
        return not self.pending_joins and all(
            m.awaiting_join is not None for m in self.members.values()
        )

    def is_leader(self, member_id: str) -> bool:
        """True when the member makes the assignment."""
        return self.leader_id is not None and self.leader_id == member_id

    def is_subscribed_to(self, topic: str) -> bool:
        """True when a member consumes the topic, or when that is unknown."""
        if self.subscribed_topics is None:
            return self.uses_consumer_protocol
        return topic in self.subscribed_topics

    def validate_member(self, member_id: str, group_instance_id: str | None) -> None:
        """Raise UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID for the predecessor of a static member."""
        if group_instance_id is not None:
            current = self.static_members.get(group_instance_id)
            if current is None:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, "no member has this instance id")
            if current != member_id:
                raise KafkaError(
                    ErrorCode.FENCED_INSTANCE_ID, "another member has this instance id"
                )
        if member_id not in self.members:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, "the member is not in the group")

    def validate_offset_commit(
        self,
        member_id: str,
        group_instance_id: str | None,
        generation_id: int,
        *,
        is_transactional: bool = False,
    ) -> None:
        """Raise the error of a commit (Kafka: ClassicGroup.validateOffsetCommit).

        A commit without a member needs an empty group. While the leader assigns, no commit is
        accepted. Neither holds for transactional commits, as the transaction coordinator fences
        them.
        """
        if self.state is DEAD:
            raise KafkaError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE, "the coordinator of the group has moved"
            )
        if self.state is EMPTY and generation_id < 0:
            return
        if generation_id >= 0 or member_id or group_instance_id is not None:
            self.validate_member(member_id, group_instance_id)
            if generation_id != self.generation_id:
                raise KafkaError(ErrorCode.ILLEGAL_GENERATION, "the generation is no longer valid")
        elif self.state is not EMPTY and not is_transactional:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, "the group has members")
        if self.state is COMPLETING_REBALANCE and not is_transactional:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS, "the group waits for its assignment")

    def validate_offset_delete(self) -> None:
        """Raise NON_EMPTY_GROUP when it is unknown which topics the members consume."""
        if self.state is not EMPTY and not self.uses_consumer_protocol:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP, "the group has members")

    def validate_delete(self) -> None:
        """Raise NON_EMPTY_GROUP while the group has members."""
        if self.state is not EMPTY:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP, "the group has members")

    def offset_expiration_base(self) -> Callable[[OffsetCommitValue], int] | None:
        """Return the time from which an offset's retention counts, in ms; None: no offset expires
        now.

        While the group has members, an offset of a topic that they do not consume counts from its
        commit. Once they have left, all offsets count from then (KIP-496, KIP-211).
        """
        if self.protocol_type is None:
            return _commit_timestamp
        if self.state is EMPTY:
            since_ms = self.state_timestamp_ms
            return _commit_timestamp if since_ms is None else lambda _value: since_ms
        if (
            self.state is STABLE
            and self.uses_consumer_protocol
            and self.subscribed_topics is not None
        ):
            return _commit_timestamp
        return None

    def listed(self) -> ListGroupsResponse.ListedGroup:
        """Return the group's entry in ListGroups."""
        return ListGroupsResponse.ListedGroup(
            group_id=self.group_id,
            protocol_type=self.protocol_type or "",
            group_state=self.state_name,
            group_type=self.type_name,
        )

    def described(self) -> DescribeGroupsResponse.DescribedGroup:
        """Return the group's entry in DescribeGroups; only a stable group shows subscriptions."""
        stable = self.state is STABLE
        return DescribeGroupsResponse.DescribedGroup(
            group_id=self.group_id,
            group_state=self.state_name,
            protocol_type=self.protocol_type or "",
            protocol_data=(self.protocol_name or "") if stable else "",
            members=[
                DescribeGroupsResponse.DescribedGroupMember(
                    member_id=member.member_id,
                    group_instance_id=member.group_instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    member_metadata=member.metadata(self.protocol_name) if stable else b"",
                    member_assignment=member.assignment,
                )
                for member in self.members.values()
            ],
        )

    # Changes in memory

    def transition_to(self, state: ClassicGroupState, now_ms: int) -> None:
        """Change the state. Raises RuntimeError for a transition that is not in `TRANSITIONS`."""
        if state not in TRANSITIONS[self.state]:
            raise RuntimeError(f"{self!r} cannot become {state.value}")
        self.previous_state = self.state
        self.state = state
        self.state_timestamp_ms = now_ms

    def add(self, member: ClassicMember, awaiting_join: Token | None) -> None:
        """Add a member; the first one sets the group's protocol type and is its leader."""
        if not self.members:
            self.protocol_type = member.protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
        member.awaiting_join = awaiting_join
        self._count_support(member, 1)
        self.pending_joins.discard(member.member_id)

    def update(
        self,
        member: ClassicMember,
        protocols: Protocols,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        awaiting_join: Token | None,
    ) -> None:
        """Take the values of a member that joins again."""
        self._count_support(member, -1)
        member.protocols = protocols
        self._count_support(member, 1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms
        member.awaiting_join = awaiting_join

    def remove(self, member_id: str) -> None:
        """Remove a member, joined or pending; the oldest member replaces a leader."""
        removed = self.members.pop(member_id, None)
        if removed is not None:
            self._count_support(removed, -1)
            if removed.group_instance_id is not None:
                self.static_members.pop(removed.group_instance_id, None)
        if self.is_leader(member_id):
            self.leader_id = next(iter(self.members), None)
        self.pending_joins.discard(member_id)
        self.pending_syncs.discard(member_id)

    def replace_static_member(self, group_instance_id: str, new_member_id: str) -> ClassicMember:
        """Replace a static member by its successor, which has no parked request."""
        old_member_id = self.static_members[group_instance_id]
        member = self.members.pop(old_member_id)
        member.member_id = new_member_id
        member.awaiting_join = member.awaiting_sync = None
        self.members[new_member_id] = member
        self.static_members[group_instance_id] = new_member_id
        self.pending_syncs.discard(old_member_id)
        if self.is_leader(old_member_id):
            self.leader_id = new_member_id
        return member

    def elect_joined_leader(self) -> bool:
        """Elect a leader that has joined, if the present one has not; False when no member has."""
        if self.leader_id is None:
            return False
        if self.members[self.leader_id].awaiting_join is not None:
            return True
        for member in self.members.values():
            if member.awaiting_join is not None:
                self.leader_id = member.member_id
                return True
        return False

    def begin_generation(self, now_ms: int) -> None:
        """End the join phase of a group with members: the next generation waits for its syncs."""
        self.generation_id += 1
        self.protocol_name = self.select_protocol()
        self.subscribed_topics = self._subscribed_topics()
        self.transition_to(COMPLETING_REBALANCE, now_ms)
        self.pending_syncs = set(self.members)

    # Choice of the protocol

    def supports_protocols(self, protocol_type: str, names: set[str]) -> bool:
        """True when a member with these protocols can be in the group together with the others."""
        if self.state is EMPTY:
            return bool(protocol_type) and bool(names)
        size = len(self.members)
        return self.protocol_type == protocol_type and any(
            self._support[name] == size for name in names
        )

    def select_protocol(self, changed: dict[str, Protocols] | None = None) -> str:
        """Return the protocol with the most first votes among those that all members support.

        `changed` has protocols that members would offer instead of their present ones.
        """
        offers = [
            (changed or {}).get(member.member_id, member.protocols)
            for member in self.members.values()
        ]
        support = Counter(name for offer in offers for name in {name for name, _ in offer})
        common = {name for name, count in support.items() if count == len(offers)}
        votes = Counter(next(name for name, _ in offer if name in common) for offer in offers)
        return votes.most_common(1)[0][0]

    def _count_support(self, member: ClassicMember, step: int) -> None:
        for name in {name for name, _ in member.protocols}:
            self._support[name] += step

    def _subscribed_topics(self) -> frozenset[str] | None:
        if not self.uses_consumer_protocol:
            return None
        if not self.members:
            return frozenset()
        if self.protocol_name is None:
            return None
        return subscribed_topics(m.metadata(self.protocol_name) for m in self.members.values())

    # The group's record

    def tombstones(self) -> list[Record]:
        """Return the removal of the group."""
        return [group_tombstone(self.group_id)]

    def record_value(self, assignments: dict[str, bytes]) -> GroupMetadataValue:
        """Return the group's record, with these assignments by member id."""
        return GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation_id,
            protocol=self.protocol_name,
            leader=self.leader_id,
            current_state_timestamp=_timestamp(self.state_timestamp_ms),
            members=[
                GroupMetadataValue.MemberMetadata(
                    member_id=member_id,
                    group_instance_id=member.group_instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout=member.rebalance_timeout_ms,
                    session_timeout=member.session_timeout_ms,
                    subscription=member.metadata(self.protocol_name),
                    assignment=assignments.get(member_id, b""),
                )
                for member_id, member in self.members.items()
            ],
        )

    def empty_record_value(self, now_ms: int) -> GroupMetadataValue:
        """Return the record of the next generation, which has no members."""
        return GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation_id + 1,
            protocol=None,
            leader=None,
            current_state_timestamp=now_ms,
            members=[],
        )

    def replay(self, value: GroupMetadataValue) -> None:
        """Apply the group's record.

        A member that was there before keeps what the record does not hold: its other protocols and
        its parked requests. After a restart there is nothing to keep.
        """
        before = self.members
        self.protocol_type = value.protocol_type or None
        self.protocol_name = value.protocol
        self.leader_id = value.leader
        self.generation_id = value.generation
        timestamp = value.current_state_timestamp
        self.state_timestamp_ms = None if timestamp == -1 else timestamp
        self.members = {
            member.member_id: _replayed_member(value, member, before.get(member.member_id))
            for member in value.members
        }
        self.static_members = {
            member.group_instance_id: member.member_id
            for member in self.members.values()
            if member.group_instance_id is not None
        }
        self._support = Counter()
        for member in self.members.values():
            self._count_support(member, 1)
        self.pending_syncs &= self.members.keys()
        self.subscribed_topics = self._subscribed_topics()
        self.previous_state = self.state
        self.state = STABLE if self.members else EMPTY


def _commit_timestamp(value: OffsetCommitValue) -> int:
    return value.commit_timestamp


def _timestamp(timestamp_ms: int | None) -> int:
    return -1 if timestamp_ms is None else timestamp_ms


def _replayed_member(
    value: GroupMetadataValue,
    member: GroupMetadataValue.MemberMetadata,
    before: ClassicMember | None,
) -> ClassicMember:
    if before is not None:
        before.assignment = member.assignment
        return before
    # Records before version 1 have no rebalance timeout.
    rebalance_timeout_ms = member.rebalance_timeout
    return ClassicMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=(
            member.session_timeout if rebalance_timeout_ms == -1 else rebalance_timeout_ms
        ),
        session_timeout_ms=member.session_timeout,
        protocol_type=value.protocol_type,
        protocols=[(value.protocol or "", member.subscription)],
        assignment=member.assignment,
    )

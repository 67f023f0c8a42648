"""The state of one member of a consumer group, as its records build it.

Kafka: ConsumerGroupMember. Members are immutable: a decision makes the next value, and replaying
its records replaces the present value.
"""

import enum
from collections.abc import Mapping
from typing import Final, TypeAlias

import attrs

from barnabas.coordinator.core.coordinator_output import Caller
from barnabas.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from barnabas.protocol.types import Uuid

# Partitions by topic id: a member's target.
Assignment: TypeAlias = Mapping[Uuid, frozenset[int]]
# Partitions by topic id, each with the epoch at which the member got it.
Owned: TypeAlias = Mapping[Uuid, Mapping[int, int]]
# Protocols of the classic protocol: names with subscriptions, in order of preference.
ClassicProtocols: TypeAlias = tuple[tuple[str, bytes], ...]

NOTHING: Final[Owned] = {}
NO_PARTITIONS: Final[Mapping[int, int]] = {}
NO_ASSIGNMENT: Final[Assignment] = {}

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
STATIC_LEAVE_EPOCH: Final = -2


class MemberState(enum.IntEnum):
    """A member's state relative to its target; the values are those of its record."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127

    @classmethod
    def of(cls, value: int) -> "MemberState":
        """Return the state of a record; UNKNOWN for one of a later Kafka."""
        try:
            return cls(value)
        except ValueError:
            return cls.UNKNOWN


@attrs.frozen
class ClassicPart:
    """The classic protocol's part of a member."""

    session_timeout_ms: int
    protocols: ClassicProtocols

    @property
    def protocol_name(self) -> str:
        """The protocol that it must use: the one that it prefers."""
        return self.protocols[0][0]


@attrs.frozen(slots=True)
class ConsumerMember:
    """A member: its identity, its subscription, its assignment and what it must revoke.

    `member_epoch` is -2 for a static member that is away and -1 for one that is about to be
    removed. `revoking` are partitions whose revocation the member has not confirmed yet.
    """

    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    subscribed_names: frozenset[str] = frozenset()
    subscribed_regex: str = ""
    server_assignor: str | None = None
    assigned: Owned = NOTHING
    revoking: Owned = NOTHING
    classic: ClassicPart | None = None

    @property
    def uses_classic_protocol(self) -> bool:
        """True when it joins and syncs as classic members do."""
        return self.classic is not None

    def is_reconciled_to(self, target_epoch: int) -> bool:
        """True when it has all of that target, and nothing else."""
        return self.state is MemberState.STABLE and self.member_epoch == target_epoch

    def updated(self, request: ConsumerGroupHeartbeatRequest, caller: Caller) -> "ConsumerMember":
        """Return the member with the values of a heartbeat; itself when nothing is new."""
        if (
            request.subscribed_topic_names is None
            and request.subscribed_topic_regex is None
            and request.rebalance_timeout_ms == -1
            and request.rack_id is None
            and request.server_assignor is None
            and request.instance_id in (None, self.instance_id)
            and caller.client_id == self.client_id
            and caller.client_host == self.client_host
            and self.classic is None
        ):
            return self  # nearly every heartbeat
        changes: dict[str, object] = {}
        names = request.subscribed_topic_names
        if names is not None and self.subscribed_names != (stated := frozenset(names)):
            changes["subscribed_names"] = stated
        timeout_ms = request.rebalance_timeout_ms
        if timeout_ms not in (-1, self.rebalance_timeout_ms):
            changes["rebalance_timeout_ms"] = timeout_ms
        texts = (
            ("instance_id", request.instance_id),
            ("rack_id", request.rack_id),
            ("subscribed_regex", request.subscribed_topic_regex),
            ("server_assignor", request.server_assignor),
            ("client_id", caller.client_id),
            ("client_host", caller.client_host),
        )
        changes |= {
            field: text for field, text in texts if text not in (None, getattr(self, field))
        }
        if self.classic is not None:
            changes["classic"] = None
        return attrs.evolve(self, **changes) if changes else self

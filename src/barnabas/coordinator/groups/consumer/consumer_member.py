"""A member of a consumer group, as its records picture it.

Kafka: ConsumerGroupMember. Members are values: a decision makes the next one from the present
one, and replaying the records that it wrote puts that in its place.
"""

import enum
from collections.abc import Mapping
from typing import Final, TypeAlias

import attrs

from barnabas.coordinator.core.coordinator_output import Caller
from barnabas.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from barnabas.protocol.types import Uuid

# Partitions by topic id: what a member shall have.
Assignment: TypeAlias = Mapping[Uuid, frozenset[int]]
# Partitions by topic id, each with the epoch at which the member was given it.
Owned: TypeAlias = Mapping[Uuid, Mapping[int, int]]
# Protocols of the classic kind: names with subscriptions, in order of preference.
ClassicProtocols: TypeAlias = tuple[tuple[str, bytes], ...]

NOTHING: Final[Owned] = {}
NO_PARTITIONS: Final[Mapping[int, int]] = {}
NO_ASSIGNMENT: Final[Assignment] = {}

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
STATIC_LEAVE_EPOCH: Final = -2


class MemberState(enum.IntEnum):
    """How a member stands to its target; the values are those of its record."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127

    @classmethod
    def of(cls, value: int) -> "MemberState":
        """The state of a record; one from a later Kafka is unknown."""
        try:
            return cls(value)
        except ValueError:
            return cls.UNKNOWN


@attrs.frozen
class ClassicPart:
    """What a member of the classic protocol brings along."""

    session_timeout_ms: int
    protocols: ClassicProtocols

    @property
    def protocol_name(self) -> str:
        """The protocol that it is told to use: the one it likes best."""
        return self.protocols[0][0]


@attrs.frozen(slots=True)
class ConsumerMember:
    """A member: who it is, what it subscribes to, what it owns and has to give up.

    `member_epoch` is -2 for a static member that is away and -1 for one about to be removed.
    `revoking` is what it was told to give up and has not confirmed yet.
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
        """Whether it joins and syncs as classic members do."""
        return self.classic is not None

    def is_reconciled_to(self, target_epoch: int) -> bool:
        """Whether it has all of that target, and nothing else."""
        return self.state is MemberState.STABLE and self.member_epoch == target_epoch

    def told(self, request: ConsumerGroupHeartbeatRequest, caller: Caller) -> "ConsumerMember":
        """The member with what a heartbeat says of it; itself when that is nothing new."""
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
        if names is not None and self.subscribed_names != (told := frozenset(names)):
            changes["subscribed_names"] = told
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

"""The states of a member of a classic group, with a protocol type of the caller.

    UNJOINED -> JOINING -> SYNCING -> STABLE -> (rebalance) UNJOINED
                                         any -> LEFT

One request is in flight at a time. The leader of a generation computes every member's assignment.
A member that hears nothing for the session timeout must take itself for lost: the coordinator has
given its part to another member by then.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple, Protocol

import attrs

from barnabas.protocol.errors import ErrorCode, KafkaError, error_code
from barnabas.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from barnabas.protocol.messages.leave_group import LeaveGroupRequest
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

GroupRequest = JoinGroupRequest | SyncGroupRequest | HeartbeatRequest
GroupResponse = JoinGroupResponse | SyncGroupResponse | HeartbeatResponse

_NO_GENERATION: Final = -1
_COORDINATOR_MOVED: Final = frozenset(
    (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
)


@attrs.frozen
class GroupSettings:
    """The group to join, and its timeouts in seconds."""

    group_id: str
    protocol_type: str
    session_timeout_s: float = 10.0
    rebalance_timeout_s: float = 60.0
    heartbeat_interval_s: float = 3.0
    instance_id: str | None = None
    """The identity of a static member (KIP-345): it keeps its part over a restart."""
    leaves_at_end: bool = True
    """False when a static member stays in the group until its session ends, to be restarted."""


class GroupProtocol(Protocol):
    """The metadata of members and the assignment of a kind of group."""

    def protocols(self) -> Sequence[tuple[str, bytes]]:
        """Return the names and metadata to join with, the preferred one first."""
        ...

    def assign(self, protocol: str, members: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """Return every member's assignment, by member id, from the metadata of all.

        The group's leader calls it, so it must not wait.
        """
        ...


@attrs.frozen
class Assigned:
    """The member has its part of a new generation."""

    generation: int
    member_id: str
    leader_id: str
    protocol: str
    assignment: bytes

    @property
    def is_leader(self) -> bool:
        """True when this member computed the assignment."""
        return self.member_id == self.leader_id


@attrs.frozen
class Revoked:
    """The member's part is no longer its own: a rebalance began, or the group dropped it."""

    is_lost: bool
    """True when another member may have the part already."""


GroupEvent = Assigned | Revoked


class MemberState(Enum):
    """The state of a member."""

    UNJOINED = "unjoined"
    JOINING = "joining"
    SYNCING = "syncing"
    STABLE = "stable"
    LEFT = "left"


class Step(NamedTuple):
    """The next action: events to pass on, then a request, or no request before `wake_at`."""

    events: list[GroupEvent]
    request: GroupRequest | None
    wake_at: float


class GroupMember:
    """One member. `poll` says what to do; `receive` and `request_failed` take the outcome in.

    Times are seconds of any clock that never goes back.
    """

    def __init__(self, settings: GroupSettings, protocol: GroupProtocol) -> None:
        self.state = MemberState.UNJOINED
        self.member_id = ""
        self.generation = _NO_GENERATION
        self.coordinator_moved = False
        """True when the coordinator must be looked up before the next request."""
        self.retries_later = False
        """True when the next request should wait for a backoff."""
        self._settings = settings
        self._protocol = protocol
        self._rejoin_wanted = False
        self._joined: JoinGroupResponse | None = None
        self._sent_at = 0.0
        self._heartbeat_at = 0.0
        self._session_ends = float("inf")

    @property
    def session_ends(self) -> float:
        """When the member is lost unless the coordinator answers; infinite while it has no part."""
        return self._session_ends

    def request_rejoin(self) -> None:
        """Have the group rebalance at the next poll, as when this member's metadata changed."""
        self._rejoin_wanted = True

    def leave_request(self) -> LeaveGroupRequest | None:
        """Leave and return the request for it; None when none is needed.

        A static member's request needs version 3, another member's is for version 2.
        """
        settings = self._settings
        member_id, self.member_id = self.member_id, ""
        self.state = MemberState.LEFT
        if not member_id or not settings.leaves_at_end:
            return None
        if settings.instance_id is None:
            return LeaveGroupRequest(group_id=settings.group_id, member_id=member_id)
        member = LeaveGroupRequest.MemberIdentity(
            member_id=member_id, group_instance_id=settings.instance_id
        )
        return LeaveGroupRequest(group_id=settings.group_id, members=[member])

    def poll(self, now: float) -> Step:
        """Return what to do now. Call it when no request is in flight."""
        events: list[GroupEvent] = []
        self.retries_later = False
        if self.state is MemberState.STABLE:
            if now >= self._session_ends:
                events += self._drop(is_lost=True)
            elif self._rejoin_wanted:
                events += self._drop(is_lost=False)
            elif now < self._heartbeat_at:
                return Step(events, None, min(self._heartbeat_at, self._session_ends))
        self._sent_at = now
        return Step(events, self._request(), now)

    def _request(self) -> GroupRequest | None:
        settings = self._settings
        if self.state is MemberState.LEFT:
            return None
        if self.state is MemberState.STABLE:
            return HeartbeatRequest(
                group_id=settings.group_id,
                generation_id=self.generation,
                member_id=self.member_id,
                group_instance_id=settings.instance_id,
            )
        if self.state is MemberState.SYNCING and self._joined is not None:
            return self._sync_request(self._joined)
        self.state = MemberState.JOINING
        self._rejoin_wanted = False
        return JoinGroupRequest(
            group_id=settings.group_id,
            session_timeout_ms=round(settings.session_timeout_s * 1000),
            rebalance_timeout_ms=round(settings.rebalance_timeout_s * 1000),
            member_id=self.member_id,
            group_instance_id=settings.instance_id,
            protocol_type=settings.protocol_type,
            protocols=[
                JoinGroupRequest.JoinGroupRequestProtocol(name=name, metadata=metadata)
                for name, metadata in self._protocol.protocols()
            ],
        )

    def _sync_request(self, joined: JoinGroupResponse) -> SyncGroupRequest:
        protocol = joined.protocol_name or ""
        assignments: Mapping[str, bytes] = {}
        if joined.leader == joined.member_id and not joined.skip_assignment:
            members = {member.member_id: member.metadata for member in joined.members}
            assignments = self._protocol.assign(protocol, members)
        return SyncGroupRequest(
            group_id=self._settings.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self._settings.instance_id,
            protocol_type=self._settings.protocol_type,
            protocol_name=protocol,
            assignments=[
                SyncGroupRequest.SyncGroupRequestAssignment(member_id=member, assignment=part)
                for member, part in assignments.items()
            ],
        )

    def receive(self, response: GroupResponse) -> list[GroupEvent]:
        """Take the response to the last request in. Raises KafkaError when the group is closed.

        A member that raises has left: it cannot join with these settings or as this principal.
        """
        code = error_code(response.error_code)
        if code is not ErrorCode.NONE:
            return self._refused(code, response)
        if isinstance(response, JoinGroupResponse):
            self.member_id, self.generation = response.member_id, response.generation_id
            self.state, self._joined = MemberState.SYNCING, response
            return []
        self._session_ends = self._sent_at + self._settings.session_timeout_s
        self._heartbeat_at = self._sent_at + self._settings.heartbeat_interval_s
        if isinstance(response, HeartbeatResponse) or self._joined is None:
            return []
        joined, self._joined = self._joined, None
        self.state = MemberState.STABLE
        return [
            Assigned(
                self.generation,
                self.member_id,
                joined.leader,
                joined.protocol_name or "",
                response.assignment,
            )
        ]

    def _refused(self, code: ErrorCode, response: GroupResponse) -> list[GroupEvent]:
        """Act on an error; the member joins again unless the error is final."""
        if code is ErrorCode.MEMBER_ID_REQUIRED and isinstance(response, JoinGroupResponse):
            self.member_id = response.member_id
            return self._drop(is_lost=False)
        if code in _COORDINATOR_MOVED:
            self.coordinator_moved = True
            return self._retry()
        if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return self._retry()
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            return self._drop(is_lost=False)
        if code is ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""
            return self._drop(is_lost=True)
        if code is ErrorCode.ILLEGAL_GENERATION:
            return self._drop(is_lost=True)
        self.state = MemberState.LEFT
        raise KafkaError(
            code, f"the coordinator refuses this member of group {self._settings.group_id}"
        )

    def request_failed(self) -> list[GroupEvent]:
        """Take in that the last request has no answer: the coordinator must be looked up again."""
        self.coordinator_moved = True
        return self._retry()

    def _retry(self) -> list[GroupEvent]:
        """Try a heartbeat again until the session ends; begin again with a join otherwise."""
        self.retries_later = True
        return [] if self.state is MemberState.STABLE else self._drop(is_lost=False)

    def _drop(self, *, is_lost: bool) -> list[GroupEvent]:
        """Drop the part and get ready to join."""
        had_part = self.state is MemberState.STABLE
        self.state = MemberState.UNJOINED
        self.generation = _NO_GENERATION
        self._joined = None
        self._session_ends = float("inf")
        return [Revoked(is_lost)] if had_part else []

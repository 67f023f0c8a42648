"""A member's states: every answer in every state, and the times of heartbeats and sessions."""

from collections.abc import Mapping, Sequence

import pytest

from barnabas.client.core.group_membership import (
    Assigned,
    GroupMember,
    GroupSettings,
    MemberState,
    Revoked,
)
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

SETTINGS = GroupSettings("g", "sr", session_timeout_s=10, heartbeat_interval_s=3)


class FirstLeads:
    """Assigns the name of the first member to every member."""

    def protocols(self) -> Sequence[tuple[str, bytes]]:
        return [("v0", b"me")]

    def assign(self, protocol: str, members: Mapping[str, bytes]) -> Mapping[str, bytes]:
        return {member: min(members).encode() for member in members}


def joined(leader: str = "m1") -> JoinGroupResponse:
    members = [
        JoinGroupResponse.JoinGroupResponseMember(member_id=name, metadata=b"me")
        for name in ("m1", "m2")
    ]
    return JoinGroupResponse(
        generation_id=5,
        protocol_name="v0",
        leader=leader,
        member_id="m1",
        members=members if leader == "m1" else [],
    )


def member_in(state: MemberState) -> GroupMember:
    """Return a member with a request of that state in flight, sent at time 0."""
    member = GroupMember(SETTINGS, FirstLeads())
    member.poll(0)
    if state is not MemberState.JOINING:
        member.receive(joined())
        member.poll(0)
    if state is MemberState.STABLE:
        member.receive(SyncGroupResponse(assignment=b"part"))
        assert isinstance(member.poll(3).request, HeartbeatRequest)
    return member


RESPONSES = {
    MemberState.JOINING: JoinGroupResponse,
    MemberState.SYNCING: SyncGroupResponse,
    MemberState.STABLE: HeartbeatResponse,
}

JOINING = MemberState.JOINING
FINAL = set(ErrorCode) - {
    ErrorCode.MEMBER_ID_REQUIRED,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
}


def test_member_joins_syncs_and_is_assigned() -> None:
    member = GroupMember(SETTINGS, FirstLeads())
    join = member.poll(0).request
    assert isinstance(join, JoinGroupRequest)
    assert (join.protocol_type, join.protocols[0].name) == ("sr", "v0")
    assert member.receive(joined()) == []
    sync = member.poll(0).request
    assert isinstance(sync, SyncGroupRequest)
    assert {each.member_id: each.assignment for each in sync.assignments} == {
        "m1": b"m1",
        "m2": b"m1",
    }
    [event] = member.receive(SyncGroupResponse(assignment=b"m1"))
    assert event == Assigned(5, "m1", "m1", "v0", b"m1")
    assert event.is_leader


def test_member_that_does_not_lead_sends_no_assignments() -> None:
    member = GroupMember(SETTINGS, FirstLeads())
    member.poll(0)
    member.receive(joined(leader="m2"))
    sync = member.poll(0).request
    assert isinstance(sync, SyncGroupRequest)
    assert sync.assignments == []


def test_member_without_an_id_joins_again_with_the_given_one() -> None:
    member = GroupMember(SETTINGS, FirstLeads())
    member.poll(0)
    required = JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="m1")
    assert member.receive(required) == []
    join = member.poll(0).request
    assert isinstance(join, JoinGroupRequest)
    assert join.member_id == "m1"


def test_member_beats_at_intervals_and_is_lost_at_the_end_of_the_session() -> None:
    member = member_in(MemberState.STABLE)
    member.receive(HeartbeatResponse())
    step = member.poll(4)
    assert (step.request, step.wake_at) == (None, 6)
    assert isinstance(member.poll(6).request, HeartbeatRequest)
    assert member.request_failed() == []
    assert member.session_ends == 13
    step = member.poll(13)
    assert step.events == [Revoked(is_lost=True)]
    assert isinstance(step.request, JoinGroupRequest)


def test_member_that_asks_for_a_rebalance_gives_its_part_up_and_joins() -> None:
    member = member_in(MemberState.STABLE)
    member.receive(HeartbeatResponse())
    member.request_rejoin()
    step = member.poll(4)
    assert step.events == [Revoked(is_lost=False)]
    assert isinstance(step.request, JoinGroupRequest)


@pytest.mark.parametrize("code", [code for code in ErrorCode if code is not ErrorCode.NONE])
@pytest.mark.parametrize("state", RESPONSES)
def test_member_every_error_in_every_state_keeps_retries_or_leaves(
    state: MemberState, code: ErrorCode
) -> None:
    member = member_in(state)
    response = RESPONSES[state](error_code=code)
    if code in FINAL or (code is ErrorCode.MEMBER_ID_REQUIRED and state is not JOINING):
        with pytest.raises(KafkaError):
            member.receive(response)
        assert member.state is MemberState.LEFT
        assert member.poll(4).request is None
        return
    events = member.receive(response)
    if member.state is MemberState.STABLE:
        assert state is MemberState.STABLE
        assert (events, member.retries_later) == ([], True)
        return
    assert member.state is MemberState.UNJOINED
    assert len(events) == (state is MemberState.STABLE)
    assert isinstance(member.poll(4).request, JoinGroupRequest)


@pytest.mark.parametrize(
    ("code", "is_lost"),
    [
        (ErrorCode.REBALANCE_IN_PROGRESS, False),
        (ErrorCode.ILLEGAL_GENERATION, True),
        (ErrorCode.UNKNOWN_MEMBER_ID, True),
    ],
)
def test_member_heartbeat_error_revokes_its_part(code: ErrorCode, is_lost: bool) -> None:
    member = member_in(MemberState.STABLE)
    assert member.receive(HeartbeatResponse(error_code=code)) == [Revoked(is_lost)]
    join = member.poll(4).request
    assert isinstance(join, JoinGroupRequest)
    assert join.member_id == ("" if code is ErrorCode.UNKNOWN_MEMBER_ID else "m1")


def test_member_that_leaves_names_itself_once() -> None:
    member = member_in(MemberState.STABLE)
    request = member.leave_request()
    assert request is not None
    assert request.member_id == "m1"
    assert member.leave_request() is None
    assert member.poll(9).request is None


@pytest.mark.parametrize("leaves", [True, False])
def test_static_member_leaves_by_both_ids_unless_it_keeps_its_place(leaves: bool) -> None:
    settings = GroupSettings("g", "sr", instance_id="i", leaves_at_end=leaves)
    member = GroupMember(settings, FirstLeads())
    member.poll(0)
    member.receive(joined())
    request = member.leave_request()
    if not leaves:
        assert request is None
        return
    assert request is not None
    [removed] = request.members
    assert (removed.member_id, removed.group_instance_id) == ("m1", "i")
    assert request.member_id == ""

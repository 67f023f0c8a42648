"""A member that leaves its group while its join is still waiting: both servers let it go.

Java's consumers do so when they are closed early, as Connect's are when a configuration changes:
the LeaveGroup follows a JoinGroup that has no response yet, and then the connection is closed.
"""

import time
from typing import Any

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.join_group import JoinGroupRequest
from barnabas.protocol.messages.leave_group import LeaveGroupRequest
from barnabas.protocol.messages.sync_group import SyncGroupRequest
from compat_tests import wire

SESSION_MS = 45_000
WAIT_S = 60.0


def join(connection: wire.Connection, group: str, member: str, *, waits: bool = False) -> Any:
    """Join a group and return the response; with `waits` only send the request."""
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=SESSION_MS,
        member_id=member,
        protocol_type="consumer",
        protocols=[protocol],
    )
    return connection.send(request, 9) if waits else connection.call(request, 9)


def rejoined(connection: wire.Connection, group: str, member: str) -> Any:
    """Join again and distribute nothing; return the response to the join."""
    found = join(connection, group, member)
    assert found.error_code == ErrorCode.NONE
    assignment = SyncGroupRequest.SyncGroupRequestAssignment(member_id=member, assignment=b"")
    request = SyncGroupRequest(
        group_id=group,
        generation_id=found.generation_id,
        member_id=member,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[assignment],
    )
    connection.call(request, 5)
    return found


def beat(connection: wire.Connection, group: str, member: str, generation: int) -> int:
    request = HeartbeatRequest(group_id=group, generation_id=generation, member_id=member)
    return connection.call(request, 4).error_code


def new_member(connection: wire.Connection, group: str) -> str:
    """Return the id of a new member, when the coordinator is ready."""
    deadline = time.monotonic() + WAIT_S
    while (found := join(connection, group, "")).error_code != ErrorCode.MEMBER_ID_REQUIRED:
        assert time.monotonic() < deadline, found
        time.sleep(0.1)
    return found.member_id


def test_leave_behind_a_waiting_join_is_carried_out_when_the_client_closes(
    bootstrap: str, unique
) -> None:
    group = unique("leaving")
    lookup = FindCoordinatorRequest(key_type=0, coordinator_keys=[group])
    wire.retry(bootstrap, lookup, 4, lambda found: found.coordinators[0].error_code == 0)
    with wire.Connection(bootstrap) as stays, wire.Connection(bootstrap) as leaves:
        member = new_member(stays, group)
        found = rejoined(stays, group, member)
        leaver = new_member(leaves, group)
        join(leaves, group, leaver, waits=True)
        identity = LeaveGroupRequest.MemberIdentity(member_id=leaver)
        leaves.send(LeaveGroupRequest(group_id=group, members=[identity]), 5)
        leaves.socket.close()
        time.sleep(2)  # the join is still waiting when the client has gone
        deadline = time.monotonic() + WAIT_S
        quiet_s = time.monotonic()
        while time.monotonic() - quiet_s < 1 or len(found.members) != 1:
            assert time.monotonic() < deadline, f"{found.members} after {WAIT_S:.0f} s"
            if beat(stays, group, member, found.generation_id) == ErrorCode.NONE:
                time.sleep(0.05)
            else:
                found = rejoined(stays, group, member)
                quiet_s = time.monotonic()

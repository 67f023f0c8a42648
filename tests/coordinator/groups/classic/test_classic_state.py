"""Every state of a classic group with every request: of a member, of an unknown member, without
one.

Kafka: the table in ClassicGroupState, and GroupMetadataManagerTest.
"""

from collections.abc import Callable
from typing import Any

import pytest

from barnabas.coordinator.core.coordinator_output import Caller
from barnabas.coordinator.groups.classic.classic_group import ClassicGroup
from barnabas.coordinator.groups.classic.classic_state import TRANSITIONS, ClassicGroupState
from barnabas.coordinator.groups.group_settings import GroupSettings
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.leave_group import LeaveGroupRequest
from barnabas.protocol.messages.sync_group import SyncGroupRequest
from tests.coordinator.groups.group_harness import Coordinator, commit_request, join_request

EMPTY, PREPARING, COMPLETING, STABLE, DEAD = ClassicGroupState
NONE = ErrorCode.NONE
PARKED = "parked"
ILLEGAL_GENERATION = ErrorCode.ILLEGAL_GENERATION
MOVED = ErrorCode.COORDINATOR_NOT_AVAILABLE
REBALANCE = ErrorCode.REBALANCE_IN_PROGRESS
UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID


class Group:
    """A group of the members a (leads) and b, brought into a state."""

    def __init__(self, state: ClassicGroupState) -> None:
        self.coordinator = Coordinator(GroupSettings(initial_rebalance_delay_ms=10))
        self.state = state
        self.members: dict[str, str] = {"stranger": "stranger", "nobody": ""}
        for name in "ab":
            self.join(name, "")
        self.coordinator.advance(100)
        joined = dict(self.coordinator.replies)
        self.members |= {name: joined[name].member_id for name in "ab"}
        self.generation = joined["a"].generation_id
        {
            EMPTY: self.empty,
            PREPARING: self.prepare,
            COMPLETING: lambda: None,
            STABLE: self.stabilize,
            DEAD: self.kill,
        }[state]()

    def empty(self) -> None:
        self.stabilize()
        for name in "ab":
            self.ask("leave", name)
            self.coordinator.advance(60_000)

    def prepare(self) -> None:
        self.stabilize()
        self.join("new", "")

    def stabilize(self) -> None:
        self.ask("sync", "b")
        self.ask("sync", "a")

    def kill(self) -> None:
        self.stabilize()
        self.coordinator.shard.unload(self.coordinator.now_ms)

    def join(self, name: str, member_id: str, **fields: Any) -> Any:
        c = self.coordinator
        return c.do(
            c.shard.join_group,
            join_request(member_id=member_id, **fields),
            Caller(name, version=3),
            name,
            c.now_ms,
            token=name,
        )

    def ask(self, request: str, name: str, generation: int | None = None) -> Any:
        """The error code of the answer; PARKED where there is none yet."""
        c, member_id = self.coordinator, self.members[name]
        generation = self.generation if generation is None else generation
        common = {"group_id": "g", "member_id": member_id, "generation_id": generation}
        operations: dict[str, Callable[[], Any]] = {
            "join": lambda: self.join(name, member_id),
            "join changed": lambda: self.join(name, member_id, protocols=["range", "sticky"]),
            "join other type": lambda: self.join(name, member_id, protocol_type="connect"),
            "sync": lambda: c.do(
                c.shard.sync_group, SyncGroupRequest(**common), c.now_ms, token=name
            ),
            "heartbeat": lambda: c.do(
                c.shard.heartbeat, HeartbeatRequest(**common), c.now_ms, token=name
            ),
            "leave": lambda: c.do(
                c.shard.leave_group,
                LeaveGroupRequest(
                    group_id="g", members=[LeaveGroupRequest.MemberIdentity(member_id=member_id)]
                ),
                c.now_ms,
                token=name,
            ),
            "commit": lambda: c.do(
                c.shard.commit_offsets,
                commit_request(
                    {("t", 0): 1}, member_id=member_id, generation_id_or_member_epoch=generation
                ),
                9,
                c.now_ms,
                token=name,
            ),
        }
        return error_of(operations[request]())


def error_of(response: Any) -> Any:
    if response is None:
        return PARKED
    if isinstance(response, ErrorCode):
        return response
    if hasattr(response, "topics"):
        return ErrorCode(response.topics[0].partitions[0].error_code)
    if getattr(response, "members", None) and hasattr(response.members[0], "error_code"):
        return ErrorCode(response.members[0].error_code)
    return ErrorCode(response.error_code)


# request, who:        Empty, PreparingRebalance, CompletingRebalance, Stable, Dead
INCONSISTENT = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
TABLE: dict[tuple[str, str], tuple[Any, Any, Any, Any, Any]] = {
    ("join", "a"): (UNKNOWN, PARKED, NONE, PARKED, MOVED),
    ("join", "b"): (UNKNOWN, PARKED, NONE, NONE, MOVED),
    ("join", "stranger"): (UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, MOVED),
    ("join", "nobody"): (PARKED, PARKED, PARKED, PARKED, MOVED),
    ("join changed", "b"): (UNKNOWN, PARKED, PARKED, PARKED, MOVED),
    ("join other type", "b"): (UNKNOWN, INCONSISTENT, INCONSISTENT, INCONSISTENT, MOVED),
    ("sync", "a"): (UNKNOWN, REBALANCE, NONE, NONE, MOVED),
    ("sync", "b"): (UNKNOWN, REBALANCE, PARKED, NONE, MOVED),
    ("sync", "stranger"): (UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, MOVED),
    ("heartbeat", "b"): (UNKNOWN, REBALANCE, NONE, NONE, MOVED),
    ("heartbeat", "stranger"): (UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, MOVED),
    ("leave", "b"): (UNKNOWN, NONE, NONE, NONE, MOVED),
    ("leave", "stranger"): (UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, MOVED),
    ("commit", "b"): (UNKNOWN, NONE, REBALANCE, NONE, MOVED),
    ("commit", "stranger"): (UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, MOVED),
}
CELLS = [
    pytest.param(request, who, state, expected, id=f"{request}-{who}-{state.value}")
    for (request, who), row in TABLE.items()
    for state, expected in zip(ClassicGroupState, row, strict=True)
]


@pytest.mark.parametrize(("request_", "who", "state", "expected"), CELLS)
def test_classic_group_request_in_each_state_gets_its_answer(
    request_: str, who: str, state: ClassicGroupState, expected: Any
) -> None:
    assert Group(state).ask(request_, who) == expected


@pytest.mark.parametrize("state", [PREPARING, COMPLETING, STABLE])
@pytest.mark.parametrize("request_", ["sync", "heartbeat", "commit"])
def test_classic_group_past_generation_is_refused(request_: str, state: ClassicGroupState) -> None:
    assert Group(state).ask(request_, "b", generation=0) == ILLEGAL_GENERATION


@pytest.mark.parametrize(
    ("state", "expected"),
    [(EMPTY, NONE), (PREPARING, UNKNOWN), (COMPLETING, UNKNOWN), (STABLE, UNKNOWN), (DEAD, MOVED)],
)
def test_classic_group_commit_without_a_member_needs_an_empty_group(
    state: ClassicGroupState, expected: ErrorCode
) -> None:
    assert Group(state).ask("commit", "nobody", generation=-1) == expected


@pytest.mark.parametrize("target", ClassicGroupState)
@pytest.mark.parametrize("source", ClassicGroupState)
def test_classic_group_transition_outside_the_table_raises(
    source: ClassicGroupState, target: ClassicGroupState
) -> None:
    group = ClassicGroup("g")
    group.state = source
    if target in TRANSITIONS[source]:
        group.transition_to(target, 5)
        assert (group.state, group.previous_state, group.state_timestamp_ms) == (target, source, 5)
    else:
        with pytest.raises(RuntimeError):
            group.transition_to(target, 5)


def test_classic_group_transitions_are_those_of_kafka() -> None:
    previous = {
        EMPTY: {PREPARING},
        PREPARING: {STABLE, COMPLETING, EMPTY},
        COMPLETING: {PREPARING},
        STABLE: {COMPLETING},
        DEAD: {STABLE, PREPARING, COMPLETING, EMPTY, DEAD},
    }
    assert previous == {
        state: {source for source, targets in TRANSITIONS.items() if state in targets}
        for state in ClassicGroupState
    }

"""A group across simulated brokers: its invariants hold, and planted mistakes break them."""

from typing import Any
from unittest import mock

import pytest

from barnabas.coordinator.groups.group_shard import GroupShard
from barnabas.testing.simulation import InvariantError, Simulation, prepare, run
from barnabas.testing.simulation.faults import Fault, FaultKind
from barnabas.testing.simulation.group_workload import GroupWorkload
from tests.simulation.scripted_options import replicated

SECONDS = 10

GROUPS: dict[str, dict[str, Any]] = {
    "consumer": {"members": 3},
    "classic": {"classic_members": 3},
    "mixed": {"members": 2, "classic_members": 2, "is_group_mixed": True},
}


def grouping(kind: str = "consumer") -> Simulation:
    """A group whose coordinators are killed in turn."""
    options = replicated(SECONDS, partitions=3, producer_pause_ms=500, copiers=1, **GROUPS[kind])
    faults = [Fault(1_000 + 2_500 * n, FaultKind.KILL, (n + 1,), 1_000, 0.5) for n in range(3)]
    return prepare(7, SECONDS, options=options, faults=faults)


@pytest.mark.parametrize("kind", GROUPS)
def test_group_with_killed_coordinators_keeps_the_invariants(kind: str) -> None:
    simulation = run(grouping(kind))

    (workload,) = (each for each in simulation.actors if isinstance(each, GroupWorkload))
    assert sum(member.commits for member in workload.members) > 50


@pytest.mark.parametrize("kind", GROUPS)
def test_coordinator_that_forgets_commits_is_found(kind: str) -> None:
    original: Any = GroupShard.replay

    def replay(self: Any, key: Any, value: Any, **named: Any) -> None:
        if type(key).__name__ != "OffsetCommitKey":
            original(self, key, value, **named)

    with (
        mock.patch.object(GroupShard, "replay", replay),
        pytest.raises(InvariantError, match=r"G2|T1"),  # copies commit offsets, too
    ):
        run(grouping(kind))

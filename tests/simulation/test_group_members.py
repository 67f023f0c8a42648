"""A group across simulated brokers: its invariants hold, and planted mistakes break them."""

from typing import Any
from unittest import mock

import attrs
import pytest

from barnabas.coordinator.groups.group_shard import GroupShard
from barnabas.testing.simulation import InvariantError, Simulation, prepare, run
from barnabas.testing.simulation.faults import Fault, FaultKind
from barnabas.testing.simulation.group_members import GroupWorkload
from barnabas.testing.simulation.seed_options import NO_FEATURES, draw_options

SECONDS = 10


def grouping() -> Simulation:
    """Three members, whose coordinators are killed in turn."""
    options = attrs.evolve(
        draw_options(1, SECONDS, NO_FEATURES),
        controllers=3,
        brokers=3,
        is_combined=True,
        admins=0,
        partitions=3,
        replication_factor=3,
        min_insync_replicas=2,
        elr_version=1,
        producers=1,
        producer_pause_ms=500,
        operator_pause_ms=0,
        voter_pause_ms=0,
        copiers=1,
        members=3,
    )
    faults = [Fault(1_000 + 2_500 * n, FaultKind.KILL, (n + 1,), 1_000, 0.5) for n in range(3)]
    return prepare(7, SECONDS, options=options, faults=faults)


def test_group_with_killed_coordinators_keeps_the_invariants() -> None:
    simulation = run(grouping())

    (workload,) = (each for each in simulation.actors if isinstance(each, GroupWorkload))
    assert sum(member.commits for member in workload.members) > 50


def test_coordinator_that_forgets_commits_is_found() -> None:
    original: Any = GroupShard.replay

    def replay(self: Any, key: Any, value: Any, **named: Any) -> None:
        if type(key).__name__ != "OffsetCommitKey":
            original(self, key, value, **named)

    with (
        mock.patch.object(GroupShard, "replay", replay),
        pytest.raises(InvariantError, match="G2"),
    ):
        run(grouping())

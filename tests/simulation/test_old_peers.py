"""Nodes with the versions of older releases."""

from typing import Any

import pytest

from barnabas.protocol.apis import API
from barnabas.testing.simulation import RareState, Simulation, prepare, run
from barnabas.testing.simulation.faults import Fault, FaultKind
from barnabas.testing.simulation.old_releases import RELEASES
from tests.simulation.scripted_options import replicated

SECONDS = 10
OLD = 2


def cluster(seed: int, **changes: Any) -> Simulation:
    options = replicated(
        SECONDS,
        admins=1,
        admin_pause_ms=100,
        partitions=2,
        copiers=1,
        metadata_version=21,
        transaction_version=0,
        elr_version=0,
        **changes,
    )
    faults = [Fault(1_000 + 2_500 * n, FaultKind.KILL, (n + 1,), 1_000, 0.5) for n in range(3)]
    return prepare(seed, SECONDS, options=options, faults=faults)


@pytest.mark.parametrize("release", RELEASES)
def test_cluster_with_an_old_node_keeps_the_invariants(release: str) -> None:
    simulation = run(cluster(5, old_peer=OLD, old_release=release))

    reached = simulation.world.rare.counts[RareState.VOTER_WITHOUT_PRE_VOTES]
    assert bool(reached) == (release == "3.9")


@pytest.mark.parametrize("release", RELEASES)
def test_versions_of_releases_are_lower_than_ours(release: str) -> None:
    for key, version in RELEASES[release].items():
        assert API[key].min_version <= version < API[key].max_version

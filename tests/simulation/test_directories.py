"""Scripted seeds: log directories that fail, and disks that are replaced."""

from typing import Any

import pytest

from barnabas.testing.simulation import Simulation, prepare, run
from barnabas.testing.simulation.faults import Fault, FaultKind
from barnabas.testing.simulation.rare_states import RareState
from tests.simulation.scripted_options import replicated

SECONDS = 15


def cluster(faults: list[Fault], **changes: Any) -> Simulation:
    options = replicated(SECONDS, controllers=1, is_combined=False, partitions=3, **changes)
    return prepare(5, SECONDS, options=options, faults=faults)


@pytest.mark.parametrize("directories", [1, 2])
def test_failed_directories_move_their_leaders(directories: int) -> None:
    faults = [
        Fault(1_000 * number, FaultKind.DIRECTORY_FAILS, (broker,), 2_001, 0.0)
        for number, broker in enumerate((2, 3, 4), 1)
    ]

    simulation = run(cluster(faults, directories=directories))

    assert simulation.world.rare.counts[RareState.DIRECTORY_FAILED_WHILE_LEADING]
    assert not simulation.data.lost_uncleanly


def test_replaced_disks_one_by_one_lose_nothing() -> None:
    """Each broker is back in sync before the next disk is replaced."""
    faults = [
        Fault(1_000, FaultKind.DISK_REPLACED, (2,), 100, 0.0),
        Fault(13_000, FaultKind.DISK_REPLACED, (3,), 100, 0.0),
    ]

    simulation = run(cluster(faults, directories=1))

    assert not simulation.data.lost_uncleanly
    assert not simulation.data.invariants.unclean_elections

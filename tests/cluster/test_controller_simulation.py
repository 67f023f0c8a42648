"""Operations of a replicated controller hold through elections, crashes and lost messages."""

import os

import pytest

from tests.cluster.controller_simulation import run

SEEDS = int(os.environ.get("BARNABAS_SEEDS", "12"))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_acknowledged_operations_are_in_every_later_image(seed: int) -> None:
    assert run(seed).acknowledged


def test_simulation_has_failed_operations_and_acknowledged_ones() -> None:
    simulations = [run(seed) for seed in range(6)]
    assert sum(simulation.failed for simulation in simulations) > 0
    assert sum(len(simulation.acknowledged) for simulation in simulations) > 50
    assert sum(len(simulation.blocks) for simulation in simulations) > 10
    assert sum(len(simulation.pairs) for simulation in simulations) > 10

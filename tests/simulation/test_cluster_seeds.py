"""The simulation of the whole cluster: seeds, repeatability, faults."""

from collections.abc import Sequence

import pytest

from barnabas.testing.simulation import prepare, run
from barnabas.testing.simulation.faults import Fault, FaultKind, draw_faults, shrink

# Seeds that once found defects, and others without those that take long.
DEFECTS = (6, 25, 43, 73, 76, 180)
SEEDS = sorted({*range(1, 25), *DEFECTS} - {9, 11, 15, 16, 19, 20, 22, 23})

pytestmark = pytest.mark.timeout(600)  # a seed may need 40 s of CPU time


@pytest.mark.parametrize("seed", SEEDS)
def test_cluster_with_faults_keeps_the_invariants(seed: int) -> None:
    run(prepare(seed, 30))


def test_seed_run_twice_has_one_trace() -> None:
    first, second = run(prepare(5, 20)), run(prepare(5, 20))

    assert first.world.trace == second.world.trace
    assert first.world.events == second.world.events


def test_seed_with_faults_contains_some() -> None:
    drawn = [draw_faults(seed, (1, 2, 3), 60_000) for seed in range(1, 201)]

    kinds = {fault.kind for faults in drawn for fault in faults}
    assert kinds == set(FaultKind)
    assert sum(1 for faults in drawn if faults) > 190


def test_shrink_keeps_what_is_needed() -> None:
    faults = [Fault(at, FaultKind.KILL, (1,), 10, 0.5) for at in range(20)]

    def fails(shorter: Sequence[Fault]) -> bool:
        return {3, 11} <= {fault.at_ms for fault in shorter}

    assert [fault.at_ms for fault in shrink(faults, fails)] == [3, 11]

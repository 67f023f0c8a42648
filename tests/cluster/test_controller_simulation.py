"""Operations of a replicated controller hold through elections, crashes and lost messages."""

import os
from collections.abc import Iterable

import pytest

from barnabas.cluster.controller.controller_state_machine import Completion, ControllerStateMachine
from tests.cluster.controller_simulation import ControllerSimulation, run

SEEDS = int(os.environ.get("BARNABAS_SEEDS", "12"))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_acknowledged_operations_are_in_every_later_image(seed: int) -> None:
    simulation = run(ControllerSimulation(seed, loss=0.05, sync_chance=0.7))
    assert simulation.acknowledged


def test_simulation_has_failed_operations_and_acknowledged_ones() -> None:
    simulations = [run(ControllerSimulation(seed, loss=0.05)) for seed in range(6)]
    assert sum(simulation.failed for simulation in simulations) > 0
    assert sum(len(simulation.acknowledged) for simulation in simulations) > 50


class BoundToTheOffset(ControllerStateMachine):
    """A mistake: operations survive a step-down, and wait for their offset in any epoch."""

    def _fail_waiting(self) -> None:
        pass


class KeepsTruncated(ControllerStateMachine):
    """A mistake: images of truncated records stay in the queue."""

    def _truncate(self, offset: int) -> None:
        pass


class CompletesBeforeItNotices(ControllerStateMachine):
    """A mistake: operations complete by the high watermark of the next leader."""

    def _take_completed(self) -> Iterable[Completion]:
        while self._waiting and self._waiting[0].next_offset <= self.core.log_end_offset:
            waiting = self._waiting.popleft()
            yield Completion(waiting.token, waiting.response)


@pytest.mark.parametrize("mistake", [BoundToTheOffset, KeepsTruncated, CompletesBeforeItNotices])
def test_planted_mistake_is_found(mistake: type[ControllerStateMachine]) -> None:
    found = 0
    for seed in range(60):
        try:
            run(ControllerSimulation(seed, mistake, loss=0.05, sync_chance=0.7))
        except (AssertionError, KeyError):
            found += 1
            break
    assert found, f"no seed finds {mistake.__name__}"

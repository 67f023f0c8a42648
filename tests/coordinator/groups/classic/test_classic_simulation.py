"""The invariants of groups (see `simulation`) over many seeds, and that breaking one is seen."""

import os
from typing import Any

import pytest

from barnabas.coordinator.groups.classic.classic_group import ClassicGroup
from barnabas.coordinator.groups.classic.classic_rebalance import Rebalancer
from barnabas.coordinator.groups.committed_offsets import Offsets
from tests.coordinator.faulty_world import ViolationError
from tests.coordinator.groups.classic.classic_simulation import Simulation

SEEDS = int(os.environ.get("BARNABAS_SEEDS", "200"))


@pytest.mark.timeout(600)  # seconds of CPU, which take minutes on a busy machine
def test_classic_simulation_with_faults_keeps_the_invariants() -> None:
    for seed in range(SEEDS):
        try:
            Simulation(seed).run()
        except ViolationError as violation:
            raise AssertionError(f"seed {seed}") from violation


def caught(invariant: str) -> bool:
    for seed in range(30):
        try:
            Simulation(seed).run()
        except ViolationError as violation:
            return str(violation).startswith(invariant)
        except Exception:  # the mistake may also break something else first
            continue
    return False


def test_classic_simulation_commit_of_a_past_generation_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ClassicGroup, "validate_offset_commit", lambda *_: None)
    assert caught("G3")


def test_classic_simulation_lost_commit_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    replay = Offsets.replay

    def forgetful(self: Offsets, key: Any, value: Any, offset: int, producer_id: int) -> None:
        if offset % 7:
            replay(self, key, value, offset, producer_id)

    monkeypatch.setattr(Offsets, "replay", forgetful)
    assert caught("G2")


def test_classic_simulation_member_that_never_expires_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Rebalancer, "schedule_session", lambda *_: None)
    assert caught("G5")


def test_classic_simulation_assignment_of_another_generation_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begin = ClassicGroup.begin_generation

    def stuck(self: ClassicGroup, now_ms: int) -> None:
        begin(self, now_ms)
        self.generation_id = max(1, self.generation_id - 1)

    monkeypatch.setattr(ClassicGroup, "begin_generation", stuck)
    assert caught("G1")

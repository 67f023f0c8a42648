"""Followers keep committed records through elections and kills."""

import logging

import pytest

from tests.cluster.replication.replication_simulation import run

SEEDS = 40


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "barnabas")


def run_seeds(count: int) -> int:
    """Return how often followers truncated; raises Violation."""
    return sum(run(seed).truncations for seed in range(count))


def test_simulation_keeps_committed_records() -> None:
    assert run_seeds(SEEDS) > SEEDS // 2  # followers did truncate

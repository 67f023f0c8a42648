"""Leaders keep the promises of replication through faults."""

import logging
from collections import Counter

import pytest

from tests.cluster.replication.isr_simulation import run

SEEDS = 30


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "barnabas")


def test_isr_simulation_keeps_the_promises_of_replication() -> None:
    counts: Counter[str] = Counter()
    for seed in range(SEEDS):
        counts += Counter(run(seed).counts)
    wanted = run(0).counts.keys() - {"refused_after"}  # which needs a change of min.insync.replicas
    assert counts.keys() >= wanted, counts

"""Transactions across simulated brokers: they are copied exactly once, and mistakes are found."""

from typing import Any
from unittest import mock

import pytest

from barnabas.server.coordinators.transactions.marker_writer import LocalMarkers
from barnabas.testing.simulation import InvariantError, Simulation, prepare, run
from barnabas.testing.simulation.faults import Fault, FaultKind
from barnabas.testing.simulation.seed_options import SeedOptions
from barnabas.testing.simulation.transaction_workload import TransactionWorkload
from tests.simulation.scripted_options import replicated

SECONDS = 10


def copier_options(version: int) -> SeedOptions:
    """Three brokers, and copiers of a version of transactions."""
    return replicated(SECONDS, partitions=1, copiers=2, transaction_version=version)


def copying(version: int) -> Simulation:
    """Three brokers that are killed in turn while values are copied."""
    faults = [Fault(1_000 + 2_500 * n, FaultKind.KILL, (n + 1,), 1_000, 0.5) for n in range(3)]
    return prepare(7, SECONDS, options=copier_options(version), faults=faults)


@pytest.mark.parametrize("version", [0, 2])
def test_copies_with_killed_coordinators_are_exactly_once(version: int) -> None:
    simulation = run(copying(version))

    (workload,) = (each for each in simulation.actors if isinstance(each, TransactionWorkload))
    assert sum(copier.committed for copier in workload.copiers) > 20


def test_abort_marker_written_as_commit_is_found() -> None:
    original: Any = LocalMarkers._append  # pyright: ignore[reportPrivateUsage]

    def append(self: Any, marker: Any, topic: str, number: int) -> Any:
        marker.transaction_result = True
        return original(self, marker, topic, number)

    with (
        mock.patch.object(LocalMarkers, "_append", append),
        pytest.raises(InvariantError, match="T1"),
    ):
        run(copying(2))


def test_marker_that_is_not_written_is_found() -> None:
    def write(_: Any, request: Any, done: Any) -> None:
        """Answer nothing."""

    with (
        mock.patch.object(LocalMarkers, "write", write),
        pytest.raises(InvariantError, match=r"T6|T1|LIVENESS"),
    ):
        run(copying(2))

"""Micro-batches as a model: markers and a checkpoint, crashes, and what may happen to either.

The model runs the decisions of tasks without Spark. Each input is written once, or the job stops.
Planted mistakes in the decision must break that.
"""

from collections.abc import Callable

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.pipeline.delivery.micro_batches import micro_batch_markers
from barnabas.pipeline.delivery.micro_batches.micro_batch_markers import (
    Decision,
    Marker,
    MicroBatchMismatchError,
    digest_of,
)

PARTITIONS = 2
Decide = Callable[[Marker | None, Marker], Decision]


@attrs.define
class Checkpoint:
    """Spark's files: the query's id, the inputs of micro-batches, the number of those committed."""

    query_id: str
    inputs: list[tuple[int, int]] = attrs.Factory(list[tuple[int, int]])
    committed: int = 0

    def copy(self) -> "Checkpoint":
        return Checkpoint(self.query_id, list(self.inputs), self.committed)


class MicroBatchesModel:
    """One job: records are numbers, and each partition writes every record once."""

    def __init__(self, decide: Decide) -> None:
        self.written: list[list[int]] = [[] for _ in range(PARTITIONS)]
        self._decide = decide
        self._markers: list[Marker | None] = [None] * PARTITIONS
        self._queries = 0
        self._end = 0
        self._checkpoint = self._new_checkpoint()
        self._backup = self._checkpoint.copy()

    def batch(self, records: int, crash_after: int | None) -> None:
        """Run a micro-batch, or repeat an unfinished one; crash behind some of its tasks."""
        checkpoint = self._checkpoint
        if checkpoint.committed == len(checkpoint.inputs):
            start = checkpoint.inputs[-1][1] if checkpoint.inputs else 0
            self._end = max(self._end, start) + records
            checkpoint.inputs.append((start, self._end))
        number = checkpoint.committed
        start, end = checkpoint.inputs[number]
        digest = digest_of(f"{start} {end}".encode())
        current = Marker(number + 1, checkpoint.query_id, digest)
        for partition in range(PARTITIONS):
            if partition == crash_after:
                return
            if self._decide(self._markers[partition], current) is Decision.WRITE:
                self.written[partition] += range(start, end)
            self._markers[partition] = current
        checkpoint.committed += 1

    def wipe(self) -> None:
        self._checkpoint = self._new_checkpoint()

    def back_up(self) -> None:
        self._backup = self._checkpoint.copy()

    def restore(self) -> None:
        self._checkpoint = self._backup.copy()

    def _new_checkpoint(self) -> Checkpoint:
        self._queries += 1
        return Checkpoint(f"query-{self._queries}")


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("batch"), st.integers(1, 3), st.sampled_from([None, None, 0, 1])),
        st.tuples(st.sampled_from(["wipe", "back_up", "restore"])),
    ),
    max_size=12,
)


def play(decide: Decide, steps: list[tuple[object, ...]]) -> None:
    """Run the steps until the job stops; every record is written once, in order."""
    model = MicroBatchesModel(decide)
    try:
        for name, *arguments in steps:
            getattr(model, str(name))(*arguments)
    except MicroBatchMismatchError:
        pass
    for written in model.written:
        assert written == list(range(len(written))), "records are lost or doubled"


@given(STEPS)
def test_each_record_is_written_once_or_the_job_stops(steps: list[tuple[object, ...]]) -> None:
    play(micro_batch_markers.decide, steps)


def without_digest(marker: Marker | None, current: Marker) -> Decision:
    if marker is None:
        return micro_batch_markers.decide(marker, current)
    numbers = (Marker(each.next_batch, "", "") for each in (marker, current))
    return micro_batch_markers.decide(*numbers)


def by_number(marker: Marker | None, current: Marker) -> Decision:
    is_done = marker is not None and marker.next_batch >= current.next_batch
    return Decision.SKIP if is_done else Decision.WRITE


ONE = ("batch", 1, None)
TWO = ("batch", 2, None)
HALF = ("batch", 2, 1)
"""The driver crashes behind the first task."""

PLANTS: dict[str, tuple[Decide, list[tuple[object, ...]]]] = {
    "no digest, and a wiped checkpoint": (without_digest, [TWO, ("wipe",), ONE, ONE]),
    "no digest, and an old checkpoint": (without_digest, [HALF, ("restore",), ONE, ONE]),
    "numbers only": (by_number, [ONE, ONE, ("wipe",), TWO, ONE]),
}


@pytest.mark.parametrize("plant", PLANTS)
def test_planted_decision_loses_or_doubles_records(plant: str) -> None:
    """Without the mistake the same steps are fine."""
    decide, steps = PLANTS[plant]
    play(micro_batch_markers.decide, steps)
    with pytest.raises(AssertionError, match="lost or doubled"):
        play(decide, steps)

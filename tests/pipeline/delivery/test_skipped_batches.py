"""Skipped offsets of a running query, from Spark's reports."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.pipeline.delivery.driver.query_progress import BatchProgress
from barnabas.pipeline.delivery.driver.skipped_batches import Partition, SkippedBatches


class Log:
    """The log start offsets of a topic."""

    def __init__(self, *starts: int) -> None:
        self.starts = list(starts)
        self.is_down = False

    def read(self, pairs: Sequence[Partition]) -> dict[Partition, int]:
        if self.is_down:
            raise TimeoutError
        return {pair: self.starts[pair[1]] for pair in pairs}


def report(start: dict[int, int] | None, end: dict[int, int], records: int | None) -> BatchProgress:
    """Return the report of a batch; without records, of one that did not run."""
    source = {
        "description": "KafkaV2[Subscribe[t]]",
        "startOffset": None if start is None else offsets(start),
        "endOffset": offsets(end),
        "latestOffset": offsets(end),
    }
    metrics = {} if records is None else {"figures": {"records": records or None}}
    fields: dict[str, Any] = {"timestamp": "2026-11-22T12:00:00.000Z", "sources": [source]}
    return BatchProgress.read(json.dumps({**fields, "observedMetrics": metrics}))


def offsets(numbers: dict[int, int]) -> dict[str, dict[str, int]]:
    return {"t": {str(number): offset for number, offset in numbers.items()}}


def test_deleted_offsets_are_counted_once() -> None:
    skipped = SkippedBatches({("t", 0): 0, ("t", 1): 0}, Log(8, 0).read)
    skipped.add(report(None, {0: 10, 1: 5}, 7))
    assert (skipped.take(), skipped.take()) == (8, 0)
    skipped.add(report({0: 10, 1: 5}, {0: 20, 1: 5}, 10))
    assert skipped.take() == 0


def test_batch_of_deleted_records_only_is_counted() -> None:
    skipped = SkippedBatches({("t", 0): 0}, Log(60).read)
    for start in (0, 20, 40):
        skipped.add(report({0: start}, {0: start + 20}, 0))
    assert skipped.take() == 60


def test_records_deleted_after_they_were_read_do_not_count() -> None:
    skipped = SkippedBatches({("t", 0): 0}, Log(10).read)
    skipped.add(report({0: 0}, {0: 10}, 10))
    assert skipped.take() == 0


def test_control_records_do_not_count() -> None:
    skipped = SkippedBatches({("t", 0): 0}, Log(3).read)
    skipped.add(report({0: 5}, {0: 15}, 8))
    assert skipped.take() == 0


def test_offsets_before_the_start_do_not_count_again() -> None:
    skipped = SkippedBatches({("t", 0): 50}, Log(60).read)
    skipped.add(report({0: 10}, {0: 70}, 10))
    assert skipped.take() == 10


def test_batch_that_an_earlier_run_wrote_does_not_count() -> None:
    skipped = SkippedBatches({("t", 0): 0}, Log(10).read)
    skipped.add(report({0: 0}, {0: 10}, None))
    assert skipped.take() == 0


def test_new_partition_begins_at_its_start() -> None:
    log = Log(0, 30)
    skipped = SkippedBatches({("t", 0): 0}, log.read)
    skipped.add(report({0: 0}, {0: 5, 1: 40}, 15))
    assert skipped.take() == 0
    log.starts[1] = 45
    skipped.add(report({0: 5, 1: 40}, {0: 5, 1: 50}, 5))
    assert skipped.take() == 5


def test_batches_are_counted_when_the_cluster_answers_again() -> None:
    log = Log(8)
    log.is_down = True
    skipped = SkippedBatches({("t", 0): 0}, log.read)
    skipped.add(report(None, {0: 10}, 2))
    with pytest.raises(TimeoutError):
        skipped.take()
    log.is_down = False
    assert skipped.take() == 8


Step = tuple[int, int, int]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9), st.integers(0, 9)), max_size=30))
def test_sum_of_read_and_skipped_offsets_is_the_position(steps: list[Step]) -> None:
    """Retention deletes before and after each batch is read; there are no control records."""
    log, end, position, read, total = Log(0), 0, 0, 0, 0
    skipped = SkippedBatches({("t", 0): 0}, log.read)
    for more, before, after in steps:
        end += more
        log.starts[0] = min(end, log.starts[0] + before)
        records = end - max(position, min(end, log.starts[0]))
        skipped.add(report({0: position}, {0: end}, records))
        log.starts[0] = min(end, log.starts[0] + after)
        position, read = end, read + records
        total += skipped.take()
        assert read + total == position

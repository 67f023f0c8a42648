"""Processors with stores and punctuation by stream time and the wall clock."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from barnabas.pipeline.streams.kernels.bucket_state import BucketState
from barnabas.pipeline.streams.kernels.kernel_rows import Row, Side
from barnabas.pipeline.streams.kernels.user_kernels import Process, ProcessContext, is_due
from tests.pipeline.streams.kernels.kernel_runs import record, run


class Counting:
    """Counts rows by key, and sends the counts at each point of time."""

    def process(self, row: Row, context: ProcessContext) -> Iterable[Row]:
        counts = context.store("counts")
        counts[row.key or b""] = counts.get(row.key or b"", 0) + 1
        return []

    def punctuate(self, row: Row, context: ProcessContext) -> Iterable[Row]:
        for key, count in context.store("counts").items():
            yield row._replace(key=key, value=count, timestamp_ms=context.stream_time_ms)

    def punctuate_wall_clock(self, row: Row, context: ProcessContext) -> Iterable[Row]:
        for key, count in context.store("counts").items():
            yield row._replace(key=key, value=count, offset=context.stream_time_ms)


def test_process_punctuates_behind_the_first_row_and_once_for_each_step_of_time() -> None:
    kernel = Process(Counting(), "counting", every_ms=10)
    times = [3, 9, 10, 12, 35, 39, 40]
    found = run(kernel, [record(b"a", 1, time_ms) for time_ms in times])
    assert [(row.timestamp_ms, row.value) for row in found] == [(3, 1), (10, 3), (35, 5), (40, 7)]


def test_process_punctuates_when_time_moves_without_rows() -> None:
    kernel, state = Process(Counting(), "counting", every_ms=10), BucketState()
    run(kernel, [record(b"a", 1, 3)], state)
    found = run(kernel, [Row(None, None, 12, Side.TIME)], state)
    assert [(row.timestamp_ms, row.value) for row in found] == [(12, 1)]


def test_process_without_period_never_punctuates() -> None:
    assert run(Process(Counting(), "counting"), [record(b"a", 1, 3)]) == []


def test_process_stores_are_apart_from_those_of_the_kernel_and_of_other_partitions() -> None:
    kernel, state = Process(Counting(), "counting", every_ms=10), BucketState()
    run(kernel, [record(b"a", 1, 3), record(b"a", 1, 3, partition=1)], state)
    assert sorted(state) == [0, 1]
    assert state.task(1).stores["user counts"] == {b"a": 1}


def test_process_takes_the_wall_clock_in_each_task_without_moving_stream_time() -> None:
    kernel, state = Process(Counting(), "counting", every_ms=10), BucketState()
    run(kernel, [record(b"b", 1, 3, partition=1), record(b"a", 1, 5)], state)
    found = run(kernel, [Row(None, None, 70_000, Side.CLOCK)], state)
    assert [(row.key, row.value, row.partition, row.timestamp_ms, row.offset) for row in found] == [
        (b"a", 1, 0, 70_000, 5),
        (b"b", 1, 1, 70_000, 3),
    ]
    assert run(kernel, [record(b"a", 1, 9)], state) == []
    assert [row.timestamp_ms for row in run(kernel, [record(b"a", 1, 10)], state)] == [10]


def test_process_does_not_take_the_wall_clock_before_a_record() -> None:
    state = BucketState()
    assert run(Process(Counting(), "counting"), [Row(None, None, 7, Side.CLOCK)], state) == []
    assert list(state) == []


@pytest.mark.parametrize(
    ("before_ms", "now_ms", "expected"),
    [(0, 9, False), (0, 10, True), (9, 10, True), (10, 19, False), (5, 45, True), (10, 9, False)],
)
def test_wall_clock_is_due_when_it_reaches_a_multiple(
    before_ms: int, now_ms: int, expected: bool
) -> None:
    assert is_due(before_ms, now_ms, 10) is expected


def test_example_of_the_page_runs() -> None:
    page = (Path(__file__).parents[4] / "docs" / "streams-kernels.md").read_text()
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(block, names)
    assert names["found"]

"""Processors with stores and punctuation by stream time."""

from collections.abc import Iterable

from barnabas.pipeline.streams.kernels.bucket_state import BucketState
from barnabas.pipeline.streams.kernels.kernel_rows import Row, Side
from barnabas.pipeline.streams.kernels.user_kernels import Process, ProcessContext
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

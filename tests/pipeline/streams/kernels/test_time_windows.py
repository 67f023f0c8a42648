"""Tumbling and hopping windows, against all rows of each window."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.pipeline.streams.kernels.bucket_state import BucketState
from barnabas.pipeline.streams.kernels.kernel_rows import Row, Window
from barnabas.pipeline.streams.kernels.stream_aggregates import Aggregation, counting
from barnabas.pipeline.streams.kernels.time_windows import TimeWindowAggregate, TimeWindows
from tests.pipeline.streams.kernels.kernel_runs import KEYS, facts, record, rows, run

collecting = Aggregation(lambda key, value, found: [*found, value], list)
forms = st.integers(1, 12).flatmap(
    lambda size: st.builds(
        TimeWindows, st.just(size), st.integers(1, size), st.sampled_from([0, 3, 20])
    )
)


def expected(taken: list[Row], windows: TimeWindows) -> list[tuple[object, ...]]:
    now_ms = -1
    accepted: list[tuple[Window, Row]] = []
    found: list[tuple[object, ...]] = []
    for row in taken:
        if row.key is None:
            continue
        now_ms = max(now_ms, row.timestamp_ms)
        for start_ms in range(row.timestamp_ms + 1):
            window = Window(start_ms, start_ms + windows.size_ms)
            holds = start_ms % windows.advance_ms == 0 and row.timestamp_ms < window.end_ms
            if not holds or window.end_ms <= now_ms - windows.grace_ms:
                continue
            accepted.append((window, row))
            same = [other for at, other in accepted if at == window and other.key == row.key]
            values = [other.value for other in same]
            found.append((row.key, window, values, max(other.timestamp_ms for other in same)))
    return found


@settings(deadline=None)
@given(rows(keys=[*KEYS, None]), forms)
def test_time_windows_of_any_rows_collect_the_rows_of_open_windows(taken, windows) -> None:
    assert list(facts(run(TimeWindowAggregate(windows, collecting), taken))) == expected(
        taken, windows
    )


def test_time_window_that_is_closed_drops_the_row() -> None:
    state = BucketState()
    kernel = TimeWindowAggregate(TimeWindows(10, 10, 5), counting())
    taken = [record(b"a", 1, 3), record(b"b", 1, 15), record(b"a", 1, 9)]
    assert len(run(kernel, taken, state)) == 2
    assert state.dropped == {"late": 1}


def test_time_windows_count_each_closed_window_that_a_row_misses() -> None:
    state = BucketState()
    kernel = TimeWindowAggregate(TimeWindows(10, 5), counting())
    taken = [record(b"a", 1, 12), record(b"a", 1, 8), record(b"a", 1, 1)]
    found = run(kernel, taken, state)
    assert [row.window for row in found][-1] == (5, 15)
    assert state.dropped == {"late": 2}


def test_time_windows_that_skip_nulls_move_time_by_them() -> None:
    state = BucketState()
    kernel = TimeWindowAggregate(TimeWindows(10, 10), counting(), skips_nulls=True)
    taken = [record(b"a", None, 30), record(b"a", 1, 3)]
    assert run(kernel, taken, state) == []
    assert state.dropped == {"no value": 1, "late": 1}


def test_time_window_closes_by_the_time_before_the_micro_batch() -> None:
    state = BucketState()
    kernel = TimeWindowAggregate(TimeWindows(10, 10), counting())
    taken = [record(b"a", 1, 9)._replace(before_ms=before_ms) for before_ms in (9, 10)]
    assert len(run(kernel, taken, state)) == 1
    assert state.dropped == {"late": 1}


def test_time_window_at_another_partition_stays_open() -> None:
    kernel = TimeWindowAggregate(TimeWindows(10, 10), counting())
    taken = [record(b"a", 1, 100, partition=1), record(b"a", 1, 3)]
    assert [row.value for row in run(kernel, taken)] == [1, 1]


def test_time_windows_forget_closed_windows_of_all_keys() -> None:
    state = BucketState()
    kernel = TimeWindowAggregate(TimeWindows(10, 5, 5), counting())
    run(kernel, [record(bytes([number]), 1, number) for number in range(200)], state)
    assert len(list(state.keys("windows"))) <= 40


def test_time_windows_with_gaps_are_refused() -> None:
    with pytest.raises(ValueError, match="in no window"):
        TimeWindows(10, 11)

"""Sliding windows, against all windows that KIP-450 defines for the rows of a key."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.pipeline.streams.kernels.bucket_state import BucketState
from barnabas.pipeline.streams.kernels.kernel_rows import Row, Window
from barnabas.pipeline.streams.kernels.sliding_windows import SlidingWindowAggregate
from barnabas.pipeline.streams.kernels.stream_aggregates import Aggregation, counting
from tests.pipeline.streams.kernels.kernel_runs import facts, record, rows, run

collecting = Aggregation(lambda key, value, found: [*found, value], list)


def windows_of(times: list[int], length: int) -> set[int]:
    """Return the starts of all windows of rows at these times."""
    ending = {max(0, time_ms - length) for time_ms in times}
    beginning = {time_ms + 1 for time_ms in times}
    return ending | {
        start for start in beginning if any(start <= time_ms <= start + length for time_ms in times)
    }


@settings(deadline=None)
@given(rows(values=st.integers(0, 99), until_ms=50), st.integers(0, 15))
def test_sliding_windows_that_remain_hold_their_rows(taken: list[Row], length: int) -> None:
    last = {
        (row.key, row.window): (sorted(row.value), row.timestamp_ms)
        for row in run(SlidingWindowAggregate(length, collecting, 1000), taken)
    }
    expected: dict[tuple[object, Window], tuple[list[object], int]] = {}
    for key in {row.key for row in taken}:
        of_key = [row for row in taken if row.key == key]
        for start in windows_of([row.timestamp_ms for row in of_key], length):
            window = Window(start, start + length)
            inside = [row for row in of_key if start <= row.timestamp_ms <= window.end_ms]
            values = sorted(row.value for row in inside)
            expected[key, window] = (values, max(row.timestamp_ms for row in inside))
    assert last == expected


@settings(deadline=None)
@given(rows(values=st.integers(0, 99), until_ms=80, most=40), st.integers(0, 9), st.integers(0, 9))
def test_sliding_windows_that_are_open_hold_rows_that_were_in_time(taken, length, grace_ms) -> None:
    """A row whose own window was closed may be missing in others, as in Kafka Streams."""
    now_ms = -1
    state = BucketState()
    kernel = SlidingWindowAggregate(length, collecting, grace_ms)
    was_late = False
    for count, row in enumerate(taken, 1):
        now_ms = max(now_ms, row.timestamp_ms)
        was_late = was_late or row.timestamp_ms < now_ms - grace_ms
        for output in run(kernel, [row], state):
            assert output.window is not None
            assert output.window.end_ms >= now_ms - grace_ms
            start_ms, end_ms = output.window
            inside = [
                other.value
                for other in taken[:count]
                if other.key == row.key and start_ms <= other.timestamp_ms <= end_ms
            ]
            assert not Counter(output.value) - Counter(inside)
            assert was_late or sorted(output.value) == sorted(inside)


def test_sliding_windows_are_those_of_kip_450() -> None:
    """A at 8, B at 9.2 and C at 12.4 in windows of 5 (in tenths)."""
    taken = [record(b"k", "A", 80), record(b"k", "B", 92), record(b"k", "C", 124)]
    found = list(facts(run(SlidingWindowAggregate(50, collecting, 500), taken)))
    assert found == [
        (b"k", (30, 80), ["A"], 80),
        (b"k", (81, 131), ["B"], 92),
        (b"k", (42, 92), ["A", "B"], 92),
        (b"k", (81, 131), ["B", "C"], 124),
        (b"k", (93, 143), ["C"], 124),
        (b"k", (74, 124), ["A", "B", "C"], 124),
    ]


def test_sliding_windows_with_aggregates_that_are_changed_in_place_stay_apart() -> None:
    def append(key: bytes, value: object, found: list[object]) -> list[object]:
        found.append(value)
        return found

    taken = [record(b"k", number, time_ms) for number, time_ms in enumerate([20, 25, 22, 21])]
    changing = run(SlidingWindowAggregate(10, Aggregation(append, list)), taken)
    assert list(facts(changing)) == list(facts(run(SlidingWindowAggregate(10, collecting), taken)))


def test_sliding_windows_drop_late_rows() -> None:
    state = BucketState()
    taken = [record(b"a", 1, 100), record(b"a", 2, 89)]
    assert len(run(SlidingWindowAggregate(5, counting(), 5), taken, state)) == 1
    assert state.dropped == {"late": 1}


def test_sliding_windows_forget_closed_windows_of_all_keys() -> None:
    state = BucketState()
    taken = [record(bytes([number]), 1, number) for number in range(250)]
    run(SlidingWindowAggregate(5, counting(), 5), taken, state)
    assert len(list(state.keys("windows"))) <= 60

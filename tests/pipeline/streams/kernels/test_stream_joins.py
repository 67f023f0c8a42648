"""Joins of two streams, against all pairs."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.pipeline.streams.kernels.bucket_state import BucketState
from barnabas.pipeline.streams.kernels.kernel_rows import Row, Side
from barnabas.pipeline.streams.kernels.stream_joins import JoinWindows, StreamJoin
from tests.pipeline.streams.kernels.kernel_runs import KEYS, facts, record, rows, run

BOTH = frozenset({Side.LEFT, Side.RIGHT})
both = rows(sides=BOTH, keys=[*KEYS, None], until_ms=80, most=40)
windows = st.builds(JoinWindows, st.integers(0, 9), st.integers(0, 9), st.integers(0, 9))
outers = st.sampled_from([frozenset(), frozenset({Side.LEFT}), frozenset({Side.RIGHT}), BOTH])
END_OF_TIME = Row(None, None, 10_000, Side.TIME)


def joined(key: bytes | None, left: object, right: object) -> object:
    return [left, right]


class Naive:
    """Keeps every row, and goes through all of them at each row."""

    def __init__(self, windows: JoinWindows, outer: frozenset[Side]) -> None:
        self.windows, self.outer = windows, outer
        self.now_ms = -1
        self.newest = {Side.LEFT: -1, Side.RIGHT: -1}
        self.kept: list[Row] = []
        self.waiting: list[Row] = []
        self.found: list[tuple[object, ...]] = []

    def take(self, row: Row) -> None:
        self.now_ms = max(self.now_ms, row.timestamp_ms)
        if row.side is Side.TIME:
            self.close()
        elif row.value is None:
            if row.key is not None:
                self.newest[row.side] = max(self.newest[row.side], row.timestamp_ms)
        elif row.key is None:
            self.alone([row] if row.side in self.outer else [])
        else:
            self.close()
            self.join(row)

    def join(self, row: Row) -> None:
        windows = self.windows
        self.newest[row.side] = max(self.newest[row.side], row.timestamp_ms)
        self.kept.append(row)
        matches = [other for other in self.kept if self.matches(row, other)]
        for other in sorted(matches, key=lambda other: other.timestamp_ms):
            left, right = (row, other) if row.side is Side.LEFT else (other, row)
            time_ms = max(row.timestamp_ms, other.timestamp_ms)
            self.found.append((row.key, None, [left.value, right.value], time_ms))
            self.waiting = [
                waiting
                for waiting in self.waiting
                if (waiting.side, waiting.key, waiting.timestamp_ms)
                != (other.side, other.key, other.timestamp_ms)
            ]
        if not matches and row.side in self.outer:
            ahead = windows.after_ms if row.side is Side.LEFT else windows.before_ms
            if row.timestamp_ms + ahead < self.now_ms:
                self.alone([row])
            else:
                self.waiting.append(row)

    def matches(self, row: Row, other: Row) -> bool:
        if other.side is row.side or other.key != row.key:
            return False
        if other.timestamp_ms <= self.newest[other.side] - self.windows.kept_ms:
            return False  # forgotten
        left, right = (row, other) if row.side is Side.LEFT else (other, row)
        distance = right.timestamp_ms - left.timestamp_ms
        return -self.windows.before_ms <= distance <= self.windows.after_ms

    def close(self) -> None:
        closed = [row for row in self.waiting if self.is_closed(row)]
        self.waiting = [row for row in self.waiting if not self.is_closed(row)]
        self.alone(sorted(closed, key=lambda row: (row.timestamp_ms, -row.side, row.key)))

    def is_closed(self, row: Row) -> bool:
        ahead = self.windows.after_ms if row.side is Side.LEFT else self.windows.before_ms
        return row.timestamp_ms + ahead + self.windows.grace_ms < self.now_ms

    def alone(self, rows: list[Row]) -> None:
        for row in rows:
            value = [row.value, None] if row.side is Side.LEFT else [None, row.value]
            self.found.append((row.key, None, value, row.timestamp_ms))


@settings(deadline=None)
@given(both, windows, outers)
def test_stream_join_of_any_rows_is_that_of_all_pairs(taken, windows, outer) -> None:
    naive = Naive(windows, outer)
    for row in [*taken, END_OF_TIME]:
        naive.take(row)
    assert (
        list(facts(run(StreamJoin(joined, windows, outer), [*taken, END_OF_TIME]))) == naive.found
    )


@settings(deadline=None)
@given(both, st.integers(0, 9), st.integers(0, 9))
def test_stream_join_with_long_grace_yields_each_pair_once(taken, before_ms, after_ms) -> None:
    windows = JoinWindows(before_ms, after_ms, 1000)
    complete = [row for row in taken if row.key is not None and row.value is not None]
    pairs = [
        [left.value, right.value]
        for left in complete
        for right in complete
        if left.side is Side.LEFT and right.side is Side.RIGHT and left.key == right.key
        if -before_ms <= right.timestamp_ms - left.timestamp_ms <= after_ms
    ]
    assert sorted(row.value for row in run(StreamJoin(joined, windows), taken)) == sorted(pairs)


def test_left_join_yields_row_alone_only_after_window_and_grace() -> None:
    kernel = StreamJoin(joined, JoinWindows(5, 5, 3), frozenset({Side.LEFT}))
    state = BucketState()
    assert run(kernel, [record(b"a", 1, 10), record(b"b", 2, 18)], state) == []
    assert [row.value for row in run(kernel, [record(b"b", 3, 19)], state)] == [[1, None]]
    assert run(kernel, [record(b"b", 4, 19)], state) == []


def test_left_join_row_that_matched_is_not_yielded_alone() -> None:
    kernel = StreamJoin(joined, JoinWindows(5, 5), frozenset({Side.LEFT}))
    taken = [record(b"a", 1, 10), record(b"a", 2, 12, Side.RIGHT), END_OF_TIME]
    assert [row.value for row in run(kernel, taken)] == [[1, 2]]


@settings(deadline=None)
@given(both, windows, outers)
def test_eager_join_yields_each_pair_and_at_once_rows_that_have_no_match_yet(
    taken, windows, outer
) -> None:
    state, pairs = BucketState(), BucketState()
    eager = StreamJoin(joined, windows, outer, is_eager=True)
    for row in taken:
        found = [list(facts([each])) for each in run(eager, [row], state)]
        matched = [list(facts([each])) for each in run(StreamJoin(joined, windows), [row], pairs)]
        alone = [row.value, None] if row.side is Side.LEFT else [None, row.value]
        is_alone = row.value is not None and row.side in outer and not matched
        assert found == [*matched, *([[(row.key, None, alone, row.timestamp_ms)]] * is_alone)]


def test_stream_join_forgets_rows_and_keys_that_no_row_can_match() -> None:
    state = BucketState()
    kernel = StreamJoin(joined, JoinWindows(5, 5, 5), BOTH)
    run(kernel, [record(bytes([number]), 1, number) for number in range(200)], state)
    assert len(list(state.keys("LEFT"))) <= 40
    assert len(list(state.keys("alone LEFT"))) <= 15


@pytest.mark.parametrize(
    ("key", "value", "reason"), [(None, 1, "no key"), (b"a", None, "no value")]
)
def test_stream_join_of_incomplete_row_drops_it(key, value, reason) -> None:
    state = BucketState()
    assert run(StreamJoin(joined, JoinWindows(1, 1)), [record(key, value, 0)], state) == []
    assert state.dropped == {reason: 1}


def test_join_window_that_ends_before_it_begins_is_refused() -> None:
    with pytest.raises(ValueError, match="before it begins"):
        JoinWindows(-5, 4)


def test_stream_join_finds_no_row_that_is_behind_the_time_for_which_rows_are_kept() -> None:
    """At 100, rows of the right stream are matched from 86 on."""
    kernel = StreamJoin(joined, JoinWindows(5, 5, 5))
    state = BucketState()
    right = [record(b"a", time_ms, time_ms, Side.RIGHT) for time_ms in (90, 85, 86, 100)]
    run(kernel, right, state)
    assert [row.value for row in run(kernel, [record(b"a", 0, 83)], state)] == [[0, 86]]

"""Suppression, against a list of what is held back."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.pipeline.streams.kernels.bucket_state import BucketState
from barnabas.pipeline.streams.kernels.kernel_chain import Chain
from barnabas.pipeline.streams.kernels.kernel_rows import (
    Row,
    Side,
    Window,
    identity,
    in_stream_order,
)
from barnabas.pipeline.streams.kernels.session_windows import SessionWindowAggregate
from barnabas.pipeline.streams.kernels.stream_aggregates import Aggregation, counting
from barnabas.pipeline.streams.kernels.suppression import (
    Suppress,
    until_time_limit,
    until_window_closes,
)
from barnabas.pipeline.streams.kernels.time_windows import TimeWindowAggregate, TimeWindows
from tests.pipeline.streams.kernels.kernel_runs import KEYS, facts, record, rows, run

collecting = Aggregation(lambda key, value, found: [*found, value], list)


limits = st.one_of(st.none(), st.integers(1, 4))


@settings(deadline=None)
@given(rows(), st.integers(0, 20), limits)
def test_time_limit_sends_the_newest_change_of_each_key(
    taken: list[Row], limit_ms: int, most: int | None
) -> None:
    now_ms = -1
    held: dict[bytes, tuple[int, Row]] = {}
    expected: list[tuple[object, ...]] = []
    for row in taken:
        now_ms = max(now_ms, row.timestamp_ms)
        due_ms, _ = held.get(identity(row), (row.timestamp_ms, row))
        held[identity(row)] = (due_ms, row)
        for due_ms, key in sorted((due_ms, key) for key, (due_ms, _) in held.items()):
            if due_ms <= now_ms - limit_ms or len(held) > (most or len(KEYS)):
                sent = held.pop(key)[1]
                expected.append((sent.key, None, sent.value, sent.timestamp_ms))
    assert list(facts(run(until_time_limit(limit_ms, most), taken))) == expected


@settings(deadline=None)
@given(rows(keys=[b"%d" % number for number in range(9)]), st.integers(0, 90), st.integers(1, 9))
def test_time_limit_with_most_records_keeps_the_limit_and_the_newest_of_each_key_comes_last(
    taken: list[Row], limit_ms: int, most: int
) -> None:
    kernel, state = until_time_limit(limit_ms, most), BucketState()
    sent: list[Row] = []
    for row in taken:
        sent += run(kernel, [row], state)
        assert len(set(state.keys("held"))) <= most
    sent += run(kernel, [Row(None, None, 1_000, Side.TIME)], state)
    newest = [{row.key: (row.value, row.timestamp_ms) for row in found} for found in (taken, sent)]
    assert newest[0] == newest[1]


@settings(deadline=None)
@given(rows(), st.integers(1, 4), st.integers(1, 4), st.integers(0, 30))
def test_most_records_that_changes_counts_from_the_next_row(
    taken: list[Row], before: int, after: int, place: int
) -> None:
    state = BucketState()
    run(until_time_limit(1_000, before), taken[:place], state)
    for row in taken[place:]:
        run(until_time_limit(1_000, after), [row], state)
        assert len(set(state.keys("held"))) <= after


@settings(deadline=None)
@given(rows(until_ms=90, keys=[*KEYS, None]), st.integers(0, 9), st.integers(1, 9))
def test_final_results_of_windows_hold_all_rows_that_were_in_time(taken, grace_ms, size) -> None:
    windows = TimeWindowAggregate(TimeWindows(size, size, grace_ms), collecting)
    end = record(b"end", 0, 1000)
    updates = run(windows, [*taken, end])
    newest = {(row.key, row.window): row for row in updates if row.key != b"end"}
    expected = sorted(facts(newest.values()), key=lambda fact: (fact[1][1], fact[0], fact[1]))
    final = run(Chain([windows, until_window_closes(grace_ms)]), [*taken, end])
    found = list(facts(final))
    assert sorted(found, key=lambda fact: (fact[1][1], fact[0], fact[1])) == expected


def test_final_results_of_sessions_have_no_tombstones_and_merged_sessions_once() -> None:
    sessions = SessionWindowAggregate(5, counting(), lambda key, one, two: one + two)
    taken = [record(b"a", 1, time_ms) for time_ms in (0, 4, 8, 50)]
    final = run(Chain([sessions, until_window_closes(5)]), taken)
    assert list(facts(final)) == [(b"a", (0, 8), 3, 8)]


def test_final_results_follow_time_without_rows() -> None:
    chain = Chain([TimeWindowAggregate(TimeWindows(10, 10), counting()), until_window_closes(0)])
    state = BucketState()
    assert run(chain, [record(b"a", 1, 3)], state) == []
    assert run(chain, [Row(None, None, 9, Side.TIME)], state) == []
    assert list(facts(run(chain, [Row(None, None, 10, Side.TIME)], state))) == [
        (b"a", (0, 10), 1, 3)
    ]


def test_time_limit_with_too_many_records_sends_the_oldest_early() -> None:
    kernel = until_time_limit(1000, most_records=2)
    taken = [record(key, 1, time_ms) for time_ms, key in enumerate([b"c", b"a", b"b"])]
    assert [row.key for row in run(kernel, taken)] == [b"c"]


def test_most_records_are_kept_with_another_signature_since_their_buckets_differ() -> None:
    limited, other = until_time_limit(10, 2), until_time_limit(20, 3)
    assert limited.signature == other.signature != until_time_limit(10).signature
    assert until_time_limit(10).signature == {"kernel": "suppress", "version": 1, "is_final": False}


def test_time_limit_is_not_reached_by_a_record_without_a_key() -> None:
    taken = [record(b"a", 1, 0), record(None, 1, 50), record(b"b", 1, 1)]
    assert run(until_time_limit(10), taken) == []
    assert [row.stream_time_ms for row in in_stream_order(taken[1:], timed=Suppress.timed)] == [
        -1,
        1,
    ]


def test_time_limit_sends_old_value_from_before_the_first_held_change() -> None:
    taken = [record(b"a", value, value)._replace(old=value - 1) for value in (1, 2, 9)]
    (first, *_) = run(until_time_limit(5), taken)
    assert (first.value, first.old) == (9, 0)


def test_suppressed_row_keeps_headers_and_position() -> None:
    row = Row(b"a", 1, 5, Side.LEFT, 3, 8, (("h", b"1"), ("n", None)), Window(0, 5))
    assert run(until_window_closes(0), [row]) == [row._replace(stream_time_ms=5)]


def test_final_results_without_windows_are_refused() -> None:
    with pytest.raises(ValueError, match="need windows"):
        run(until_window_closes(0), [record(b"a", 1, 0)])

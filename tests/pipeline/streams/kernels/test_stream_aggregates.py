"""Aggregates by key and deduplication, against naive loops."""

from itertools import zip_longest

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.pipeline.streams.kernels.bucket_state import BucketState
from barnabas.pipeline.streams.kernels.kernel_rows import Row
from barnabas.pipeline.streams.kernels.stream_aggregates import (
    Aggregation,
    Deduplicate,
    StreamAggregate,
    counting,
)
from tests.pipeline.streams.kernels.kernel_runs import KEYS, facts, record, rows, run

collecting = Aggregation(lambda key, value, found: [*found, value], list)


@settings(deadline=None)
@given(rows(keys=[*KEYS, None]))
def test_stream_aggregate_of_any_rows_collects_values(taken: list[Row]) -> None:
    kept = [row for row in taken if row.key is not None and row.value is not None]
    expected: list[tuple[object, ...]] = []
    for end, row in enumerate(kept, 1):
        same = [other for other in kept[:end] if other.key == row.key]
        time_ms = max(other.timestamp_ms for other in same)
        expected.append((row.key, None, [other.value for other in same], time_ms))
    assert list(facts(run(StreamAggregate(collecting), taken))) == expected


def test_stream_aggregate_sends_the_old_aggregate() -> None:
    found = run(StreamAggregate(counting()), [record(b"a", "x", 3), record(b"a", "y", 1)])
    assert [(row.value, row.old, row.timestamp_ms) for row in found] == [(1, None, 3), (2, 1, 3)]


def test_stream_aggregate_with_changed_list_keeps_the_old_one() -> None:
    def append(key: bytes, value: object, found: list[object]) -> list[object]:
        found.append(value)
        return found

    kernel = StreamAggregate(Aggregation(append, list))
    found = run(kernel, [record(b"a", 1, 0), record(b"a", 2, 1)])
    assert [(row.value, row.old) for row in found] == [([1], None), ([1, 2], [1])]


def test_stream_reduction_starts_with_the_first_value() -> None:
    largest = StreamAggregate(Aggregation(lambda key, value, found: max(value, found)))
    taken = [record(b"a", value, 0) for value in (3, 1, 5)]
    assert [row.value for row in run(largest, taken)] == [3, 3, 5]


def test_stream_aggregate_that_returns_none_forgets_the_key() -> None:
    state = BucketState()
    gone = StreamAggregate(Aggregation(lambda key, value, found: None, lambda: 0))
    assert [row.value for row in run(gone, [record(b"a", 1, 0)], state)] == [None]
    assert list(state.keys("aggregates")) == []


@settings(deadline=None)
@given(rows(keys=[*KEYS, None], until_ms=40))
def test_deduplicate_passes_the_first_row_within_the_window(taken: list[Row]) -> None:
    now_ms = -1
    passed: list[Row] = []
    for row in taken:
        now_ms = max(now_ms, row.timestamp_ms)
        near = [
            other
            for other in passed
            if other.key == row.key and abs(other.timestamp_ms - row.timestamp_ms) <= 5
        ]
        if row.key is not None and row.timestamp_ms >= now_ms - 5 and not near:
            passed.append(row)
    assert run(Deduplicate(5), taken) == passed


@settings(deadline=None)
@given(rows(until_ms=40), rows(until_ms=40), st.integers(0, 1_000))
def test_deduplicate_drops_nothing_because_another_partition_is_ahead(
    first: list[Row], second: list[Row], ahead_ms: int
) -> None:
    ahead = [
        row._replace(
            key=b"-" + (row.key or b""), partition=1, timestamp_ms=row.timestamp_ms + ahead_ms
        )
        for row in second
    ]
    mixed = [row for pair in zip_longest(first, ahead) for row in pair if row is not None]
    found = run(Deduplicate(5), mixed)
    assert [row for row in found if row.partition == 0] == run(Deduplicate(5), first)
    assert [row for row in found if row.partition == 1] == run(Deduplicate(5), ahead)


def test_deduplicate_finds_duplicates_of_another_partition() -> None:
    taken = [record(b"a", 1, 900, partition=1), record(b"a", 2, 898), record(b"b", 3, 1)]
    assert [row.value for row in run(Deduplicate(5), taken)] == [1]
    taken = [record(b"b", 1, 1), record(b"a", 2, 900, partition=1), record(b"b", 3, 2)]
    assert [row.value for row in run(Deduplicate(5), taken)] == [1, 2]


def test_deduplicate_forgets_keys_behind_the_window() -> None:
    state = BucketState()
    taken = [record(bytes([number]), 1, number) for number in range(100)]
    run(Deduplicate(5), taken, state)
    assert len(list(state.keys("passed"))) <= 4 * 5


def test_deduplicate_with_negative_window_is_refused() -> None:
    with pytest.raises(ValueError, match="window_ms"):
        Deduplicate(-1)


def test_row_with_negative_timestamp_is_dropped() -> None:
    state = BucketState()
    assert run(StreamAggregate(counting()), [record(b"a", 1, -1)], state) == []
    assert state.dropped == {"negative timestamp": 1}


def test_deduplicate_remembers_rows_that_late_rows_may_repeat() -> None:
    taken = [record(b"a", 1, 5), record(b"b", 2, 15), record(b"a", 3, 10)]
    assert [row.value for row in run(Deduplicate(5), taken)] == [1, 2]

"""The order of rows, against queues that are polled by the timestamp of their head."""

from collections import defaultdict, deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.pipeline.streams.kernels.kernel_rows import (
    Row,
    Side,
    Window,
    identity,
    in_stream_order,
    own,
)

inputs = st.lists(
    st.tuples(st.sampled_from([Side.LEFT, Side.RIGHT]), st.integers(0, 2), st.integers(0, 9)),
    max_size=30,
)


def rows_of(entries: list[tuple[Side, int, int]]) -> list[Row]:
    offsets: dict[tuple[Side, int], int] = defaultdict(int)
    rows: list[Row] = []
    for side, partition, time_ms in entries:
        offset = offsets[side, partition]
        offsets[side, partition] += 1
        rows.append(Row(b"k", offset, time_ms, side, partition, offset))
    return rows


def polled(rows: list[Row], first: Side) -> list[Row]:
    """As Kafka Streams: poll the queue with the lowest timestamp at its head."""
    queues: dict[tuple[Side, int], deque[Row]] = defaultdict(deque)
    for row in rows:
        queues[row.side, row.partition].append(row)
    found: list[Row] = []
    while any(queues.values()):
        heads = [queue[0] for queue in queues.values() if queue]
        head = min(heads, key=lambda row: (row.timestamp_ms, row.side is not first, row.partition))
        found.append(queues[head.side, head.partition].popleft())
    return found


def place(row: Row) -> tuple[Side, int, int]:
    return row.side, row.partition, row.offset


@settings(deadline=None)
@given(inputs, st.sampled_from([Side.LEFT, Side.RIGHT]), st.randoms())
def test_order_of_two_partitions_is_that_of_polled_queues(entries, first, random) -> None:
    rows = [row for row in rows_of(entries) if row.partition == 0]
    expected = [place(row) for row in polled(rows, first)]
    random.shuffle(rows)
    assert [place(row) for row in in_stream_order(rows, first)] == expected


@settings(deadline=None)
@given(inputs, st.sampled_from([Side.LEFT, Side.RIGHT]))
def test_order_keeps_each_partition_and_stamps_its_stream_time(entries, first) -> None:
    rows = rows_of(entries)
    ordered = in_stream_order(rows, first)
    for side, partition in {(row.side, row.partition) for row in rows}:
        of_one = [row for row in ordered if (row.side, row.partition) == (side, partition)]
        assert [row.offset for row in of_one] == list(range(len(of_one)))
        reached = -1
        for row in of_one:
            reached = max(reached, row.timestamp_ms)
            assert row.stream_time_ms == reached


def test_order_with_stream_time_of_other_buckets_follows_it() -> None:
    """The row at 5 came behind one at 100 that another bucket has."""
    late = Row(b"k", 1, 5, Side.LEFT, 0, 1, stream_time_ms=100)
    table = Row(b"k", 2, 50, Side.RIGHT, 0, 0)
    assert [row.value for row in in_stream_order([late, table])] == [2, 1]


def test_order_at_equal_times_takes_the_first_side_first_and_time_last() -> None:
    rows = [
        Row(None, None, 7, Side.TIME),
        Row(b"k", "stream", 7, Side.LEFT),
        Row(b"k", "table", 7, Side.RIGHT),
    ]
    assert [row.side for row in in_stream_order(rows, Side.RIGHT)] == [
        Side.RIGHT,
        Side.LEFT,
        Side.TIME,
    ]


def test_identity_of_windows_of_a_key_differ() -> None:
    row = Row(b"k", 1, 0)
    assert identity(row) == b"k"
    windows = [Window(0, 5), Window(0, 6), Window(1, 5)]
    assert len({identity(row._replace(window=window)) for window in windows}) == 3


def test_identity_without_key_raises() -> None:
    with pytest.raises(ValueError, match="without a key"):
        identity(Row(None, 1, 0))


def test_own_list_is_a_copy() -> None:
    value = [{"a": [1]}]
    copied = own(value)
    copied[0]["a"].append(2)
    assert value == [{"a": [1]}]


def test_wall_clock_comes_behind_all_rows_and_times() -> None:
    clock = Row(None, None, 1, Side.CLOCK)
    time = Row(None, None, 90, Side.TIME, stream_time_ms=90)
    found = in_stream_order([clock, time, Row(b"k", 1, 80), Row(b"k", 2, 70, offset=1)])
    assert [row.side for row in found] == [Side.LEFT, Side.LEFT, Side.TIME, Side.CLOCK]
    assert [row.stream_time_ms for row in found[:3]] == [80, 80, 90]

"""Joins of a stream with a table, against a dict."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.pipeline.streams.kernels.bucket_state import BucketState
from barnabas.pipeline.streams.kernels.kernel_rows import Row, Side
from barnabas.pipeline.streams.kernels.stream_table_joins import GlobalTableJoin, StreamTableJoin
from tests.pipeline.streams.kernels.kernel_runs import KEYS, record, rows, run

both = rows(sides=[Side.LEFT, Side.RIGHT], keys=[*KEYS, None])


def joined(key: bytes | None, left: object, right: object) -> object:
    return [key, left, right]


def expected(taken: list[Row], *, is_left: bool) -> list[tuple[object, int]]:
    table: dict[bytes, object] = {}
    found: list[tuple[object, int]] = []
    for row in taken:
        if row.side is Side.RIGHT:
            if row.key is not None:
                table[row.key] = row.value
        elif row.value is not None:
            other = table.get(row.key or b"")
            if other is not None or is_left:
                found.append(([row.key, row.value, other], row.timestamp_ms))
    return found


@settings(deadline=None)
@given(both, st.booleans())
def test_stream_table_join_of_any_rows_is_a_look_up(taken: list[Row], is_left: bool) -> None:
    found = run(StreamTableJoin(joined, is_left), taken)
    assert [(row.value, row.timestamp_ms) for row in found] == expected(taken, is_left=is_left)


def test_stream_table_join_after_tombstone_finds_nothing() -> None:
    taken = [
        record(b"a", 1, 0, Side.RIGHT),
        record(b"a", 2, 1),
        record(b"a", None, 2, Side.RIGHT),
        record(b"a", 3, 3),
    ]
    state = BucketState()
    assert [row.value for row in run(StreamTableJoin(joined), taken, state)] == [[b"a", 2, 1]]
    assert list(state.keys("table")) == []


@pytest.mark.parametrize(
    ("key", "value", "reason"), [(None, 1, "no key"), (b"a", None, "no value")]
)
def test_stream_table_join_of_incomplete_row_drops_it(key, value, reason) -> None:
    state = BucketState()
    assert run(StreamTableJoin(joined), [record(key, value, 0)], state) == []
    assert state.dropped == {reason: 1}


def test_stream_table_join_of_other_partition_finds_the_entry() -> None:
    """The topics may have different partitions, where Kafka Streams refuses them."""
    taken = [record(b"a", 1, 0, Side.RIGHT, partition=1), record(b"a", 2, 1)]
    assert [row.value for row in run(StreamTableJoin(joined), taken)] == [[b"a", 2, 1]]


def test_stream_table_join_keeps_headers_and_position() -> None:
    row = Row(b"a", 1, 5, Side.LEFT, 3, 8, headers=(("h", b"1"),))
    (found,) = run(StreamTableJoin(joined, is_left=True), [row])
    assert found == row._replace(value=[b"a", 1, None])


@settings(deadline=None)
@given(both, st.booleans())
def test_global_table_join_of_any_rows_is_a_look_up(taken: list[Row], is_left: bool) -> None:
    by_value = GlobalTableJoin(
        joined, lambda key, value: None if value == 9 else KEYS[value % len(KEYS)], is_left
    )
    table: dict[bytes | None, object] = {}
    wanted: list[object] = []
    for row in taken:
        if row.side is Side.RIGHT:
            table[row.key] = row.value
        elif row.value is not None:
            other = None if row.value == 9 else table.get(KEYS[row.value % len(KEYS)])
            if other is not None or is_left:
                wanted.append([row.key, row.value, other])
    spread = [row._replace(partition=index % 3) for index, row in enumerate(taken)]
    assert [row.value for row in run(by_value, spread)] == wanted

"""Arrow batches as lists of columns."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")

from barnabas.pipeline.delivery.rows.arrow_rows import PartitionRows, column_list, headers_of, runs  # noqa: E402

HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])
VALUES: dict[Any, Any] = {
    pa.binary(): st.binary(max_size=5),
    pa.string(): st.text(max_size=5),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
}


@pytest.mark.parametrize("kind", list(VALUES), ids=str)
@settings(deadline=None)
@given(data=st.data())
def test_column_list_any_slice_equals_the_list_of_arrow(kind: Any, data: st.DataObject) -> None:
    values = data.draw(st.lists(VALUES[kind] | st.none(), max_size=20))
    first = data.draw(st.integers(0, len(values)))
    length = data.draw(st.integers(0, len(values) - first))
    column = pa.array(values, kind).slice(first, length)
    found = column_list(column)
    assert found == column.to_pylist()
    assert [type(each) for each in found] == [type(each) for each in column.to_pylist()]


def batch(rows: list[tuple[str, int, int]]) -> Any:
    """Return rows of (topic, partition, offset); odd offsets have no key, every third a header."""
    return pa.RecordBatch.from_pydict(
        {
            "key": pa.array([None if row[2] % 2 else b"k" for row in rows], pa.binary()),
            "value": pa.array([str(row[2]).encode() for row in rows], pa.binary()),
            "topic": pa.array([row[0] for row in rows], pa.string()),
            "partition": pa.array([row[1] for row in rows], pa.int32()),
            "offset": pa.array([row[2] for row in rows], pa.int64()),
            "timestamp": pa.array([row[2] * 1000 for row in rows], pa.timestamp("us", tz="UTC")),
            "timestampType": pa.array([row[1] for row in rows], pa.int32()),
            "headers": pa.array(
                [None if row[2] % 3 else [{"key": "h", "value": None}] for row in rows],
                pa.list_(HEADER),
            ),
        }
    )


def test_runs_several_partitions_are_cut_where_the_partition_changes() -> None:
    rows = [("a", 0, 1), ("a", 0, 2), ("a", 1, 3), ("b", 1, 4)]
    found = list(runs(batch(rows)))
    assert [(each.topic, each.partition, each.offsets) for each in found] == [
        ("a", 0, [1, 2]),
        ("a", 1, [3]),
        ("b", 1, [4]),
    ]


def test_runs_one_partition_has_all_columns() -> None:
    rows = [("a", 1, offset) for offset in range(4)]
    assert list(runs(batch(rows))) == [
        PartitionRows(
            "a",
            1,
            [0, 1, 2, 3],
            [b"k", None, b"k", None],
            [b"0", b"1", b"2", b"3"],
            [0, 1, 2, 3],
            [1, 1, 1, 1],
            [[("h", None)], [], [], [("h", None)]],
        )
    ]


@pytest.mark.parametrize("empty", [[None, None], [[], []], [None, []]])
def test_headers_of_rows_without_headers_returns_no_list(empty: list[Any]) -> None:
    assert headers_of(pa.array(empty, pa.list_(HEADER))) is None


def test_headers_of_null_and_empty_lists_are_empty() -> None:
    column = pa.array([None, [{"key": "h", "value": b"v"}], []], pa.list_(HEADER))
    assert headers_of(column) == [[], [("h", b"v")], []]

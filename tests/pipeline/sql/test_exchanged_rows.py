"""The records that make the rows of a table those of the one that was rebuilt."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

pytest.importorskip("sqlglot")

from barnabas.pipeline.sql.hosting.exchanged_rows import Row, differences

ROWS = some.lists(
    some.builds(
        Row,
        some.just(1),
        some.sampled_from([b"a", b"b", b"c", b"d"]),
        some.none() | some.sampled_from([b"", b"1", b"2"]),
        some.integers(0, 9),
    ),
    max_size=12,
)


def newest(rows: list[Row]) -> dict[bytes, bytes]:
    found = {row.key: row.value for row in rows}
    return {key: value for key, value in found.items() if value is not None}


@given(ROWS, ROWS)
def test_differences_make_the_rows_of_one_table_those_of_the_other(
    table: list[Row], built: list[Row]
) -> None:
    found = differences(table, built)
    assert newest([*table, *found]) == newest(built)
    assert all(row.partition == 1 for row in found)
    assert len({row.key for row in found}) == len(found)
    same = newest(table).items() & newest(built).items()
    assert not same & {(row.key, row.value) for row in found}


def test_row_keeps_its_time_and_headers() -> None:
    headers = [("h", b"1")]
    built = [Row(0, b"k", b"old", 3, None), Row(0, b"k", b"new", 5, headers)]
    assert differences([], built) == [Row(0, b"k", b"new", 5, headers)]


def test_keys_that_are_gone_get_a_tombstone() -> None:
    assert differences([Row(0, b"k", b"v", 5)], []) == [Row(0, b"k", None)]
    assert differences([Row(0, b"k", b"v", 5), Row(0, b"k", None, 6)], []) == []

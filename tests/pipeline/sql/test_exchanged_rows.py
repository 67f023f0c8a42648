"""The records that make the rows of a table those of the one that was rebuilt."""

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as some

pytest.importorskip("sqlglot")

from barnabas.pipeline.sql.hosting.exchanged_rows import Row, changes_of
from barnabas.pipeline.sql.sql_failures import UnresolvedError

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


def written(table: list[Row], built: list[Row]) -> list[Row]:
    """Return the records that are written, for rows whose offsets are their places."""
    placed = [evolve(row, offset=place) for place, row in enumerate(built)]
    return [evolve(row, offset=0) for row in changes_of(1, table, placed).rows(placed)]


@given(ROWS, ROWS)
def test_changes_make_the_rows_of_one_table_those_of_the_other(
    table: list[Row], built: list[Row]
) -> None:
    found = written(table, built)
    assert newest([*table, *found]) == newest(built)
    assert all(row.partition == 1 for row in found)
    assert len({row.key for row in found}) == len(found)
    same = newest(table).items() & newest(built).items()
    assert not same & {(row.key, row.value) for row in found}


def test_row_keeps_its_time_and_headers() -> None:
    headers = [("h", b"1")]
    built = [Row(1, b"k", b"old", 3, None), Row(1, b"k", b"new", 5, headers)]
    assert written([], built) == [Row(1, b"k", b"new", 5, headers)]


def test_keys_that_are_gone_get_a_tombstone() -> None:
    assert written([Row(1, b"k", b"v", 5)], []) == [Row(1, b"k", None)]
    assert written([Row(1, b"k", b"v", 5)], [Row(1, b"k", None)]) == [Row(1, b"k", None)]
    assert written([Row(1, b"k", b"v", 5), Row(1, b"k", None, 6)], []) == []


def test_row_that_is_not_there_any_longer_is_an_error() -> None:
    found = changes_of(0, [], [Row(0, b"k", b"v", offset=3)])
    with pytest.raises(UnresolvedError, match="offset 3 of the rebuilt table is not there"):
        list(found.rows([Row(0, b"j", b"v", offset=2)]))

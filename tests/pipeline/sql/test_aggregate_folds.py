"""Folds: dates and timestamps, which they have as texts, lists and rows."""

import pytest

from barnabas.pipeline.sql.functions.aggregate_folds import fold_form
from barnabas.pipeline.sql.sql_types import DATE, INTEGER, STRING, TIMESTAMP, SqlType, array, struct

IN_ORDER = [
    "-5877641-06-23",
    "-0001-01-01",
    "0001-12-31",
    "1970-01-01",
    "9999-12-31",
    "+10000-01-01",
]
"""Spark writes a sign before years out of 0 to 9999."""


@pytest.mark.parametrize(("kind", "suffix"), [(DATE, ""), (TIMESTAMP, "T10:00:00.000Z")])
def test_extremes_are_by_year(kind: SqlType, suffix: str) -> None:
    values = [f"{each}{suffix}" for each in (*IN_ORDER[3:], *IN_ORDER[:3])]
    for name, expected in (("MIN", IN_ORDER[0]), ("MAX", IN_ORDER[-1])):
        form = fold_form(name, [kind], kind)
        state = form.initial
        for each in values:
            state = form.add(state, [each])
        assert state == f"{expected}{suffix}"
    top = fold_form("TOPK", [kind, INTEGER], array(kind))
    state = top.initial
    for each in values:
        state = top.add(state, [each, 2])
    assert state["values"] == [f"{each}{suffix}" for each in (IN_ORDER[-1], IN_ORDER[-2])]


def test_lists_are_summed_without_null_and_wrap_around() -> None:
    form = fold_form("SUM_LIST", [array(INTEGER)], INTEGER)
    state = form.initial
    for each in ([1, None, 2], None, [2**31 - 1], []):
        state = form.add(state, [each])
    assert state == -(2**31) + 2
    assert form.undo is not None
    assert form.undo(form.undo(state, [[2**31 - 1]]), [None]) == 3


def test_rows_of_the_largest_values_are_kept() -> None:
    """Rows with the same value stay in the order of the records, as in Spark's aggregation."""
    row = struct([("sort_col", INTEGER), ("col0", STRING)])
    form = fold_form("TOPK", [INTEGER, STRING, INTEGER], array(row))
    state = form.initial
    for number, text in ((1, "a"), (None, "b"), (3, "c"), (3, "d"), (2, "e")):
        state = form.add(state, [number, text, 3])
    expected = [(3, "c"), (3, "d"), (2, "e")]
    assert [(each["sort_col"], each["col0"]) for each in state["values"]] == expected
    merged = form.merge(state, form.add(form.initial, [9, "f", 1]))
    assert [each["col0"] for each in merged["values"]] == ["f", "c", "d"]

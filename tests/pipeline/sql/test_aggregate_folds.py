"""Folds of dates and timestamps, which have them as texts."""

import pytest

from barnabas.pipeline.sql.functions.aggregate_folds import fold_form
from barnabas.pipeline.sql.sql_types import DATE, INTEGER, TIMESTAMP, SqlType, array

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

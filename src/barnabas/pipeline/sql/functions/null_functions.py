"""Functions that choose among values, NULL or not."""

from __future__ import annotations

from typing import Final

from barnabas.pipeline.sql.functions.function_values import (
    A,
    row,
    spark,
    takes,
    takes_many,
)

_CATEGORY: Final = "Nulls and keys"

ROWS: Final = (
    row(
        "AS_VALUE",
        _CATEGORY,
        "0.9.0",
        "A copy of a key column, for the row's value.",
        takes(A, to=A, by=lambda value: value),
    ),
    row(
        "COALESCE",
        _CATEGORY,
        "0.9.0",
        "The first argument that is not NULL.",
        takes_many(A, A, to=A, by=lambda *values: spark().coalesce(*values)),
    ),
    row(
        "IFNULL",
        _CATEGORY,
        "0.9.0",
        "The first argument, or the second where the first is NULL.",
        takes(A, A, to=A, by=lambda value, other: spark().coalesce(value, other)),
    ),
    row(
        "NULLIF",
        _CATEGORY,
        "0.19.0",
        "NULL where both arguments are equal, else the first.",
        takes(
            A,
            A,
            to=A,
            by=lambda value, other: spark().when(~value.eqNullSafe(other), value),
        ),
    ),
)

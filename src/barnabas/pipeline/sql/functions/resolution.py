"""Functions by name and by the types of their arguments: what the planner calls."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from barnabas.pipeline.sql.functions.casts import cast
from barnabas.pipeline.sql.functions.function_table import FUNCTIONS
from barnabas.pipeline.sql.functions.function_values import (
    UNIT,
    Lambda,
    ResolvedAggregate,
    ResolvedFunction,
)
from barnabas.pipeline.sql.functions.matching import matched
from barnabas.pipeline.sql.functions.python_functions import python_function, python_names
from barnabas.pipeline.sql.sql_failures import UnresolvedError, nearest
from barnabas.pipeline.sql.sql_types import NULL, SqlType, to_spark

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.pipeline.sql.functions.function_values import (
        Argument,
        Build,
        Column,
        Function,
        Kind,
        Literals,
    )
    from barnabas.pipeline.sql.functions.matching import Match

LIST_PAGE = "docs/reference/sql-functions.md"


def function(name: str) -> Function:
    """Return the row of a function, by its name in upper case.

    Raises UnresolvedError, which names the nearest function, or the entry point that does not load.
    """
    found = FUNCTIONS.get(name) or python_function(name)
    if found is not None:
        return found
    hint = nearest(name, [*FUNCTIONS, *python_names()])
    raise UnresolvedError(f"There is no function {name}{hint}; {LIST_PAGE} lists all")


def all_functions() -> list[Function]:
    """Return the rows of all functions by name, without those in Python that do not load."""
    rows = dict(FUNCTIONS)
    for name in python_names():
        with contextlib.suppress(UnresolvedError):
            rows.setdefault(name, function(name))
    return [rows[name] for name in sorted(rows)]


def is_aggregate(name: str) -> bool:
    """True for the name of an aggregate."""
    found = FUNCTIONS.get(name)
    return found is not None and found.kind == "AGGREGATE"


def is_table_function(name: str) -> bool:
    """True for the name of a function that makes several rows of one."""
    found = FUNCTIONS.get(name)
    return found is not None and found.kind == "TABLE"


def takes_unit(name: str) -> bool:
    """True when the first argument of a function is a unit of time, written as a word."""
    found = FUNCTIONS.get(name)
    return found is not None and any(each.parameters[:1] == (UNIT,) for each in found.signatures)


def scalar(
    name: str, arguments: Sequence[Argument], literals: Literals | None = None
) -> ResolvedFunction:
    """Return a scalar function for arguments of these types, and the values of literals.

    Raises UnresolvedError.
    """
    return _resolved(name, "SCALAR", arguments, literals)


def table_function(name: str, arguments: Sequence[Argument]) -> ResolvedFunction:
    """Return a table function: its column is an array, of which each element makes a row.

    `returns` is the type of the elements. Raises UnresolvedError.
    """
    return _resolved(name, "TABLE", arguments)


def aggregate(name: str, arguments: Sequence[SqlType]) -> ResolvedAggregate:
    """Return an aggregate for arguments of these types; COUNT(*) has none.

    Raises UnresolvedError.
    """
    found = _resolved(name, "AGGREGATE", arguments)
    return ResolvedAggregate(name, found.returns, found.column, name in BY_POSITION)


BY_POSITION = frozenset({"COLLECT_LIST", "EARLIEST_BY_OFFSET", "LATEST_BY_OFFSET"})
"""The aggregates that read the columns of `POSITION`."""


def _resolved(
    name: str, kind: Kind, arguments: Sequence[Argument], literals: Literals | None = None
) -> ResolvedFunction:
    row = function(name)
    if row.kind != kind:
        raise UnresolvedError(f"{name} is {_KINDS[row.kind]}, and not {_KINDS[kind]}")
    match = matched(name, row.signatures, arguments, casts_texts=kind == "SCALAR")
    known = literals or (None,) * len(arguments)

    def column(*columns: Column) -> Column:
        values = [
            _argument(value, given, to, match)
            for value, given, to in zip(columns, arguments, match.types, strict=True)
        ]
        return _built(match, known, values)

    return ResolvedFunction(name, match.returns, column)


_KINDS = {
    "SCALAR": "a scalar function",
    "AGGREGATE": "an aggregate",
    "TABLE": "a table function",
}


def _argument(value: Column, given: Argument, to: SqlType, match: Match) -> Column:
    if isinstance(given, Lambda):
        return _converted_lambda(value, match.lambdas[id(given)], to)
    return value if UNIT in (given, to) else _converted(value, given, to)


def _converted_lambda(function: Build, given: SqlType, to: SqlType) -> Build:
    def converted(*columns: Column) -> Column:
        return _converted(function(*columns), given, to)

    return converted


def _converted(value: Column, given: SqlType, to: SqlType) -> Column:
    if given == NULL and to != NULL and "DECIMAL" not in str(to):
        return value.cast(to_spark(to))
    return value if NULL in (given, to) else cast(value, given, to)


def _built(match: Match, literals: Literals, values: list[Column]) -> Column:
    if match.signature.by_literals:
        return match.signature.build(literals, *values)
    if match.signature.by_types:
        return match.signature.build(match.types, *values)
    return match.signature.build(*values)

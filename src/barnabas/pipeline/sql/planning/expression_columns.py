"""Expressions of a plan as columns of Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.pipeline.sql.planning.column_structs import struct_of
from barnabas.pipeline.sql.planning.source_reading import Layout, names_in
from barnabas.pipeline.sql.sql_types import NULL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlglot import expressions as exp

    from barnabas.pipeline.sql.analysis.plan_values import NamedExpression
    from barnabas.pipeline.sql.functions.literals import TypedExpression
    from barnabas.pipeline.streams.serdes import Column


def structure(expressions: Sequence[NamedExpression], layout: Layout) -> Column:
    """Return the struct of named expressions."""
    return struct_of([(each.name, column_of(each.expression, layout)) for each in expressions])


def column_of(expression: TypedExpression, layout: Layout) -> Column:
    """Return the column of an expression; NULL is a text."""
    found = expression.column(names_in(layout))
    return found.cast("string") if expression.type == NULL else found


def places_of(expression: TypedExpression, layout: Layout) -> set[tuple[str, str]]:
    """Return the table and the name of each column that an expression reads."""
    found: set[tuple[str, str]] = set()

    def read(name: exp.Column) -> Column:
        found.add((name.table, name.name))
        return layout[name.table, name.name]

    expression.column(read)
    return found

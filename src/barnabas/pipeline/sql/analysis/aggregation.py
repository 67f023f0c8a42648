"""GROUP BY: its expressions and the aggregates of a SELECT, which become columns of the plan."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

from sqlglot import expressions as exp

from barnabas.pipeline.sql.analysis.plan_values import (
    AGGREGATES,
    GROUP,
    ROWS,
    WINDOW,
    Aggregation,
    PlannedAggregate,
    TableFunction,
)
from barnabas.pipeline.sql.analysis.projection import same_expression, text_of
from barnabas.pipeline.sql.analysis.relations import Relations, column, place_of, replaced
from barnabas.pipeline.sql.catalog.source_values import WINDOW_BOUNDS
from barnabas.pipeline.sql.functions.aggregate_functions import first_values
from barnabas.pipeline.sql.functions.aggregate_properties import AggregateProperties
from barnabas.pipeline.sql.functions.resolution import (
    aggregate,
    function,
    is_aggregate,
    is_table_function,
    table_function,
)
from barnabas.pipeline.sql.functions.typed_expressions import typed
from barnabas.pipeline.sql.sql_failures import SqlError, UnresolvedError
from barnabas.pipeline.sql.sql_types import INTEGER

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from barnabas.pipeline.sql.functions.literals import TypedExpression
    from barnabas.pipeline.sql.sql_types import SqlType
    from barnabas.pipeline.sql.statement_values import Window


def has_aggregate(node: exp.Expr) -> bool:
    """True when an expression calls an aggregate."""
    return any(is_aggregate(each.name) for each in node.find_all(exp.Anonymous))


def _no_aggregates() -> list[PlannedAggregate]:
    return []


@dataclass
class Grouping:
    """The groups of a query, and the aggregates that its expressions have called so far."""

    relations: Relations
    group: Sequence[exp.Expr]
    window: Window | None
    aggregates: list[PlannedAggregate] = field(default_factory=_no_aggregates)

    def rewritten(self, node: exp.Expr) -> exp.Expr:
        """Return an expression over groups and aggregates.

        Raises SqlError for a column that is in neither, and for an unknown function.
        """
        _check_functions(node)
        found = replaced(node, self._change)
        for each in found.find_all(exp.Column):
            if each.table not in ("", GROUP, AGGREGATES, WINDOW):
                raise SqlError(
                    f"{text_of(each)} is not in GROUP BY: add it there, or call an aggregate",
                    *place_of(node),
                )
        return found

    def _change(self, node: exp.Expr) -> exp.Expr | None:
        for index, each in enumerate(self.group):
            if same_expression(node, each):
                return column(GROUP, str(index))
        if isinstance(node, exp.Column) and node.name in WINDOW_BOUNDS and not node.table:
            return column(WINDOW, node.name)
        if isinstance(node, exp.Anonymous) and is_aggregate(node.name):
            return column(AGGREGATES, self._aggregate(node))
        return None

    def _aggregate(self, node: exp.Anonymous) -> str:
        given = [each for each in node.expressions if not isinstance(each, exp.Star)]
        for each in given:
            if has_aggregate(each):
                raise SqlError(
                    f"{node.name} takes no aggregate: call it in a second query", *place_of(node)
                )
            _check_bounds(each, self.relations, node.name)
        arguments = tuple(typed(each, self.relations) for each in given)
        _check_numbers(node, arguments)
        try:
            found = aggregate(node.name, [each.type for each in arguments])
        except UnresolvedError as error:
            raise SqlError(str(error), *place_of(node)) from None
        name = str(len(self.aggregates))
        self.aggregates.append(PlannedAggregate(name, found, arguments))
        return name

    def scope(self, types: Sequence[SqlType]) -> Relations:
        """Return the names behind the aggregation; `types` are those of the groups."""
        made = {(GROUP, str(index)): kind for index, kind in enumerate(types)}
        made |= {(AGGREGATES, each.name): each.function.returns for each in self.aggregates}
        bounds = {
            (WINDOW, each.name): self.relations.made[each.table, each.name]
            for each in _BOUNDS
            if (each.table, each.name) in self.relations.made
        }
        return replace(self.relations, made={**self.relations.made, **made, **bounds})

    def planned(self, group: Sequence[TypedExpression]) -> Aggregation:
        """Return the step of the plan."""
        return Aggregation(tuple(group), tuple(self.aggregates), self.window)


def _check_bounds(node: exp.Expr, relations: Relations, name: str) -> None:
    """Raise SqlError for a bound of the query's windows, which is known after the aggregation."""
    for each in node.find_all(exp.Column):
        if not each.table and each.name in WINDOW_BOUNDS and ("", each.name) in relations.made:
            raise SqlError(
                f"{name} takes no {each.name}: use it beside the aggregate", *place_of(node)
            )


def _check_numbers(node: exp.Anonymous, arguments: Sequence[TypedExpression]) -> None:
    """Raise SqlError for a number of values that is not constant, or is below 1."""
    if node.name not in _NUMBERED or len(arguments) < 2:
        return
    numbers = arguments[-1:] if node.name in _TOP else arguments[1:]
    if any(each.literal is None for each in numbers):
        which = "a constant as its last" if node.name in _TOP else "constants after its first"
        problem = f"{node.name} takes {which} argument, as in {node.name}(x, 2)"
        raise SqlError(problem, *place_of(node))
    for each in numbers:
        if each.type == INTEGER and cast("int", each.literal) < 1:
            problem = f"{node.name} keeps 1 or more values, and not {each.literal}"
            raise SqlError(problem, *place_of(node))


_TOP = ("TOPK", "TOPKDISTINCT")
_NUMBERED = (*_TOP, "EARLIEST_BY_OFFSET", "LATEST_BY_OFFSET")


def _check_functions(node: exp.Expr) -> None:
    """Raise SqlError for a function that does not exist, which might be meant as an aggregate."""
    for each in node.find_all(exp.Anonymous):
        try:
            if each.name not in _CONSTRUCTORS:
                function(each.name)
        except UnresolvedError as error:
            raise SqlError(str(error), *place_of(each)) from None


_CONSTRUCTORS = ("MAP", "STRUCT")
_BOUNDS = [exp.Column(this=exp.Identifier(this=each, quoted=True)) for each in WINDOW_BOUNDS]


def without_table_functions(
    nodes: Sequence[exp.Expr], relations: Relations
) -> tuple[list[exp.Expr], list[TableFunction]]:
    """Return expressions in which columns of `ROWS` stand for calls of table functions.

    Raises SqlError.
    """
    found: list[TableFunction] = []

    def change(node: exp.Expr) -> exp.Expr | None:
        if not (isinstance(node, exp.Anonymous) and is_table_function(node.name)):
            return None
        arguments = tuple(typed(each, relations) for each in node.expressions)
        try:
            resolved = table_function(node.name, [each.type for each in arguments])
        except UnresolvedError as error:
            raise SqlError(str(error), *place_of(node)) from None
        name = str(len(found))
        found.append(TableFunction(name, resolved, arguments))
        return column(ROWS, name)

    return [replaced(each, change) for each in nodes], found


def aggregating_by(aggregation: Aggregation, properties: AggregateProperties) -> Aggregation:
    """Return aggregates that follow the properties of a session."""
    aggregates = tuple(_limited(each, properties.limits) for each in aggregation.aggregates)
    return replace(aggregation, aggregates=aggregates, has_each_update=properties.has_each_update)


def _limited(planned: PlannedAggregate, limits: Mapping[str, int]) -> PlannedAggregate:
    limit = limits.get(planned.function.name)
    if limit is None:
        return planned
    return replace(planned, function=first_values(planned.function, limit))

"""GROUP BY onto streams: Spark's aggregation, or folds in Python for sessions and tables."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from barnabas.pipeline.sql.analysis.plan_values import (
    AGGREGATES,
    GROUP,
    WINDOW,
    Aggregation,
    QueryPlan,
)
from barnabas.pipeline.sql.planning.column_structs import struct_of
from barnabas.pipeline.sql.planning.expression_columns import column_of, structure
from barnabas.pipeline.sql.planning.fold_planning import (
    Folds,
    argument_name,
    check_sets,
    folds_of,
    is_folded,
)
from barnabas.pipeline.sql.planning.source_reading import Layout
from barnabas.pipeline.sql.sql_failures import UnresolvedError
from barnabas.pipeline.streams.serdes import functions
from barnabas.pipeline.streams.window_specs import Window, WindowKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.pipeline.sql.statement_values import Window as WrittenWindow
    from barnabas.pipeline.streams.record_stream import Stream
    from barnabas.pipeline.streams.record_table import Table
    from barnabas.pipeline.streams.serdes import Column

DEFAULT_GRACE_MS: Final = 86_400_000
"""The time that late records have where GRACE PERIOD does not say it: a day, as in ksqlDB."""


def grouped_stream(
    stream: Stream, plan: QueryPlan, aggregation: Aggregation, layout: Layout
) -> Table:
    """Return the table of a stream's groups. Raises UnresolvedError for what is missing."""
    names = _names(aggregation)
    rows = stream.map_values(_values(aggregation, layout))
    rows = rows.filter(_has_groups(names))
    grouped = rows.group_by(_key(names))
    window = aggregation.window
    if window is not None:
        grouped = grouped.window(_window(window))
    is_lasting = plan.having is None or plan.having.is_lasting or plan.emit == "FINAL"
    folds = _folds(aggregation, is_lasting=is_lasting)
    if folds is not None:
        table = grouped.fold(folds.initial, folds.add, returns=folds.returns, merge=folds.merge)
        results = {
            each.name: folds.result(each.name, functions().col("value"))
            for each in aggregation.aggregates
        }
    else:
        table = grouped.aggregate(**_aggregates(aggregation))
        results = {
            each.name: functions().col("value").getField(f"r{each.name}")
            for each in aggregation.aggregates
        }
    if plan.emit == "FINAL":
        table = table.final()
    made = _layout(aggregation, results)
    if plan.having is not None:
        table = table.filter(column_of(plan.having.condition, made), is_lasting=is_lasting)
    return table.map_values(structure(plan.value, made))


def grouped_table(table: Table, plan: QueryPlan, aggregation: Aggregation, layout: Layout) -> Table:
    """Return the table of a table's groups: rows that change or end are taken out of them.

    Raises UnresolvedError for an aggregate that cannot do this.
    """
    folds = folds_of(aggregation, of_table=True)
    names = _names(aggregation)
    rows = table.map_values(_values(aggregation, layout)).filter(_has_groups(names))
    grouped = rows.group_by(_key(names))
    found = grouped.fold(folds.initial, folds.add, folds.undo, returns=folds.returns)
    results = {
        each.name: folds.result(each.name, functions().col("value"))
        for each in aggregation.aggregates
    }
    made = _layout(aggregation, results)
    if plan.having is not None:
        found = found.filter(column_of(plan.having.condition, made))
    return found.map_values(structure(plan.value, made))


def _folds(aggregation: Aggregation, *, is_lasting: bool) -> Folds | None:
    """Return the folds of a stream's groups; None where Spark's aggregation makes them.

    It makes them where an aggregate has no fold. Raises UnresolvedError for sessions, and for sets
    of maps, which Spark does not have.
    """
    if aggregation.window is not None and aggregation.window.kind == "SESSION":
        return folds_of(aggregation, of_table=False)
    if is_folded(aggregation, is_lasting=is_lasting):
        with contextlib.suppress(UnresolvedError):
            return folds_of(aggregation, of_table=False)
    check_sets(aggregation)
    return None


def _names(aggregation: Aggregation) -> list[str]:
    return [str(index) for index in range(len(aggregation.group))]


def _values(aggregation: Aggregation, layout: Layout) -> Column:
    """Return the struct of the expressions of GROUP BY and of the arguments of aggregates."""
    groups = [
        (f"g{index}", column_of(each, layout)) for index, each in enumerate(aggregation.group)
    ]
    arguments = [
        (argument_name(each.name, index), column_of(one, layout))
        for each in aggregation.aggregates
        for index, one in enumerate(each.arguments)
    ]
    return struct_of([*groups, *arguments])


def _has_groups(names: Sequence[str]) -> Column:
    value = functions().col("value")
    found = functions().lit(True)
    for name in names:
        found = found & value.getField(f"g{name}").isNotNull()
    return found


def _key(names: Sequence[str]) -> Column:
    value = functions().col("value")
    return struct_of([(name, value.getField(f"g{name}")) for name in names])


def _aggregates(aggregation: Aggregation) -> dict[str, Column]:
    value = functions().col("value")
    return {
        f"r{each.name}": each.function.column(
            *(
                value.getField(argument_name(each.name, index))
                for index in range(len(each.arguments))
            )
        )
        for each in aggregation.aggregates
    }


def _layout(aggregation: Aggregation, results: dict[str, Column]) -> Layout:
    f = functions()
    key = f.col("key")
    made: Layout = {(GROUP, name): key.getField(name) for name in _names(aggregation)}
    made |= {(AGGREGATES, name): column for name, column in results.items()}
    if aggregation.window is not None:
        window = f.col("_window")
        made[WINDOW, "WINDOWSTART"] = f.unix_millis(window.getField("start"))
        made[WINDOW, "WINDOWEND"] = f.unix_millis(window.getField("end"))
    return made


def _window(window: WrittenWindow) -> Window:
    kind = WindowKind[window.kind]
    grace = window.grace.ms if window.grace is not None else DEFAULT_GRACE_MS
    advance = window.advance.ms if window.advance is not None else window.size.ms
    return Window(kind, window.size.ms, advance, grace)

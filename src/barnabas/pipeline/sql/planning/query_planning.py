"""A plan onto streams: read, filter, explode, group, and project, by the operators of streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.pipeline.sql.analysis.plan_values import (
    AGGREGATES,
    GROUP,
    ROWS,
    WINDOW,
    Aggregation,
    NamedExpression,
    QueryPlan,
)
from barnabas.pipeline.sql.planning.column_structs import each_of, struct_of
from barnabas.pipeline.sql.planning.join_planning import Side, joined_sources
from barnabas.pipeline.sql.planning.source_reading import (
    Layout,
    layout_of,
    names_in,
    read_stream,
    read_table,
)
from barnabas.pipeline.sql.sql_failures import UnresolvedError
from barnabas.pipeline.sql.sql_types import NULL, SqlType, to_spark
from barnabas.pipeline.streams.record_stream import Stream
from barnabas.pipeline.streams.record_table import Table
from barnabas.pipeline.streams.serdes import functions
from barnabas.pipeline.streams.window_specs import Window, WindowKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.pipeline.sql.functions.literals import TypedExpression
    from barnabas.pipeline.sql.statement_values import Window as WrittenWindow
    from barnabas.pipeline.streams.serdes import Column
    from barnabas.pipeline.streams.stream_app import App

DEFAULT_GRACE_MS: Final = 86_400_000
"""The time that late records have where GRACE PERIOD does not say it: a day, as in ksqlDB."""


def planned(app: App, plan: QueryPlan, start: str = "earliest") -> Stream | Table:
    """Return the result of a plan: structs of its columns as keys and values.

    `start` is where streams are read from without a committed position: earliest or latest.

    Raises UnresolvedError for what is missing.
    """
    side = joined_sources(app, plan, start) if plan.joins else _read(app, plan, start)
    layout = side.layout
    if isinstance(side.records, Table):
        if plan.aggregation is not None:
            raise UnresolvedError("GROUP BY of a table does not run yet")
        return _of_table(side.records, plan, layout)
    stream = _filtered(side.records, plan, layout)
    if plan.aggregation is not None:
        return _grouped(stream, plan, plan.aggregation, layout)
    stream, layout = _exploded(stream, plan, layout)
    return _projected(stream, plan, layout)


def _filtered(stream: Stream, plan: QueryPlan, layout: Layout) -> Stream:
    if plan.where is None:
        return stream
    return stream.filter(functions().col("value").isNotNull() & _column(plan.where, layout))


def _read(app: App, plan: QueryPlan, start: str) -> Side:
    source, layout = plan.source.source, layout_of(plan.source)
    if source.is_table:
        return Side(read_table(app, source), layout)
    return Side(read_stream(app, source, start), layout)


def _of_table(table: Table, plan: QueryPlan, layout: Layout) -> Table:
    if plan.where is not None:
        table = table.filter(_column(plan.where, layout))
    return table.map_values(_struct(plan.value, layout))


def _projected(stream: Stream, plan: QueryPlan, layout: Layout) -> Stream:
    value = _struct(plan.value, layout)
    if not plan.has_new_key:
        return stream.map_values(value)
    f = functions()
    value = f.when(f.col("value").isNotNull(), value)
    key = _struct(plan.key, layout) if plan.key else f.lit(None).cast("struct<_is_there:boolean>")
    return stream.map(key=key, value=value)


def _exploded(stream: Stream, plan: QueryPlan, layout: Layout) -> tuple[Stream, Layout]:
    """Return a row for each element of table functions, the shorter ones filled with NULL."""
    if not plan.table_functions:
        return stream, layout
    f = functions()
    arrays: list[Column] = []
    for each in plan.table_functions:
        found = each.function.column(*(_column(one, layout) for one in each.arguments))
        arrays.append(f.coalesce(found, f.array().cast(_array_type(each.function.returns))))
    names = [f"r{index}" for index in range(len(arrays))]
    zipped = f.arrays_zip(*[array.alias(name) for array, name in zip(arrays, names, strict=True)])
    places = list(layout)
    kept = [(f"c{index}", layout[place]) for index, place in enumerate(places)]

    def row(element: Column) -> Column:
        made = [(name, element.getField(name)) for name in names]
        return struct_of([*kept, *made])

    value = f.col("value")
    exploded = stream.flat_map_values(each_of(zipped, row))
    found_layout: Layout = {
        place: value.getField(f"c{index}") for index, place in enumerate(places)
    }
    for each, name in zip(plan.table_functions, names, strict=True):
        found_layout[ROWS, each.name] = value.getField(name)
    return exploded, found_layout


def _array_type(element: SqlType) -> str:
    return f"array<{to_spark(element).simpleString()}>"


def _grouped(stream: Stream, plan: QueryPlan, aggregation: Aggregation, layout: Layout) -> Table:
    f = functions()
    names = [str(index) for index in range(len(aggregation.group))]
    group = [_column(each, layout) for each in aggregation.group]
    arguments = [
        (f"a{each.name}_{index}", _column(one, layout))
        for each in aggregation.aggregates
        for index, one in enumerate(each.arguments)
    ]
    keys = [(f"g{name}", column) for name, column in zip(names, group, strict=True)]
    rows = stream.map_values(struct_of([*keys, *arguments]))
    value = f.col("value")
    for name in names:
        rows = rows.filter(value.getField(f"g{name}").isNotNull())
    key = struct_of([(name, value.getField(f"g{name}")) for name in names])
    grouped = rows.group_by(key)
    if aggregation.window is not None:
        grouped = grouped.window(_window(aggregation.window))
    results = {
        f"r{each.name}": each.function.column(
            *(value.getField(f"a{each.name}_{index}") for index in range(len(each.arguments)))
        )
        for each in aggregation.aggregates
    }
    table = grouped.aggregate(**results)
    if plan.emit == "FINAL":
        table = table.final()
    made = _aggregated_layout(aggregation, names)
    if plan.having is not None:
        table = table.filter(_column(plan.having, made))
    return table.map_values(_struct(plan.value, made))


def _aggregated_layout(aggregation: Aggregation, names: Sequence[str]) -> Layout:
    f = functions()
    key, value = f.col("key"), f.col("value")
    made: Layout = {(GROUP, name): key.getField(name) for name in names}
    made |= {
        (AGGREGATES, each.name): value.getField(f"r{each.name}") for each in aggregation.aggregates
    }
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


def _struct(expressions: Sequence[NamedExpression], layout: Layout) -> Column:
    return struct_of([(each.name, _column(each.expression, layout)) for each in expressions])


def _column(expression: TypedExpression, layout: Layout) -> Column:
    found = expression.column(names_in(layout))
    return found.cast("string") if expression.type == NULL else found

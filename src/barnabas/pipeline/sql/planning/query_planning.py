"""A plan onto streams: read, filter, explode, group, and project, by the operators of streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.pipeline.sql.analysis.plan_values import ROWS, QueryPlan
from barnabas.pipeline.sql.planning.column_structs import each_of, struct_of
from barnabas.pipeline.sql.planning.expression_columns import column_of, places_of, structure
from barnabas.pipeline.sql.planning.group_planning import grouped_stream, grouped_table
from barnabas.pipeline.sql.planning.join_planning import Side, joined_sources
from barnabas.pipeline.sql.planning.source_reading import (
    RECORDS_MAX,
    STATELESS_RECORDS_MAX,
    Layout,
    layout_of,
    read_stream,
    read_table,
)
from barnabas.pipeline.sql.sql_types import SqlType, to_spark
from barnabas.pipeline.streams.record_stream import Stream
from barnabas.pipeline.streams.record_table import Table
from barnabas.pipeline.streams.serdes import functions

if TYPE_CHECKING:
    from barnabas.pipeline.sql.planning.first_offsets import Start
    from barnabas.pipeline.streams.serdes import Column
    from barnabas.pipeline.streams.stream_app import App


def planned(
    app: App,
    plan: QueryPlan,
    start: Start = "earliest",
    stateless_max: int = STATELESS_RECORDS_MAX,
) -> Stream | Table:
    """Return the result of a plan: structs of its columns as keys and values.

    `start` is where streams are read from without a committed position: earliest, latest, or the
    offsets of each topic.
    `stateless_max` limits the records of a micro-batch where the query has no state.

    Raises UnresolvedError for what is missing.
    """
    side = (
        joined_sources(app, plan, start) if plan.joins else _read(app, plan, start, stateless_max)
    )
    layout = side.layout
    if isinstance(side.records, Table):
        table = side.records
        if plan.where is not None:
            table = table.filter(column_of(plan.where, layout))
        if plan.aggregation is not None:
            return grouped_table(table, plan, plan.aggregation, layout)
        return table.map_values(structure(plan.value, layout))
    stream = _filtered(side.records, plan, layout)
    if plan.aggregation is not None:
        return grouped_stream(stream, plan, plan.aggregation, layout)
    stream, layout = _exploded(stream, plan, layout)
    return _projected(stream, plan, layout)


def _filtered(stream: Stream, plan: QueryPlan, layout: Layout) -> Stream:
    if plan.where is None:
        return stream
    return stream.filter(functions().col("value").isNotNull() & column_of(plan.where, layout))


def _read(app: App, plan: QueryPlan, start: Start, stateless_max: int) -> Side:
    source, layout = plan.source.source, layout_of(plan.source)
    limit = stateless_max if plan.aggregation is None else RECORDS_MAX
    if source.is_table:
        return Side(read_table(app, source, max_records=min(limit, RECORDS_MAX)), layout)
    return Side(read_stream(app, source, start, max_records=limit), layout)


def _projected(stream: Stream, plan: QueryPlan, layout: Layout) -> Stream:
    value = structure(plan.value, layout)
    if not plan.has_new_key:
        return stream.map_values(value)
    f = functions()
    value = f.when(f.col("value").isNotNull(), value)
    key = _new_key(plan, layout) if plan.key else f.lit(None).cast("struct<_is_there:boolean>")
    return stream.map(key=key, value=value)


def _new_key(plan: QueryPlan, layout: Layout) -> Column:
    """Return the key of PARTITION BY. Without a value it has what the old key alone gives."""
    old = {(plan.source.alias, each.name) for each in plan.source.source.key}
    has_value = functions().col("value").isNotNull()
    parts: list[tuple[str, Column]] = []
    for each in plan.key:
        found = column_of(each.expression, layout)
        is_of_key = places_of(each.expression, layout) <= old
        parts.append((each.name, found if is_of_key else functions().when(has_value, found)))
    return struct_of(parts)


def _exploded(stream: Stream, plan: QueryPlan, layout: Layout) -> tuple[Stream, Layout]:
    """Return a row for each element of table functions, the shorter ones filled with NULL."""
    if not plan.table_functions:
        return stream, layout
    f = functions()
    arrays: list[Column] = []
    for each in plan.table_functions:
        found = each.function.column(*(column_of(one, layout) for one in each.arguments))
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

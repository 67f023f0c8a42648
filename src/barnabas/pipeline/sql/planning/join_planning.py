"""Joins onto the operators of streams: both sides get one key, and a struct of their columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from barnabas.pipeline.sql.analysis.plan_values import (
    JOINED,
    PlannedJoin,
    PlannedRelation,
    QueryPlan,
)
from barnabas.pipeline.sql.catalog.source_values import WINDOW_BOUNDS
from barnabas.pipeline.sql.planning.column_structs import struct_of
from barnabas.pipeline.sql.planning.source_reading import (
    JOINED_TABLE_RECORDS_MAX,
    RECORDS_MAX,
    Layout,
    layout_of,
    names_in,
    read_stream,
    read_table,
)
from barnabas.pipeline.sql.sql_failures import UnresolvedError
from barnabas.pipeline.streams.record_stream import Stream
from barnabas.pipeline.streams.record_table import Table
from barnabas.pipeline.streams.serdes import functions

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.pipeline.sql.functions.literals import TypedExpression
    from barnabas.pipeline.sql.planning.first_offsets import Start
    from barnabas.pipeline.streams.serdes import Column
    from barnabas.pipeline.streams.stream_app import App

_KEY: Final = "k0"
"""The field of the key of both sides."""
_DAY_MS: Final = 86_400_000
"""The grace of a join that has no GRACE PERIOD, as in ksqlDB."""


@dataclass(frozen=True)
class Side:
    """Records, and the columns of Spark that names stand for in them."""

    records: Stream | Table
    layout: Layout


def joined_sources(app: App, plan: QueryPlan, start: Start) -> Side:
    """Return the joined sources of a plan. Raises UnresolvedError for what is missing."""
    of_table = RECORDS_MAX if plan.source.source.is_table else JOINED_TABLE_RECORDS_MAX
    side = _read(app, plan.source, start, of_table)
    for join in plan.joins:
        side = _joined(side, _read(app, join.right, start, of_table), join)
    return side


def _read(app: App, relation: PlannedRelation, start: Start, of_table: int) -> Side:
    source, layout = relation.source, layout_of(relation)
    names = [f"k{index}" for index in range(len(source.key))]
    for name, each in zip(names, source.key, strict=True):
        layout[relation.alias, each.name] = functions().col("key").getField(name)
    if source.is_table:
        table = read_table(app, source, key_names=names, max_records=of_table)
        return Side(table, layout)
    return Side(read_stream(app, source, start, key_names=names), layout)


def _joined(left: Side, right: Side, join: PlannedJoin) -> Side:
    one, other = _flat(left), _flat(right)
    records = _records(one, other, join)
    value = functions().col("value")
    layout: Layout = {
        place: value.getField(name).getField(column)
        for name, side in (("left", one), ("right", other))
        for place, column in side.columns.items()
    }
    layout[JOINED, "ROWKEY"] = functions().col("key").getField(_KEY)
    return Side(records, layout)


@dataclass(frozen=True)
class _Flat:
    """A side whose value is a struct of all its columns, with the names of its fields."""

    records: Stream | Table
    columns: dict[tuple[str, str], str]
    layout: Layout


def _flat(side: Side) -> _Flat:
    columns = {place: f"c{index}" for index, place in enumerate(side.layout) if place[0] != JOINED}
    value = struct_of([(name, side.layout[place]) for place, name in columns.items()])
    found = functions().col("value")
    layout: Layout = {place: found.getField(name) for place, name in columns.items()}
    return _Flat(side.records.map_values(value), columns, layout)


def _records(one: _Flat, other: _Flat, join: PlannedJoin) -> Stream | Table:
    if isinstance(one.records, Table):
        if not isinstance(other.records, Table):
            raise UnresolvedError("A table is joined with tables only")
        return _of_tables(one.records, other.records, join, _key(join.left_key, one, join.left))
    left = one.records
    if not join.keeps_left:
        left = left.select_key(_key(join.left_key, one, join.left))
    if isinstance(other.records, Table):
        joins = {"INNER": left.join_table, "LEFT": left.left_join_table}
        return joins[join.kind](other.records)
    right = other.records
    if not join.keeps_right:
        right = right.select_key(_key(join.right_key, other, join.right))
    return _of_streams(left, right, join)


def _key(expression: TypedExpression, side: _Flat, relation: PlannedRelation) -> Column:
    """Return the key of a side of a join, with the bounds of its window where it has one."""
    column = expression.column(names_in(side.layout))
    bounds = WINDOW_BOUNDS if relation.source.window is not None else ()
    fields = [(name, side.layout[relation.alias, name]) for name in bounds]
    return functions().when(column.isNotNull(), struct_of([(_KEY, column), *fields]))


def _of_streams(left: Stream, right: Stream, join: PlannedJoin) -> Stream:
    """Return the join of two streams.

    Without GRACE PERIOD a row without a partner is written at once, as ksqlDB does it.
    """
    within = join.within
    if within is None:
        raise UnresolvedError("A join of two streams needs WITHIN, as in WITHIN 1 HOUR")
    grace = f"{_DAY_MS if within.grace is None else within.grace.ms} milliseconds"
    before, after = (f"{each.ms} milliseconds" for each in (within.before, within.after))
    is_eager = within.grace is None
    if join.kind == "INNER":
        return left.join(right, within=(before, after), grace=grace)
    if join.kind == "RIGHT":
        swapped = right.left_join(left, within=(after, before), grace=grace, eager=is_eager)
        return swapped.map_values("struct(value.right AS left, value.left AS right)")
    joins = {"LEFT": left.left_join, "FULL": left.outer_join}
    return joins[join.kind](right, within=(before, after), grace=grace, eager=is_eager)


def _of_tables(left: Table, right: Table, join: PlannedJoin, key: Column) -> Table:
    if join.by_foreign_key:
        by_key = {"INNER": left.join, "LEFT": left.left_join}
        return by_key[join.kind](right, on=key)
    if join.kind == "RIGHT":
        swapped = right.left_join(left)
        return swapped.map_values("struct(value.right AS left, value.left AS right)")
    joins: dict[str, Callable[..., Table]] = {
        "INNER": left.join,
        "LEFT": left.left_join,
        "FULL": left.outer_join,
    }
    return joins[join.kind](right)

"""Sources as streams and tables, and the columns of Spark that their names stand for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from sqlglot import expressions as exp

from barnabas.pipeline.sql.functions.literals import literal
from barnabas.pipeline.sql.functions.resolution import scalar
from barnabas.pipeline.sql.planning.column_structs import each_of, struct_of, those_of
from barnabas.pipeline.sql.planning.sql_serdes import key_serde, renamed_key, value_serde
from barnabas.pipeline.sql.sql_failures import UnresolvedError
from barnabas.pipeline.sql.sql_types import STRING
from barnabas.pipeline.streams.serdes import Column, functions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from barnabas.pipeline.sql.analysis.plan_values import PlannedRelation
    from barnabas.pipeline.sql.catalog.source_values import Source
    from barnabas.pipeline.sql.planning.first_offsets import Start
    from barnabas.pipeline.streams.record_stream import Stream
    from barnabas.pipeline.streams.record_table import Table
    from barnabas.pipeline.streams.stream_app import App

Layout: TypeAlias = dict[tuple[str, str], Column]
"""The column of Spark of each name, by table and name."""

RECORDS_MAX: Final = 100_000
"""The largest micro-batch of a query with state: it is one transaction."""
JOINED_TABLE_RECORDS_MAX: Final = 1_000_000_000
"""A stream's record finds the row of its key only when the table has been read: so the first
micro-batch reads all of it, which writes nothing."""
STATELESS_RECORDS_MAX: Final = 500_000
"""Tasks of queries without state have several transactions when they take long. Each micro-batch
costs the driver JVM 0.1 s of CPU."""
_PARSE: Final = "PARSE_TIMESTAMP"


def read_stream(
    app: App,
    source: Source,
    start: Start,
    *,
    key_names: Sequence[str] = (),
    max_records: int = RECORDS_MAX,
) -> Stream:
    """Return the records of a stream; those that do not decode are skipped.

    `key_names` are names for the key's fields instead of those of the columns. `max_records` limits
    a micro-batch.
    """
    key = key_serde(source, with_window=True)
    return app.topic(
        source.topic,
        key=renamed_key(key, source, key_names) if key_names else key,
        value=value_serde(source),
        time=time_of(source),
        on_error="skip",
        start=start if isinstance(start, str) else start.get(source.topic, "latest"),
        max_records=max_records,
    )


def read_table(
    app: App,
    source: Source,
    *,
    key_names: Sequence[str] = (),
    max_records: int = RECORDS_MAX,
) -> Table:
    """Return the changes of a table; those that do not decode are skipped.

    `key_names` are names for the key's fields instead of those of the columns. `max_records` limits
    a micro-batch.
    """
    key = key_serde(source, with_window=True)
    return app.table(
        source.topic,
        key=renamed_key(key, source, key_names) if key_names else key,
        value=value_serde(source),
        time=time_of(source),
        on_error="skip",
        max_records=max_records,
    )


def time_of(source: Source) -> Column | None:
    """Return the time of a record of the source, None for the record's own.

    A time before 1970 is NULL, as one that is not a time.
    """
    if source.timestamp is None:
        return None
    name = source.timestamp.column
    in_key = any(each.name == name for each in source.key)
    column = functions().col("key" if in_key else "value").getField(name)
    if source.timestamp.format is not None:
        form = literal(source.timestamp.format)
        column = scalar(_PARSE, [STRING, STRING]).column(column, form.column(_no_names))
    return functions().when(column.cast("bigint") >= 0, column)


def _no_names(name: exp.Column) -> Column:
    raise UnresolvedError(f"{name.name} is not known here")


def layout_of(relation: PlannedRelation) -> Layout:
    """Return the columns of a source that was read."""
    f, source, alias = functions(), relation.source, relation.alias
    key, value = f.col("key"), f.col("value")
    found: Layout = {(alias, each.name): key.getField(each.name) for each in source.key}
    found |= {(alias, each.name): value.getField(each.name) for each in source.value}
    found |= {(alias, each.name): _header(each.header) for each in source.headers}
    found[alias, "ROWTIME"] = f.unix_millis(f.col("_timestamp"))
    found[alias, "ROWPARTITION"] = f.col("_partition")
    found[alias, "ROWOFFSET"] = f.col("_offset")
    if source.window is not None:
        found |= {(alias, name): key.getField(name) for name in ("WINDOWSTART", "WINDOWEND")}
    return found


def _header(name: str | None) -> Column:
    """Return all headers, or the bytes of the last one with a name."""
    f = functions()
    headers = f.coalesce(
        f.col("_headers"), f.array().cast("array<struct<key:string,value:binary>>")
    )
    if name is None:
        return each_of(headers, _header_struct)
    same = those_of(headers, lambda each: each.getField("key") == name)
    return f.try_element_at(same, f.lit(-1)).getField("value")


def _header_struct(header: Column) -> Column:
    return struct_of([("KEY", header.getField("key")), ("VALUE", header.getField("value"))])


def names_in(layout: Layout) -> Callable[[exp.Column], Column]:
    """Return the function that gives expressions the columns of their names."""

    def column(name: exp.Column) -> Column:
        return layout[name.table, name.name]

    return column

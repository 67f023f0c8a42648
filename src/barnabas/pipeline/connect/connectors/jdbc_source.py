"""Rows of tables as records: bulk, or only new and changed rows by a number or a timestamp.

A poll returns all rows of a timestamp or none, so an offset is never between two rows of the same
moment. The columns of a table are read again with each query, so new columns are taken up.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

import attrs

from barnabas.pipeline.connect.connectors.database_access import (
    DatabaseSettings,
    TableName,
    connect,
    listed,
)
from barnabas.pipeline.connect.connectors.jdbc_config import SOURCE, number, texts
from barnabas.pipeline.connect.connectors.jdbc_queries import (
    ReadMode,
    RowPosition,
    RowQuery,
    check_required,
    row_query,
)
from barnabas.pipeline.connect.connectors.jdbc_validation import raise_first, source_errors
from barnabas.pipeline.connect.plugin_api import OffsetReader, Properties, SourceTask
from barnabas.pipeline.data.connect_errors import ConnectError
from barnabas.pipeline.data.connect_schema import Schema, Struct, struct_schema
from barnabas.pipeline.data.records import SourceRecord
from barnabas.pipeline.definitions.config_def import ConfigDef
from barnabas.pipeline.definitions.config_types import ParsedValue

if TYPE_CHECKING:
    from barnabas.pipeline.connect.connectors.sql_database import Database

_NANOS_PER_MS: Final = 1_000_000
_TABLES: Final = "tables"
"""The property with a task's tables, as JSON."""


@attrs.define
class _Reading:
    """One table, or the query: its position and when it is read next."""

    source: TableName | str
    partition: dict[str, str]
    topic: str
    position: RowPosition
    next_s: float = 0.0


@attrs.define
class _Rows:
    """The rows of one query, as far as they are read."""

    reading: _Reading
    query: RowQuery
    schema: Schema
    rows: Iterator[Sequence[Any]]
    pending: Sequence[Any] | None = None


class JdbcSourceTask(SourceTask):
    """Reads some of the tables, one after the other."""

    def __init__(self) -> None:
        self._database: Database | None = None
        self._open: _Rows | None = None

    def start(self, props: Properties, offsets: OffsetReader) -> None:
        """Connect and restore the position of each table. Raises ConnectError."""
        values = SOURCE.parse(props)
        self._mode = _read_mode(values)
        self._batch = number(values, "batch.max.rows")
        self._interval_s = number(values, "poll.interval.ms") / 1000
        self._database = connect(DatabaseSettings.of(values))
        prefix, query = str(values["topic.prefix"]), str(values["query"])
        tables = [TableName(*each) for each in json.loads(props.get(_TABLES, "[]"))]
        if not query and values["validate.non.null"] is True:
            for table in tables:
                check_required(self._database, table, self._mode)
        self._readings = [
            self._reading(source, prefix, values, offsets)
            for source in ([query] if query else tables)
        ]

    def poll(self) -> list[SourceRecord]:
        """Return rows of the first table that is due and has some."""
        for _ in range(len(self._readings) + 1):
            if self._open is None:
                self._open = self._next_query()
                if self._open is None:
                    break
            records = self._records(self._open)
            if records:
                return records
        return []

    def stop(self) -> None:
        """Close the connection."""
        self._open = None
        if self._database is not None:
            self._database.close()
            self._database = None

    def _reading(
        self,
        source: TableName | str,
        prefix: str,
        values: Mapping[str, ParsedValue],
        offsets: OffsetReader,
    ) -> _Reading:
        is_table = isinstance(source, TableName)
        partition = {"protocol": "1", "table": str(source)} if is_table else {"query": "query"}
        position = RowPosition.of(offsets.offset(partition) or {})
        initial = values["timestamp.initial"]
        if self._mode.timestamps and position.nanos is None and initial is not None:
            start_ms = number(values, "timestamp.initial")
            nanos = self._connected().now_nanos() if start_ms < 0 else start_ms * _NANOS_PER_MS
            position = RowPosition(position.incrementing, nanos)
        topic = f"{prefix}{source.table}" if is_table else prefix
        return _Reading(source, partition, topic, position)

    def _connected(self) -> "Database":
        if self._database is None:
            raise ConnectError("the task is not started")
        return self._database

    def _next_query(self) -> _Rows | None:
        """Run the query of the table that is due for longest, None when no table is due."""
        reading = min(self._readings, key=lambda each: each.next_s, default=None)
        if reading is None or reading.next_s > time.monotonic():
            return None
        database = self._connected()
        query = row_query(database, reading.source, self._mode, reading.position)
        name = reading.source.table if isinstance(reading.source, TableName) else None
        schema = struct_schema([(each.name, each.schema) for each in query.columns], name=name)
        rows = database.rows(query.statement, self._batch)
        return _Rows(reading, query, schema, rows)

    def _records(self, found: _Rows) -> list[SourceRecord]:
        """Return the next rows; without an incrementing column, rows of one moment together."""
        rows = [] if found.pending is None else [found.pending]
        found.pending = None
        keeps_moments = found.query.moment is not None and found.query.incrementing_at is None
        for row in found.rows:
            if len(rows) >= self._batch and not (keeps_moments and row[-1] == rows[-1][-1]):
                found.pending = row
                break
            rows.append(row)
        else:
            self._open = None
            found.reading.next_s = time.monotonic() + self._interval_s
        return [self._record(found, row) for row in rows]

    def _record(self, found: _Rows, row: Sequence[Any]) -> SourceRecord:
        reading, database = found.reading, self._connected()
        # The timestamp after the columns is left out.
        cells = zip(found.query.columns, row, strict=False)
        values = [database.value(column, value) for column, value in cells]
        reading.position = found.query.position(row)
        return SourceRecord(
            reading.topic,
            None,
            time.time_ns() // _NANOS_PER_MS,
            None,
            None,
            found.schema,
            Struct(found.schema, values),
            (),
            reading.partition,
            reading.position.offset(),
        )


def _read_mode(values: Mapping[str, ParsedValue]) -> ReadMode:
    """Return the columns of the mode."""
    mode = str(values["mode"])
    return ReadMode(
        str(values["incrementing.column.name"]) if "incrementing" in mode else "",
        tuple(texts(values, "timestamp.column.name")) if "timestamp" in mode else (),
        number(values, "timestamp.delay.interval.ms"),
    )


class JdbcSourceConnector:
    """Divides the tables among tasks."""

    kind: ClassVar[str] = "source"
    java_class = "io.confluent.connect.jdbc.JdbcSourceConnector"

    def config(self) -> ConfigDef:
        """Return the definition of the connector's properties."""
        return SOURCE

    def config_errors(self, values: Mapping[str, ParsedValue]) -> Iterator[tuple[str, str]]:
        """Return the errors that are seen without a connection."""
        return source_errors(values)

    def task_configs(self, props: Properties, max_tasks: int) -> list[dict[str, str]]:
        """Return the tasks, each with some tables. Raises ConnectError."""
        values = SOURCE.parse(props)
        raise_first(source_errors(values))
        wanted, unwanted = texts(values, "table.whitelist"), texts(values, "table.blacklist")
        if values["query"]:
            return [dict(props)]
        tables = _tables(values, wanted, unwanted)
        count = min(max_tasks, len(tables))
        shares = [tables[first::count] for first in range(count)]
        return [{**props, _TABLES: json.dumps([[*_names(t)] for t in share])} for share in shares]

    def source_task(self) -> type[SourceTask]:
        """Return the class of the tasks."""
        return JdbcSourceTask

    def check_offset(self, partition: Mapping[str, Any], offset: Mapping[str, Any] | None) -> None:
        """Raise ConnectError when an offset given by a user does not fit."""
        if offset is None:
            return
        known = {"incrementing", "timestamp", "timestamp_nanos"}
        if not offset or not offset.keys() <= known:
            raise ConnectError(f"the offset may have {', '.join(sorted(known))} only")
        if any(type(value) is not int for value in offset.values()):
            raise ConnectError("the values of an offset must be whole numbers")


def _tables(
    values: Mapping[str, ParsedValue], wanted: Sequence[str], unwanted: Sequence[str]
) -> list[TableName]:
    """Return the tables of the database that the lists select. Raises ConnectError."""
    types, pattern = texts(values, "table.types"), values["schema.pattern"]
    database = connect(DatabaseSettings.of(values))
    try:
        found = database.tables(types, None if pattern is None else str(pattern))
    finally:
        database.close()
    found = [each for each in found if not each.table.startswith("barnabas_")]
    missing = [name for name in wanted if not any(_is_named(each, name) for each in found)]
    if missing:
        raise ConnectError(
            f"table.whitelist={listed(missing)}: the database has no such table of table.types="
            f"{listed(types)}"
        )
    if wanted:
        found = [each for each in found if any(_is_named(each, name) for name in wanted)]
    found = [each for each in found if not any(_is_named(each, name) for name in unwanted)]
    if not found:
        raise ConnectError("no table matches table.whitelist and table.blacklist")
    by_topic: dict[str, TableName] = {}
    for each in found:
        other = by_topic.setdefault(each.table, each)
        if other is not each:
            raise ConnectError(
                f"{other} and {each} would have one topic: select one by schema.pattern or "
                "table.whitelist, and the other in a job with another topic.prefix"
            )
    return found


def _is_named(table: TableName, name: str) -> bool:
    """True when a name of a list means the table: with or without its schema and quotes."""
    plain = name.replace('"', "").replace("`", "")
    return plain in (table.table, str(table))


def _names(table: TableName) -> tuple[str, str]:
    return table.schema, table.table

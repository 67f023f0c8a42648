"""Rows of tables as records: bulk, or only new and changed rows by a number or a timestamp.

Offsets are those of Confluent's JDBC source: `incrementing`, and `timestamp` with
`timestamp_nanos`. A poll returns all rows of a timestamp or none, so an offset is never between two
rows of the same moment.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from sqlite3 import Connection, Cursor
from typing import Any, ClassVar, Final

import attrs

from barnabas.pipeline.connect.config_def import NO_DEFAULT, ConfigDef, ConfigKey, Importance
from barnabas.pipeline.connect.config_types import ConfigType, ParsedValue
from barnabas.pipeline.connect.config_validators import InRange, OneOf
from barnabas.pipeline.connect.connectors.database_access import (
    Column,
    columns_of,
    connect,
    execute,
    quoted,
    tables_of,
)
from barnabas.pipeline.connect.plugin_api import OffsetReader, Properties, SourceTask
from barnabas.pipeline.data import connect_schema as s
from barnabas.pipeline.data.connect_errors import ConnectError
from barnabas.pipeline.data.connect_schema import Schema, Struct, Type, struct_schema
from barnabas.pipeline.data.date_format import DateFormat
from barnabas.pipeline.data.records import SourceRecord

MODES: Final = ("bulk", "timestamp", "incrementing", "timestamp+incrementing")
_NANOS_PER_MS: Final = 1_000_000
_TEXT_MOMENT: Final = DateFormat("yyyy-MM-dd HH:mm:ss.SSS")
_TEXT_SECOND: Final = DateFormat("yyyy-MM-dd HH:mm:ss")
_INFERRED: Final[Mapping[type, Schema]] = {
    int: s.OPTIONAL_INT64,
    float: s.OPTIONAL_FLOAT64,
    str: s.OPTIONAL_STRING,
    bytes: s.OPTIONAL_BYTES,
}


def database_key(
    name: str,
    kind: ConfigType,
    default: Any,
    documentation: str,
    validator: Any = None,
) -> ConfigKey:
    """Return the definition of a property."""
    importance = Importance.HIGH if default is NO_DEFAULT else Importance.MEDIUM
    return ConfigKey(
        name, kind, default, importance, documentation, validator=validator, display_name=name
    )


URL_KEY: Final = database_key(
    "connection.url",
    ConfigType.STRING,
    NO_DEFAULT,
    "The JDBC address of the database: jdbc:sqlite:/path/of/file.",
)
_DEFINITION: Final = ConfigDef(
    [
        URL_KEY,
        database_key("mode", ConfigType.STRING, NO_DEFAULT, "How rows are found.", OneOf(MODES)),
        database_key(
            "incrementing.column.name", ConfigType.STRING, "", "The column that only grows."
        ),
        database_key(
            "timestamp.column.name", ConfigType.STRING, "", "The column with the time of a change."
        ),
        database_key("table.whitelist", ConfigType.LIST, [], "The tables to read; all when empty."),
        database_key("table.blacklist", ConfigType.LIST, [], "The tables to leave out."),
        database_key("query", ConfigType.STRING, "", "A query to read in place of tables."),
        database_key("topic.prefix", ConfigType.STRING, NO_DEFAULT, "The beginning of topics."),
        database_key(
            "poll.interval.ms", ConfigType.INT, 5000, "The pause between two queries.", InRange(0)
        ),
        database_key(
            "batch.max.rows", ConfigType.INT, 1000, "The rows that one poll returns.", InRange(1)
        ),
        database_key(
            "timestamp.delay.interval.ms",
            ConfigType.LONG,
            0,
            "The age of a change before it is read, for transactions that commit late.",
            InRange(0),
        ),
    ]
)


@attrs.define
class _Position:
    incrementing: int | None = None
    timestamp_ms: int | None = None

    @classmethod
    def of(cls, offset: Mapping[str, Any]) -> "_Position":
        return cls(offset.get("incrementing"), offset.get("timestamp"))

    def offset(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self.incrementing is not None:
            found["incrementing"] = self.incrementing
        if self.timestamp_ms is not None:
            found["timestamp"] = self.timestamp_ms
            found["timestamp_nanos"] = self.timestamp_ms % 1000 * _NANOS_PER_MS
        return found


@attrs.define
class _Reading:
    """One table, or the query: its position and when it is read next."""

    name: str
    partition: dict[str, str]
    topic: str
    columns: list[Column]
    position: _Position
    next_s: float = 0.0
    rows: Iterator[Sequence[Any]] | None = None
    pending: Sequence[Any] | None = None
    schema: Schema | None = None


class JdbcSourceTask(SourceTask):
    """Reads some of the tables."""

    def __init__(self) -> None:
        self._connection: Connection | None = None

    def start(self, props: Properties, offsets: OffsetReader) -> None:
        """Connect and restore the position of each table. Raises ConnectError."""
        values = _DEFINITION.parse(props)
        self._values = values
        self._connection = connect(str(values["connection.url"]))
        mode = str(values["mode"])
        self._incrementing = str(values["incrementing.column.name"]) if "inc" in mode else ""
        self._timestamp = str(values["timestamp.column.name"]) if "timestamp" in mode else ""
        self._batch = int(str(values["batch.max.rows"]))
        self._query = str(values["query"])
        names = [name for name in props.get("tables", "").split(",") if name]
        readings = [self._reading(name, offsets) for name in names]
        self._readings = [self._reading("", offsets)] if self._query else readings

    def poll(self) -> list[SourceRecord]:
        """Return rows of the first table that is due and has some."""
        for reading in self._readings:
            if reading.rows is None:
                if time.monotonic() < reading.next_s:
                    continue
                reading.rows = self._select(reading)
            records = self._records(reading)
            if records:
                return records
        return []

    def stop(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _reading(self, name: str, offsets: OffsetReader) -> _Reading:
        partition = {"protocol": "1", "table": name} if name else {"query": "query"}
        columns = columns_of(self._connected(), name) if name else []
        if name and not columns:
            raise ConnectError(f"the table {name} does not exist")
        position = _Position.of(offsets.offset(partition) or {})
        topic = f"{self._values['topic.prefix']}{name}"
        return _Reading(name, partition, topic, columns, position)

    def _connected(self) -> Connection:
        if self._connection is None:
            raise ConnectError("the task is not started")
        return self._connection

    def _select(self, reading: _Reading) -> Iterator[Sequence[Any]]:
        """Start the query behind the position."""
        source = f"({self._query}) q" if self._query else quoted(reading.name)
        moment = self._moment(reading)
        condition, parameters = self._condition(reading, moment)
        number = quoted(self._incrementing) if self._incrementing else ""
        order = [name for name in (moment, number) if name]
        text = f"SELECT * FROM {source}"
        if condition:
            text += f" WHERE {condition}"
        if order:
            text += f" ORDER BY {', '.join(order)}"
        cursor = execute(self._connected(), text, tuple(parameters))
        if self._query:
            reading.columns = [Column(each[0], s.OPTIONAL_STRING) for each in cursor.description]
        return _fetched(cursor, self._batch)

    def _moment(self, reading: _Reading) -> str:
        """Return the expression of the timestamp; texts are brought to one form."""
        if not self._timestamp:
            return ""
        column = next((each for each in reading.columns if each.name == self._timestamp), None)
        if column is None:
            raise ConnectError(f"{reading.name} has no column {self._timestamp}")
        name = quoted(self._timestamp)
        is_text = column.schema.type is Type.STRING
        return f"strftime('%Y-%m-%d %H:%M:%f', {name})" if is_text else name

    def _condition(self, reading: _Reading, moment: str) -> tuple[str, list[Any]]:
        position = reading.position
        if not moment:
            if not self._incrementing or position.incrementing is None:
                return "", []
            return f"{quoted(self._incrementing)} > ?", [position.incrementing]
        delay_ms = int(str(self._values["timestamp.delay.interval.ms"]))
        end = _as_column(moment, time.time_ns() // _NANOS_PER_MS - delay_ms)
        if position.timestamp_ms is None:
            return f"{moment} < ?", [end]
        last = _as_column(moment, position.timestamp_ms)
        if not self._incrementing:
            return f"{moment} < ? AND {moment} > ?", [end, last]
        number = quoted(self._incrementing)
        both = f"{moment} < ? AND (({moment} = ? AND {number} > ?) OR {moment} > ?)"
        return both, [end, last, position.incrementing or 0, last]

    def _records(self, reading: _Reading) -> list[SourceRecord]:
        """Return the next rows; rows of one moment stay together."""
        rows = [] if reading.pending is None else [reading.pending]
        reading.pending = None
        at = None if self._incrementing else self._place(reading, self._timestamp)
        for row in reading.rows or ():
            if len(rows) >= self._batch and (at is None or row[at] != rows[-1][at]):
                reading.pending = row
                break
            rows.append(row)
        else:
            reading.rows = None
            interval_ms = int(str(self._values["poll.interval.ms"]))
            reading.next_s = time.monotonic() + interval_ms / 1000
        if not rows:
            return []
        if self._query or reading.schema is None:
            reading.schema = self._schema(reading, rows[0])
        return [self._record(reading, reading.schema, row) for row in rows]

    def _schema(self, reading: _Reading, row: Sequence[Any]) -> Schema:
        if self._query:
            reading.columns = [
                Column(column.name, _inferred(value))
                for column, value in zip(reading.columns, row, strict=True)
            ]
        fields = [(column.name, column.schema) for column in reading.columns]
        return struct_schema(fields, name=reading.name or None)

    @staticmethod
    def _place(reading: _Reading, name: str) -> int | None:
        names = [column.name for column in reading.columns]
        return names.index(name) if name in names else None

    def _record(self, reading: _Reading, schema: Schema, row: Sequence[Any]) -> SourceRecord:
        columns = zip(reading.columns, row, strict=True)
        values = [_value(column.schema, value) for column, value in columns]
        number, moment = (
            self._place(reading, self._incrementing),
            self._place(reading, self._timestamp),
        )
        reading.position = _Position(
            None if number is None else int(row[number]),
            None if moment is None else _milliseconds(row[moment]),
        )
        return SourceRecord(
            reading.topic,
            None,
            time.time_ns() // _NANOS_PER_MS,
            None,
            None,
            schema,
            Struct(schema, values),
            (),
            reading.partition,
            reading.position.offset(),
        )


def _inferred(value: object) -> Schema:
    return _INFERRED.get(type(value), s.OPTIONAL_STRING)


def _fetched(cursor: Cursor, size: int) -> Iterator[Sequence[Any]]:
    while rows := cursor.fetchmany(size):
        yield from rows


def _as_column(moment: str, ms: int) -> Any:
    """Return milliseconds in the form of the timestamp's expression."""
    return _TEXT_MOMENT.format(ms) if moment.startswith("strftime") else ms


def _milliseconds(value: Any) -> int:
    """Return the moment of a timestamp column. Raises ConnectError."""
    if isinstance(value, int):
        return value
    text = str(value).replace("T", " ")
    found = _TEXT_MOMENT.parse(text)
    found = _TEXT_SECOND.parse(text) if found is None else found
    if found is None:
        raise ConnectError(f"{value!r} is not a timestamp")
    return found


def _value(schema: Schema, value: Any) -> Any:
    """Return a value of the column's schema; SQLite keeps values of any type in any column."""
    if value is None:
        return None
    match schema.type:
        case Type.STRING:
            return value if isinstance(value, str) else str(value)
        case Type.FLOAT64:
            return float(value)
        case Type.BYTES:
            return value.encode() if isinstance(value, str) else bytes(value)
        case _:
            if not isinstance(value, int):
                raise ConnectError(f"{value!r} is not a whole number")
            return value


class JdbcSourceConnector:
    """Divides the tables among tasks."""

    kind: ClassVar[str] = "source"
    java_class = "io.confluent.connect.jdbc.JdbcSourceConnector"

    def config(self) -> ConfigDef:
        """Return the definition of the connector's properties."""
        return _DEFINITION

    def task_configs(self, props: Properties, max_tasks: int) -> list[dict[str, str]]:
        """Return the tasks, each with some tables. Raises ConnectError."""
        values = _DEFINITION.parse(props)
        mode = str(values["mode"])
        for part in ("timestamp", "incrementing"):
            if part in mode and not values[f"{part}.column.name"]:
                raise ConnectError(f"mode {mode} needs {part}.column.name")
        if values["query"]:
            if "timestamp" in mode:
                raise ConnectError("a query is read in the modes bulk and incrementing")
            return [dict(props)]
        names = self._tables(values)
        if not names:
            raise ConnectError("no table matches table.whitelist and table.blacklist")
        count = min(max_tasks, len(names))
        return [{**props, "tables": ",".join(names[first::count])} for first in range(count)]

    def _tables(self, values: Mapping[str, ParsedValue]) -> list[str]:
        wanted, unwanted = values["table.whitelist"], values["table.blacklist"]
        if isinstance(wanted, list) and wanted:
            return wanted
        connection = connect(str(values["connection.url"]))
        try:
            found = tables_of(connection)
        finally:
            connection.close()
        excluded = unwanted if isinstance(unwanted, list) else []
        return [name for name in found if name not in excluded and not name.startswith("barnabas_")]

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

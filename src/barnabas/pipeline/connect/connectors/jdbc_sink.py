"""Records as rows of tables, exactly once: rows and positions are in one database transaction.

The table `barnabas_offsets` has the next offset of each partition and the number of the batch that
wrote it. A batch whose database transaction was committed and whose Kafka transaction was not is
read again, and its rows are skipped. The batch's number is also the note in Kafka: when the note is
missing although batches were written, a user has set the offsets, and the database follows them.
"""

from collections.abc import Mapping, Sequence
from sqlite3 import Connection, Cursor
from typing import Any, ClassVar, Final

import attrs

from barnabas.pipeline.connect.config_def import ConfigDef
from barnabas.pipeline.connect.config_types import ConfigType, ParsedValue
from barnabas.pipeline.connect.config_validators import OneOf
from barnabas.pipeline.connect.connectors.database_access import (
    columns_of,
    connect,
    execute,
    quoted,
    type_name,
)
from barnabas.pipeline.connect.connectors.jdbc_source import URL_KEY, database_key
from barnabas.pipeline.connect.plugin_api import (
    CommittedPosition,
    Properties,
    SinkTask,
    TopicPartition,
)
from barnabas.pipeline.data import connect_schema as s
from barnabas.pipeline.data.connect_errors import ConnectError
from barnabas.pipeline.data.connect_schema import Field, Schema, Struct, Type
from barnabas.pipeline.data.java_text import plain_text
from barnabas.pipeline.data.java_values import EpochMillis
from barnabas.pipeline.data.records import SinkRecord

_OFFSETS: Final = "barnabas_offsets"
_DEFINITION: Final = ConfigDef(
    [
        URL_KEY,
        database_key(
            "insert.mode",
            ConfigType.STRING,
            "insert",
            "insert adds rows, upsert adds or replaces them, update changes rows that exist.",
            OneOf(("insert", "upsert", "update")),
        ),
        database_key(
            "pk.mode",
            ConfigType.STRING,
            "none",
            "The source of the primary key: none, kafka, record_key or record_value.",
            OneOf(("none", "kafka", "record_key", "record_value")),
        ),
        database_key("pk.fields", ConfigType.LIST, [], "The columns of the primary key."),
        database_key(
            "table.name.format", ConfigType.STRING, "${topic}", "The table; ${topic} is the topic."
        ),
        database_key(
            "fields.whitelist", ConfigType.LIST, [], "The fields to write; all when empty."
        ),
        database_key(
            "auto.create", ConfigType.BOOLEAN, False, "True when a missing table is created."
        ),
        database_key(
            "auto.evolve", ConfigType.BOOLEAN, False, "True when missing columns are added."
        ),
        database_key(
            "delete.enabled",
            ConfigType.BOOLEAN,
            False,
            "True when a record without a value deletes the row of its key.",
        ),
    ]
)
_KAFKA_KEY: Final = (
    ("__connect_topic", s.STRING),
    ("__connect_partition", s.INT32),
    ("__connect_offset", s.INT64),
)


@attrs.frozen
class _Row:
    """The columns of a row with their schemas: the key, and the others."""

    keys: tuple[tuple[str, Schema, Any], ...]
    values: tuple[tuple[str, Schema, Any], ...]
    is_deletion: bool = False


class JdbcSinkTask(SinkTask):
    """Writes rows in one database transaction for each batch."""

    needs_all_partitions: bool = False

    def __init__(self) -> None:
        self._connection: Connection | None = None
        self._is_open = False

    def start(self, props: Properties) -> None:
        """Connect. Raises ConnectError."""
        values = _DEFINITION.parse(props)
        self._settings = _Settings.of(values, props.get("name", ""))
        self._connection = connect(str(values["connection.url"]))
        self._columns: dict[str, set[str]] = {}

    def open(self, positions: Mapping[TopicPartition, CommittedPosition]) -> None:
        """Begin the database transaction, and find what an earlier batch has written."""
        self._execute("BEGIN IMMEDIATE")
        self._is_open = True
        self._execute(
            f"CREATE TABLE IF NOT EXISTS {_OFFSETS} (job TEXT, topic TEXT, part INTEGER, "
            "next BIGINT, batch BIGINT, PRIMARY KEY (job, topic, part))"
        )
        self._written: dict[TopicPartition, int] = {}
        self._batch = 0
        for partition, position in positions.items():
            row = self._execute(
                f"SELECT next, batch FROM {_OFFSETS} WHERE job = ? AND topic = ? AND part = ?",
                (self._settings.job, *partition),
            ).fetchone()
            following, batch = row or (0, 0)
            self._batch = max(self._batch, batch)
            if position.note or batch <= 1:
                self._written[partition] = following

    def put(self, records: Sequence[SinkRecord]) -> None:
        """Write the rows that an earlier batch has not written. Raises ConnectError."""
        for record in records:
            topic, partition, offset = record.original
            if offset < self._written.get((topic, partition), 0):
                continue
            table = self._settings.table.replace("${topic}", record.topic)
            row = self._row(record)
            if row.is_deletion:
                self._delete(table, row)
            else:
                self._prepare(table, row)
                self._write(table, row)

    def flush(self, offsets: Mapping[TopicPartition, int]) -> str | None:
        """Commit rows and positions in the database; return the number of the batch."""
        self._batch += 1
        for (topic, partition), following in offsets.items():
            self._execute(
                f"INSERT INTO {_OFFSETS} (job, topic, part, next, batch) VALUES (?, ?, ?, ?, ?) "
                "ON CONFLICT (job, topic, part) DO UPDATE SET next = excluded.next, "
                "batch = excluded.batch",
                (self._settings.job, topic, partition, following, self._batch),
            )
        self._execute("COMMIT")
        self._is_open = False
        return str(self._batch)

    def close(self, *, is_committed: bool) -> None:
        """End a batch; one that was not flushed is rolled back."""
        if self._is_open:
            self._is_open = False
            self._execute("ROLLBACK")
            self._columns.clear()

    def stop(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self.close(is_committed=False)
            self._connection.close()
            self._connection = None

    def _connected(self) -> Connection:
        if self._connection is None:
            raise ConnectError("the task is not started")
        return self._connection

    def _execute(self, statement: str, parameters: Sequence[Any] = ()) -> Cursor:
        return execute(self._connected(), statement, tuple(parameters))

    def _row(self, record: SinkRecord) -> _Row:
        keys = self._keys(record)
        if record.value is None:
            if self._settings.deletes and self._settings.pk_mode == "record_key":
                return _Row(keys, (), is_deletion=True)
            raise ConnectError(f"{_place(record)} has no value and delete.enabled is false")
        if not isinstance(record.value, Struct):
            raise ConnectError(
                f"{_place(record)} has no struct as its value: use a converter with schemas"
            )
        names = {name for name, _, _ in keys}
        fields = [
            field
            for field in record.value.schema.fields
            if field.name not in names
            and (not self._settings.fields or field.name in self._settings.fields)
        ]
        return _Row(keys, tuple(_cell(record.value, field) for field in fields))

    def _keys(self, record: SinkRecord) -> tuple[tuple[str, Schema, Any], ...]:
        settings = self._settings
        if settings.pk_mode == "none":
            return ()
        if settings.pk_mode == "kafka":
            names = settings.pk_fields or [name for name, _ in _KAFKA_KEY]
            pairs = zip(names, _KAFKA_KEY, record.original, strict=True)
            return tuple((name, schema, value) for name, (_, schema), value in pairs)
        is_key = settings.pk_mode == "record_key"
        found = record.key if is_key else record.value
        if isinstance(found, Struct):
            names = settings.pk_fields or [field.name for field in found.schema.fields]
            return tuple(_cell(found, _field(found, name, record)) for name in names)
        if is_key and found is not None and len(settings.pk_fields) == 1:
            schema = record.key_schema or _schema_of(found, record)
            return ((settings.pk_fields[0], schema, _database_value(found)),)
        raise ConnectError(f"{_place(record)} has no primary key in its {settings.pk_mode}")

    def _delete(self, table: str, row: _Row) -> None:
        self._execute(
            f"DELETE FROM {quoted(table)} WHERE {_conditions(row)}", [v for _, _, v in row.keys]
        )

    def _write(self, table: str, row: _Row) -> None:
        cells = (*row.keys, *row.values)
        names = ", ".join(quoted(name) for name, _, _ in cells)
        marks = ", ".join("?" for _ in cells)
        changes = ", ".join(f"{quoted(name)} = ?" for name, _, _ in row.values)
        keys, values = [v for _, _, v in row.keys], [v for _, _, v in row.values]
        mode = self._settings.mode
        if mode == "update":
            text = f"UPDATE {quoted(table)} SET {changes} WHERE {_conditions(row)}"
            self._execute(text, [*values, *keys])
            return
        text = f"INSERT INTO {quoted(table)} ({names}) VALUES ({marks})"
        if mode == "upsert":
            target = ", ".join(quoted(name) for name, _, _ in row.keys)
            new = ", ".join(f"{quoted(n)} = excluded.{quoted(n)}" for n, _, _ in row.values)
            text += f" ON CONFLICT ({target}) DO " + (f"UPDATE SET {new}" if new else "NOTHING")
        self._execute(text, [*keys, *values])

    def _prepare(self, table: str, row: _Row) -> None:
        """Create the table or add columns, if that is allowed. Raises ConnectError."""
        cells = (*row.keys, *row.values)
        known = self._columns.get(table)
        if known is None:
            known = {column.name for column in columns_of(self._connected(), table)}
            if not known:
                known = self._create(table, row)
            self._columns[table] = known
        for name, schema, _ in cells:
            if name in known:
                continue
            if not self._settings.evolves:
                raise ConnectError(f"{table} has no column {name} and auto.evolve is false")
            kind = type_name(schema)
            self._execute(f"ALTER TABLE {quoted(table)} ADD COLUMN {quoted(name)} {kind}")
            known.add(name)

    def _create(self, table: str, row: _Row) -> set[str]:
        if not self._settings.creates:
            raise ConnectError(f"the table {table} does not exist and auto.create is false")
        key_names = {name for name, _, _ in row.keys}
        columns = [
            f"{quoted(name)} {type_name(schema)}"
            + ("" if schema.optional and name not in key_names else " NOT NULL")
            for name, schema, _ in (*row.keys, *row.values)
        ]
        if row.keys:
            columns.append(f"PRIMARY KEY ({', '.join(map(quoted, key_names))})")
        self._execute(f"CREATE TABLE {quoted(table)} ({', '.join(columns)})")
        return {name for name, _, _ in (*row.keys, *row.values)}


@attrs.frozen
class _Settings:
    job: str
    mode: str
    pk_mode: str
    pk_fields: list[str]
    table: str
    fields: frozenset[str]
    creates: bool
    evolves: bool
    deletes: bool

    @classmethod
    def of(cls, values: Mapping[str, ParsedValue], job: str) -> "_Settings":
        """Return the settings. Raises ConnectError when they do not fit together."""
        fields, keys = values["fields.whitelist"], values["pk.fields"]
        mode, pk_mode = str(values["insert.mode"]), str(values["pk.mode"])
        if mode != "insert" and pk_mode == "none":
            raise ConnectError(f"insert.mode={mode} needs a primary key: set pk.mode")
        if values["delete.enabled"] is True and pk_mode != "record_key":
            raise ConnectError("delete.enabled needs pk.mode=record_key")
        return cls(
            job,
            mode,
            pk_mode,
            keys if isinstance(keys, list) else [],
            str(values["table.name.format"]),
            frozenset(fields if isinstance(fields, list) else ()),
            values["auto.create"] is True,
            values["auto.evolve"] is True,
            values["delete.enabled"] is True,
        )


def _place(record: SinkRecord) -> str:
    topic, partition, offset = record.original
    return f"{topic}-{partition}@{offset}"


def _conditions(row: _Row) -> str:
    return " AND ".join(f"{quoted(name)} = ?" for name, _, _ in row.keys)


def _field(struct: Struct, name: str, record: SinkRecord) -> Field:
    field = struct.schema.field(name)
    if field is None:
        raise ConnectError(f"{_place(record)} has no field {name} for the primary key")
    return field


def _cell(struct: Struct, field: Field) -> tuple[str, Schema, Any]:
    return field.name, field.schema, _database_value(struct.value_of(field))


def _schema_of(value: Any, record: SinkRecord) -> Schema:
    kind = s.type_of_value(value)
    if kind is None or kind in (Type.ARRAY, Type.MAP, Type.STRUCT):
        raise ConnectError(f"{_place(record)} has a key that is not a primitive value")
    return Schema(kind)


def _database_value(value: Any) -> Any:
    """Return a value as a driver takes it."""
    if isinstance(value, EpochMillis):
        return value.ms
    if value is None or isinstance(value, bool | int | str | bytes):
        return value
    return float(value) if isinstance(value, float) else plain_text(value)


class JdbcSinkConnector:
    """Writes tables."""

    kind: ClassVar[str] = "sink"
    java_class = "io.confluent.connect.jdbc.JdbcSinkConnector"

    def config(self) -> ConfigDef:
        """Return the definition of the connector's properties."""
        return _DEFINITION

    def task_configs(self, props: Properties, max_tasks: int) -> list[dict[str, str]]:
        """Return one task; the delivery runs it once for each partition. Raises ConnectError."""
        _Settings.of(_DEFINITION.parse(props), props.get("name", ""))
        return [dict(props)]

    def sink_task(self) -> type[SinkTask]:
        """Return the class of the tasks."""
        return JdbcSinkTask

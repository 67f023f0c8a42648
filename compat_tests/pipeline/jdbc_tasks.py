"""Tasks of the JDBC connectors for tests: sources and sinks on a database, records, batches."""

from collections.abc import Mapping
from typing import Any

from barnabas.pipeline.connect.connectors.jdbc_sink import JdbcSinkTask
from barnabas.pipeline.connect.connectors.jdbc_source import JdbcSourceConnector, JdbcSourceTask
from barnabas.pipeline.connect.plugin_api import CommittedPosition
from barnabas.pipeline.data import connect_schema as s
from barnabas.pipeline.data.converters.json_converter import JsonConverter
from barnabas.pipeline.data.records import CREATE_TIME, SinkRecord, SourceRecord
from compat_tests.database_process import DatabaseProcess

ROW = s.struct_schema([("id", s.INT64), ("name", s.OPTIONAL_STRING)])
WIDER = s.struct_schema([("id", s.INT64), ("name", s.OPTIONAL_STRING), ("x%", s.OPTIONAL_INT8)])
KEY = s.struct_schema([("id", s.INT64)])
UPSERT = {"insert_mode": "upsert", "pk_mode": "record_value", "pk_fields": "id"}
OPEN: list[Any] = []


def stop_all() -> None:
    """Stop the tasks that a test has started."""
    while OPEN:
        OPEN.pop().stop()


class Offsets:
    def __init__(self, offset: Mapping[str, Any] | None) -> None:
        self._offset = offset

    def offset(self, partition: Mapping[str, Any]) -> dict[str, Any] | None:
        return None if self._offset is None else dict(self._offset)


def configs(db: DatabaseProcess, props: Mapping[str, str], tasks: int = 1) -> list[dict[str, str]]:
    base = {"topic.prefix": "db-", "poll.interval.ms": "0", **db.properties}
    return JdbcSourceConnector().task_configs({**base, **props}, tasks)


def source(
    db: DatabaseProcess, offset: Mapping[str, Any] | None = None, **props: str
) -> JdbcSourceTask:
    given = {name.replace("_", "."): value for name, value in props.items()}
    (config,) = configs(db, given)
    task = JdbcSourceTask()
    task.start(config, Offsets(offset))
    OPEN.append(task)
    return task


def ids(records: list[SourceRecord]) -> list[int]:
    return [record.value.get("id") for record in records]


def record(offset: int, number: int, name: str | None, schema: s.Schema = ROW) -> SinkRecord:
    value = s.Struct.of(schema, {"id": number, "name": name})
    return sunk(schema, value, offset)


def sunk(
    schema: s.Schema | None, value: Any, offset: int, key: tuple[s.Schema, Any] | None = None
) -> SinkRecord:
    key_schema, key_value = key or (None, None)
    return SinkRecord(
        "t", 0, 0, key_schema, key_value, schema, value, (), offset, CREATE_TIME, ("t", 0, offset)
    )  # fmt: skip


def sink(db: DatabaseProcess, **props: str) -> JdbcSinkTask:
    given = {name.replace("_", "."): value for name, value in props.items()}
    task = JdbcSinkTask()
    OPEN.append(task)
    task.start({"name": "job", "auto.create": "true", **db.properties, **given})
    return task


def position(offset: int, note: str = "") -> dict[tuple[str, int], CommittedPosition]:
    return {("t", 0): CommittedPosition(offset, note)}


def write(task: JdbcSinkTask, records: list[SinkRecord], at: Mapping[Any, Any]) -> str | None:
    """Write one batch to its end; return its note."""
    task.open(at)
    task.put(records)
    note = task.flush({("t", 0): records[-1].original[2] + 1})
    task.close(is_committed=True)
    return note


def converted(records: list[SourceRecord]) -> list[SinkRecord]:
    """Return the values of a source as a sink gets them, by way of JSON."""
    converter = JsonConverter()
    converter.configure({"schemas.enable": "true"}, is_key=False)
    found = []
    for offset, each in enumerate(records):
        data = converter.from_connect("t", each.value_schema, each.value)
        schema, value = converter.to_connect("t", data)
        found.append(sunk(schema, value, offset))
    return found

"""JDBC source and sink on SQLite: positions, exactly-once batches, tables that grow."""

import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from barnabas.pipeline.connect.connector_validation import ConnectorValidator
from barnabas.pipeline.connect.connectors.database_access import DatabaseSettings, connect
from barnabas.pipeline.connect.connectors.jdbc_sink import JdbcSinkConnector, JdbcSinkTask
from barnabas.pipeline.connect.connectors.jdbc_source import JdbcSourceConnector, JdbcSourceTask
from barnabas.pipeline.connect.plugin_api import CommittedPosition, SinkTask, SourceTask
from barnabas.pipeline.connect.plugin_registry import plugin_registry
from barnabas.pipeline.data import connect_schema as s
from barnabas.pipeline.data.connect_errors import ConnectError, DataError, RetriableError
from barnabas.pipeline.data.records import CREATE_TIME, SinkRecord

OPEN: list[SourceTask | SinkTask] = []
ROW = s.struct_schema([("id", s.INT64), ("name", s.OPTIONAL_STRING)])
KEY = s.struct_schema([("id", s.INT64)])


class Offsets:
    def __init__(self, offset: Mapping[str, Any] | None = None) -> None:
        self._offset = offset

    def offset(self, partition: Mapping[str, Any]) -> dict[str, Any] | None:
        return None if self._offset is None else dict(self._offset)


@pytest.fixture(autouse=True)
def stopped() -> Iterator[None]:
    yield
    while OPEN:
        OPEN.pop().stop()


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"jdbc:sqlite:{tmp_path / 'db'}"


def run(url: str, *statements: str) -> list[Any]:
    connection = sqlite3.connect(url.removeprefix("jdbc:sqlite:"))
    try:
        rows: list[Any] = []
        for statement in statements:
            rows = connection.execute(statement).fetchall()
        connection.commit()
    finally:
        connection.close()
    return rows


def source(url: str, offset: Mapping[str, Any] | None = None, **props: str) -> JdbcSourceTask:
    given = {name.replace("_", "."): value for name, value in props.items()}
    base = {"connection.url": url, "topic.prefix": "db-", "poll.interval.ms": "0"}
    (config,) = JdbcSourceConnector().task_configs({**base, **given}, 1)
    task = JdbcSourceTask()
    task.start(config, Offsets(offset))
    OPEN.append(task)
    return task


PEOPLE = (
    "CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT, changed TEXT NOT NULL)",
    "INSERT INTO people VALUES (1, 'Ada', '2024-01-01 10:00:00')",
    "INSERT INTO people VALUES (2, NULL, '2024-01-01 10:00:00')",
    "INSERT INTO people VALUES (3, 'Bo', '2024-01-02 10:00:00.500')",
)


def test_jdbc_source_incrementing_continues_behind_its_offset(url: str):
    run(url, *PEOPLE)
    props = {"mode": "incrementing", "incrementing_column_name": "id", "batch_max_rows": "2"}
    records = source(url, **props).poll()
    assert [record.value.get("id") for record in records] == [1, 2]
    assert records[0].topic == "db-people"
    assert records[0].source_partition == {"protocol": "1", "table": "people"}
    assert records[1].source_offset == {"incrementing": 2}
    assert records[0].value_schema is not None
    assert records[0].value_schema.name == "people"
    again = source(url, records[1].source_offset, **props)
    assert [record.value.get("id") for record in again.poll()] == [3]
    assert again.poll() == []
    run(url, "INSERT INTO people VALUES (4, 'Cy', '2024-01-03 10:00:00')")
    assert [record.value.get("id") for record in again.poll()] == [4]


def test_jdbc_source_timestamp_rows_of_a_moment_stay_together(url: str):
    run(url, *PEOPLE)
    props = {"mode": "timestamp", "timestamp_column_name": "changed", "batch_max_rows": "1"}
    records = source(url, **props).poll()
    assert [record.value.get("id") for record in records] == [1, 2]
    assert records[1].source_offset == {"timestamp": 1704103200000, "timestamp_nanos": 0}
    rest = source(url, records[1].source_offset, **props).poll()
    assert [record.value.get("id") for record in rest] == [3]
    assert source(url, rest[0].source_offset, **props).poll() == []


def test_jdbc_source_changed_row_is_read_again_by_timestamp_and_number(url: str):
    run(url, *PEOPLE)
    props = {
        "mode": "timestamp+incrementing",
        "timestamp_column_name": "changed",
        "incrementing_column_name": "id",
    }
    last = source(url, **props).poll()[-1].source_offset
    run(url, "UPDATE people SET name = 'Ada L', changed = '2024-01-03 00:00:00' WHERE id = 1")
    records = source(url, last, **props).poll()
    assert [record.value.get("name") for record in records] == ["Ada L"]


def test_jdbc_source_bulk_reads_a_query_each_time(url: str):
    run(url, *PEOPLE)
    task = source(url, mode="bulk", query="SELECT id, name FROM people WHERE id < 3")
    assert [record.value.values for record in task.poll()] == [[1, "Ada"], [2, None]]
    assert len(task.poll()) == 2


def test_jdbc_source_query_is_taken_as_it_is_written(url: str):
    """Colons, percent signs and backslashes do not begin a parameter."""
    run(url, *PEOPLE)
    text = r"':id' || '::x' || '\:y' || ' a:=1 %s ?'"
    task = source(url, mode="bulk", query=f"SELECT {text} AS t FROM people WHERE name LIKE '%da'")
    assert [record.value.values for record in task.poll()] == [[r":id::x\:y a:=1 %s ?"]]


@pytest.mark.parametrize(
    ("props", "message"),
    [
        ({"mode": "incrementing"}, "needs incrementing.column.name"),
        ({"mode": "bulk", "connection.url": "jdbc:oracle:x"}, "not supported"),
        ({"mode": "bulk", "table.blacklist": "people"}, "no table"),
    ],
)
def test_jdbc_source_wrong_configuration_is_refused(url: str, props: dict[str, str], message: str):
    run(url, PEOPLE[0])
    with pytest.raises(ConnectError, match=message):
        JdbcSourceConnector().task_configs({"connection.url": url, "topic.prefix": "", **props}, 1)


@pytest.mark.parametrize(
    ("props", "message"),
    [
        (
            {"mode": "incrementing", "incrementing_column_name": "nr"},
            "incrementing.column.name=nr: people has no such column; name one of its columns: "
            "id, name, changed",
        ),
        (
            {"mode": "timestamp", "timestamp_column_name": "changed,at"},
            "timestamp.column.name=at: people has no such column; name one of its columns: "
            "id, name, changed",
        ),
    ],
)
@pytest.mark.parametrize("non_null", ["true", "false"])
def test_jdbc_source_column_that_is_missing_is_refused_for_good(
    url: str, props: dict[str, str], message: str, non_null: str
):
    run(url, *PEOPLE)
    with pytest.raises(ConnectError) as raised:
        source(url, validate_non_null=non_null, **props).poll()
    assert str(raised.value).replace('"', "") == message
    assert not isinstance(raised.value, RetriableError)


def test_jdbc_source_full_disk_is_retriable(url: str):
    run(url, "CREATE TABLE t (x)")
    database = connect(DatabaseSettings(url))
    database.execute("PRAGMA max_page_count = 2")
    with pytest.raises(RetriableError, match="full"):
        database.execute("INSERT INTO t VALUES (zeroblob(100000))")
    with pytest.raises(ConnectError, match="no such table") as raised:
        database.execute("INSERT INTO u VALUES (1)")
    assert not isinstance(raised.value, RetriableError)
    database.close()


SOURCE_ERRORS = {
    "connection.url": "connection.url=jdbc:oracle:x: this database is not supported",
    "incrementing.column.name": "mode=incrementing needs incrementing.column.name",
    "query": "set query, or table.whitelist and table.blacklist, not both",
    "table.blacklist": "set table.whitelist or table.blacklist, not both",
    "batch.max.rows": "Value must be at least 1",
    "topic.prefix": 'Missing required configuration "topic.prefix"',
}
SINK_ERRORS = {
    "connection.url": "connection.url has the parameter x, which is not supported",
    "insert.mode": "String must be one of: insert, upsert, update",
    "delete.enabled": "delete.enabled needs pk.mode=record_key: pk.mode=kafka",
    "pk.fields": "pk.fields=a, b: pk.mode=kafka needs three columns",
}


@pytest.mark.parametrize(
    ("props", "expected"),
    [
        (
            {
                "connector.class": "JdbcSource",
                "connection.url": "jdbc:oracle:x",
                "mode": "incrementing",
                "query": "SELECT 1",
                "table.whitelist": "a",
                "table.blacklist": "b",
                "batch.max.rows": "0",
            },
            SOURCE_ERRORS,
        ),
        (
            {
                "connector.class": "JdbcSink",
                "topics": "t",
                "connection.url": "jdbc:postgresql://h/db?x=1",
                "insert.mode": "add",
                "pk.mode": "kafka",
                "delete.enabled": "true",
                "pk.fields": "a,b",
            },
            SINK_ERRORS,
        ),
        (
            {
                "connector.class": "JdbcSink",
                "topics": "t",
                "connection.url": "jdbc:mysql://a,b/db",
                "insert.mode": "upsert",
            },
            {
                "connection.url": "a,b must be one host",
                "pk.mode": "insert.mode=upsert needs a primary key: set pk.mode",
            },
        ),
    ],
)
def test_jdbc_validation_reports_all_errors_at_their_properties(
    props: dict[str, str], expected: dict[str, str]
):
    validator = ConnectorValidator(plugin_registry(), "runners", {})
    infos = validator.validate({"name": "n", **props})
    found = {each.value.name: each.value.errors for each in infos.configs if each.value.errors}
    assert found.keys() == expected.keys()
    for name, text in expected.items():
        assert len(found[name]) == 1
        assert text in found[name][0]


def record(offset: int, number: int, name: str | None, *, schema: s.Schema = ROW) -> SinkRecord:
    value = s.Struct.of(schema, {"id": number, "name": name})
    return SinkRecord(
        "t", 0, 0, None, None, schema, value, (), offset, CREATE_TIME, ("t", 0, offset)
    )  # fmt: skip


def tombstone(offset: int, number: int) -> SinkRecord:
    key = s.Struct.of(KEY, {"id": number})
    return SinkRecord("t", 0, 0, KEY, key, None, None, (), offset, CREATE_TIME, ("t", 0, offset))


def sink(url: str, **props: str) -> JdbcSinkTask:
    given = {name.replace("_", "."): value for name, value in props.items()}
    base = {"connection.url": url, "name": "job", "auto.create": "true"}
    task = JdbcSinkTask()
    task.start({**base, **given})
    OPEN.append(task)
    return task


def position(offset: int, note: str = "") -> dict[tuple[str, int], CommittedPosition]:
    return {("t", 0): CommittedPosition(offset, note)}


UPSERT = {"insert_mode": "upsert", "pk_mode": "record_value", "pk_fields": "id"}


def test_jdbc_sink_upserts_rows(url: str):
    task = sink(url, **UPSERT)
    task.open(position(0))
    task.put([record(0, 1, "a"), record(1, 2, None), record(2, 1, "b")])
    assert task.flush({("t", 0): 3}) == "1"
    task.close(is_committed=True)
    assert run(url, "SELECT * FROM t ORDER BY id") == [(1, "b"), (2, None)]


def test_jdbc_sink_batch_that_kafka_did_not_commit_is_not_written_twice(url: str):
    first = sink(url)
    first.open(position(0))
    first.put([record(0, 1, "a"), record(1, 1, "a")])
    first.flush({("t", 0): 2})
    first.close(is_committed=False)
    again = sink(url)
    again.open(position(0))
    again.put([record(0, 1, "a"), record(1, 1, "a"), record(2, 2, "b")])
    note = again.flush({("t", 0): 3})
    assert run(url, "SELECT count(*) FROM t") == [(3,)]
    assert note == "2"


def test_jdbc_sink_first_batch_that_kafka_did_not_commit_is_not_written_twice(url: str):
    first = sink(url)
    first.open({})
    first.put([record(0, 1, "a")])
    first.flush({("t", 0): 1})
    first.stop()
    again = sink(url)
    again.open({})
    again.put([record(0, 1, "a"), record(1, 2, "b")])
    again.flush({("t", 0): 2})
    assert run(url, "SELECT count(*) FROM t") == [(2,)]


def test_jdbc_sink_reads_again_after_a_reset_behind_its_first_batch(url: str):
    for expected in (1, 2):
        task = sink(url)
        task.open({})
        task.put([record(0, 1, "a")])
        task.flush({("t", 0): 1})
        task.close(is_committed=True)
        task.stop()
        assert run(url, "SELECT count(*) FROM t") == [(expected,)]


def test_jdbc_sink_batch_that_was_not_flushed_is_rolled_back(url: str):
    task = sink(url)
    task.open(position(0))
    task.put([record(0, 1, "a")])
    task.close(is_committed=False)
    assert run(url, "SELECT name FROM sqlite_master WHERE name = 't'") == []
    task.open(position(0))
    task.put([record(0, 1, "a")])
    task.flush({("t", 0): 1})
    assert run(url, "SELECT count(*) FROM t") == [(1,)]


def test_jdbc_sink_follows_offsets_that_a_user_has_set(url: str):
    task = sink(url, **UPSERT)
    for batch, note in enumerate(("", "1")):
        task.open(position(batch, note))
        task.put([record(batch, batch, "a")])
        task.flush({("t", 0): batch + 1})
        task.close(is_committed=True)
    run(url, "DELETE FROM t")
    task.open(position(0))
    task.put([record(0, 0, "again"), record(1, 1, "again")])
    task.flush({("t", 0): 2})
    assert run(url, "SELECT count(*) FROM t") == [(2,)]


def test_jdbc_sink_tombstone_deletes_the_row(url: str):
    run(url, "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)", "INSERT INTO t VALUES (1, 'a')")
    task = sink(url, pk_mode="record_key", delete_enabled="true", pk_fields="id")
    task.open(position(0))
    task.put([tombstone(0, 1)])
    task.flush({("t", 0): 1})
    assert run(url, "SELECT * FROM t") == []


def test_jdbc_sink_evolves_a_table(url: str):
    wider = s.struct_schema([("id", s.INT64), ("name", s.OPTIONAL_STRING), ("x", s.OPTIONAL_INT8)])
    task = sink(url, auto_evolve="true")
    task.open(position(0))
    task.put([record(0, 1, "a"), record(1, 2, "b", schema=wider)])
    task.flush({("t", 0): 2})
    assert run(url, "SELECT * FROM t ORDER BY id") == [(1, "a", None), (2, "b", None)]


def test_jdbc_sink_rows_of_several_forms_in_one_batch_have_their_own_statements(url: str):
    """Records that differ in topic, in the schema or presence of the value, or in the key."""
    wider = s.struct_schema([("id", s.INT64), ("name", s.OPTIONAL_STRING), ("x", s.OPTIONAL_INT8)])

    key_struct = s.struct_schema([("k", s.INT64)])

    def keyed(topic: str, offset: int, key: Any, schema: s.Schema | None) -> SinkRecord:
        key_schema = key.schema if isinstance(key, s.Struct) else s.INT64
        value = None if schema is None else s.Struct.of(schema, {"id": offset, "name": topic})
        return SinkRecord(
            topic, 0, 0, key_schema, key, schema, value, (), offset, CREATE_TIME,
            ("t", 0, offset),
        )  # fmt: skip

    batch = [
        keyed("t", 0, 10, ROW),
        keyed("u", 1, 11, ROW),
        keyed("t", 2, 12, wider),
        keyed("t", 3, 10, None),
        keyed("u", 4, 14, ROW),
        keyed("t", 5, s.Struct.of(key_struct, {"k": 15}), ROW),
    ]
    props = {"pk_mode": "record_key", "pk_fields": "k", "delete_enabled": "true"}
    task = sink(url, auto_evolve="true", **props)
    task.open(position(0))
    task.put(batch)
    task.flush({("t", 0): 6})
    assert run(url, "SELECT * FROM t ORDER BY k") == [(12, 2, "t", None), (15, 5, "t", None)]
    assert run(url, "SELECT * FROM u ORDER BY k") == [(11, 1, "u"), (14, 4, "u")]


def test_jdbc_sink_field_that_no_column_holds_is_refused(url: str):
    nested = s.struct_schema([("id", s.INT64), ("name", ROW)])
    task = sink(url)
    task.open({})
    value = s.Struct.of(nested, {"id": 1, "name": s.Struct.of(ROW, {"id": 1})})
    place = ("t", 0, 0)
    with pytest.raises(DataError, match="field name is of type STRUCT"):
        task.put([SinkRecord("t", 0, 0, None, None, nested, value, (), 0, CREATE_TIME, place)])


@pytest.mark.parametrize(
    ("props", "message"),
    [
        ({"auto_create": "false"}, "does not exist and auto.create is false"),
        ({"pk_mode": "record_key"}, "has no primary key in its record_key"),
    ],
)
def test_jdbc_sink_unfit_record_is_refused(url: str, props: dict[str, str], message: str):
    task = sink(url, **props)
    task.open(position(0))
    with pytest.raises(ConnectError, match=message):
        task.put([record(0, 1, "a")])


def test_jdbc_sink_upsert_without_key_is_refused(url: str):
    with pytest.raises(ConnectError, match="needs a primary key"):
        JdbcSinkConnector().task_configs({"connection.url": url, "insert.mode": "upsert"}, 1)

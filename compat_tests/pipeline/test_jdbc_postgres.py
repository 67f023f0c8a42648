"""The JDBC connectors' tasks on a real PostgreSQL: types, modes, exactly-once batches, failures."""

import threading
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from datetime import time as time_of_day
from decimal import Decimal
from typing import Any

import pytest

from barnabas.pipeline.connect.connectors.jdbc_sink import JdbcSinkTask
from barnabas.pipeline.connect.connectors.jdbc_source import JdbcSourceConnector, JdbcSourceTask
from barnabas.pipeline.connect.plugin_api import CommittedPosition
from barnabas.pipeline.data import connect_schema as s
from barnabas.pipeline.data.connect_errors import ConnectError, DataError, RetriableError
from barnabas.pipeline.data.converters.json_converter import JsonConverter
from barnabas.pipeline.data.java_values import EpochMillis, Float32
from barnabas.pipeline.data.records import CREATE_TIME, SinkRecord, SourceRecord
from compat_tests import postgres
from compat_tests.postgres import PostgresServer

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.barnabas_only,
    pytest.mark.skipif(postgres.missing() is not None, reason=postgres.missing() or ""),
]

ROW = s.struct_schema([("id", s.INT64), ("name", s.OPTIONAL_STRING)])
KEY = s.struct_schema([("id", s.INT64)])
UPSERT = {"insert.mode": "upsert", "pk.mode": "record_value", "pk.fields": "id"}
OPEN: list[Any] = []


@pytest.fixture
def db(database: PostgresServer) -> Iterator[PostgresServer]:
    """The server without tables."""
    database.run("DROP SCHEMA IF EXISTS other CASCADE", "DROP SCHEMA public CASCADE")
    database.run("CREATE SCHEMA public")
    yield database
    while OPEN:
        OPEN.pop().stop()


class Offsets:
    def __init__(self, offset: Mapping[str, Any] | None) -> None:
        self._offset = offset

    def offset(self, partition: Mapping[str, Any]) -> dict[str, Any] | None:
        return None if self._offset is None else dict(self._offset)


def configs(db: PostgresServer, props: Mapping[str, str], tasks: int = 1) -> list[dict[str, str]]:
    base = {"topic.prefix": "db-", "poll.interval.ms": "0", **db.properties}
    return JdbcSourceConnector().task_configs({**base, **props}, tasks)


def source(
    db: PostgresServer, offset: Mapping[str, Any] | None = None, **props: str
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


def sink(db: PostgresServer, **props: str) -> JdbcSinkTask:
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


TYPES = (
    ("i2", "smallint", -32768, -32768),
    ("i4", "integer", 2147483647, 2147483647),
    ("i8", "bigint", -(1 << 63), -(1 << 63)),
    ("f4", "real", 0.1, Float32(0.1)),
    ("f8", "double precision", 0.1, 0.1),
    ("b", "boolean", True, True),
    ("t", "text", "Škoda % ? \n", "Škoda % ? \n"),
    ("vc", "varchar(10)", "x", "x"),
    ("fixed", "char(3)", "x  ", "x  "),
    ("by", "bytea", b"\x00\xff", b"\x00\xff"),
    (
        "n",
        "numeric(30,2)",
        Decimal("-12345678901234567890.10"),
        Decimal("-12345678901234567890.10"),
    ),
    ("n0", "numeric(5)", Decimal(12345), Decimal(12345)),
    ("d", "date", date(1969, 12, 31), EpochMillis(-86_400_000)),
    ("ti", "time", time_of_day(23, 59, 59, 999000), EpochMillis(86_399_999)),
    ("ts", "timestamp", datetime(2024, 2, 29, 1, 2, 3, 4000), EpochMillis(1709168523004)),
    (
        "tz",
        "timestamptz",
        datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=UTC),
        EpochMillis(-1),
    ),
    ("u", "uuid", "8a0e1a08-3b5f-4d9e-9d0c-0d6a5f3f3c11", "8a0e1a08-3b5f-4d9e-9d0c-0d6a5f3f3c11"),
    ("j", "jsonb", '{"a": 1}', '{"a": 1}'),
    ("arr", "integer[]", [1, 2], "{1,2}"),
    ("addr", "inet", "10.0.0.1", "10.0.0.1/32"),
)
SINK_TYPES = {
    "u": "text", "j": "text", "arr": "text", "addr": "text", "vc": "text", "fixed": "text",
    "tz": "timestamp without time zone", "n": "numeric(1000,2)", "n0": "numeric(1000,0)",
}  # fmt: skip
"""Columns that a sink creates with another type than the source had."""


def create_types(db: PostgresServer) -> None:
    columns = ", ".join(f'"{name}" {kind}' for name, kind, _, _ in TYPES)
    marks = ", ".join("%s" for _ in TYPES)
    db.run(f"CREATE TABLE kinds (id integer primary key, {columns})")
    values = [value for _, _, value, _ in TYPES]
    db.run(f"INSERT INTO kinds VALUES (1, {marks})", parameters=values)
    db.run("INSERT INTO kinds (id) VALUES (2)")


def test_type_of_every_kind_is_read_and_written_back(db: PostgresServer):
    create_types(db)
    full, empty = source(db, mode="bulk").poll()
    for name, _, _, expected in TYPES:
        assert full.value.get(name) == expected, name
        assert type(full.value.get(name)) is type(expected), name
        assert empty.value.get(name) is None
    converter = JsonConverter()
    converter.configure({"schemas.enable": "true"}, is_key=False)
    records = []
    for offset, each in enumerate((full, empty)):
        data = converter.from_connect("t", each.value_schema, each.value)
        schema, value = converter.to_connect("t", data)
        assert schema is not None
        records.append(sunk(schema, value, offset))
    write(sink(db, pk_mode="record_value", pk_fields="id"), records, {})
    declared = dict(
        db.run(
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
            "WHERE attrelid = 't'::regclass AND attnum > 0"
        )
    )
    again = [each.value for each in source(db, mode="bulk", table_whitelist="t").poll()]
    for name, kind, _, expected in TYPES:
        wanted = SINK_TYPES.get(name) or {"time": "time without time zone"}.get(kind, kind)
        wanted = {"timestamp": "timestamp without time zone"}.get(wanted, wanted)
        assert declared[name] == wanted
        assert again[0].get(name) == expected, name
        assert again[1].get(name) is None


@pytest.mark.parametrize(
    ("mapping", "expected"),
    [
        ("none", ["BYTES", "BYTES", "BYTES"]),
        ("precision_only", ["INT16", "BYTES", "BYTES"]),
        ("best_fit", ["INT16", "FLOAT64", "BYTES"]),
        ("best_fit_eager_double", ["INT16", "FLOAT64", "FLOAT64"]),
    ],
)
def test_numeric_mapping_decides_the_type_of_a_decimal(
    db: PostgresServer, mapping: str, expected: list[str]
):
    db.run("CREATE TABLE n (a numeric(4), b numeric(9,2), c numeric(30,2))")
    db.run("INSERT INTO n VALUES (12, 1.5, 2.25)")
    (found,) = source(db, mode="bulk", numeric_mapping=mapping).poll()
    assert [str(field.schema.type) for field in found.value.schema.fields] == expected
    assert [float(each) for each in found.value.values] == [12, 1.5, 2.25]


def test_numeric_without_scale_is_refused_or_read_as_double(db: PostgresServer):
    db.run("CREATE TABLE n (a numeric)", "INSERT INTO n VALUES (1.5)")
    with pytest.raises(ConnectError, match="column a is numeric without a scale"):
        source(db, mode="bulk").poll()
    (found,) = source(db, mode="bulk", numeric_mapping="best_fit").poll()
    assert found.value.values == [1.5]


PEOPLE = (
    "CREATE TABLE people (id serial primary key, name text, changed timestamp NOT NULL)",
    "INSERT INTO people (name, changed) VALUES ('Ada', '2024-01-01 10:00:00.123456')",
    "INSERT INTO people (name, changed) VALUES (NULL, '2024-01-01 10:00:00.123456')",
    "INSERT INTO people (name, changed) VALUES ('Bo', '2024-01-01 10:00:00.123457')",
)


def test_incrementing_continues_behind_its_offset(db: PostgresServer):
    db.run(*PEOPLE)
    props = {"mode": "incrementing", "incrementing_column_name": "id", "batch_max_rows": "2"}
    records = source(db, **props).poll()
    assert ids(records) == [1, 2]
    assert records[0].topic == "db-people"
    assert records[0].value_schema is not None
    assert records[0].value_schema.name == "people"
    assert records[1].source_partition == {"protocol": "1", "table": "public.people"}
    assert records[1].source_offset == {"incrementing": 2}
    again = source(db, records[1].source_offset, **props)
    assert ids(again.poll()) == [3]
    assert again.poll() == []
    db.run("INSERT INTO people (name, changed) VALUES ('Cy', now())")
    assert ids(again.poll()) == [4]


def test_timestamp_keeps_microseconds_and_rows_of_a_moment_together(db: PostgresServer):
    db.run(*PEOPLE)
    props = {"mode": "timestamp", "timestamp_column_name": "changed", "batch_max_rows": "1"}
    records = source(db, **props).poll()
    assert ids(records) == [1, 2]
    offset = records[1].source_offset
    assert offset == {"timestamp": 1704103200123, "timestamp_nanos": 123_456_000}
    rest = source(db, offset, **props).poll()
    assert ids(rest) == [3]
    assert source(db, rest[0].source_offset, **props).poll() == []


@pytest.mark.parametrize("kind", ["timestamp", "timestamptz"])
def test_changed_row_is_read_again_by_timestamp_and_number(db: PostgresServer, kind: str):
    db.run(*PEOPLE, f"ALTER TABLE people ALTER changed TYPE {kind}")
    props = {
        "mode": "timestamp+incrementing",
        "timestamp_column_name": "changed",
        "incrementing_column_name": "id",
        "batch_max_rows": "1",
    }
    task, found = source(db, **props), []
    while records := task.poll():
        found += records
    assert ids(found) == [1, 2, 3]
    # Behind the first of two rows of one moment.
    assert ids(source(db, found[0].source_offset, **props).poll()) == [2]
    db.run("UPDATE people SET name = 'Ada L', changed = now() WHERE id = 1")
    again = source(db, found[-1].source_offset, **props).poll()
    assert [each.value.get("name") for each in again] == ["Ada L"]


def test_first_of_two_timestamps_that_has_a_value_counts(db: PostgresServer):
    db.run(
        "CREATE TABLE p (id int primary key, changed timestamp, made date NOT NULL)",
        "INSERT INTO p VALUES (1, '2024-03-01', '2024-01-01'), (2, NULL, '2024-02-01')",
    )
    task = source(db, mode="timestamp", timestamp_column_name="changed,made")
    assert ids(task.poll()) == [2, 1]


def test_delay_leaves_young_rows_for_later(db: PostgresServer):
    db.run(*PEOPLE, "INSERT INTO people (name, changed) VALUES ('new', now())")
    props = {"mode": "timestamp", "timestamp_column_name": "changed"}
    task = source(db, **props, timestamp_delay_interval_ms="3600000")
    assert ids(task.poll()) == [1, 2, 3]
    assert task.poll() == []
    db.run("UPDATE people SET changed = now() - interval '59 minutes' WHERE id = 4")
    assert task.poll() == []
    db.run("UPDATE people SET changed = now() - interval '61 minutes' WHERE id = 4")
    assert ids(task.poll()) == [4]


def test_initial_timestamp_leaves_older_rows_out(db: PostgresServer):
    db.run(*PEOPLE, "INSERT INTO people (name, changed) VALUES ('late', '2024-05-05')")
    props = {"mode": "timestamp", "timestamp_column_name": "changed"}
    assert ids(source(db, **props, timestamp_initial="1704103200124").poll()) == [4]
    assert source(db, **props, timestamp_initial="-1").poll() == []


def test_query_is_read_in_each_mode(db: PostgresServer):
    db.run(*PEOPLE)
    query = "SELECT id, upper(name) AS name, changed FROM people WHERE name LIKE '%o' OR id < 3"
    bulk = source(db, mode="bulk", query=query)
    assert [each.value.get("name") for each in bulk.poll()] == ["ADA", None, "BO"]
    assert len(bulk.poll()) == 3
    records = source(
        db,
        mode="timestamp+incrementing",
        query=query,
        timestamp_column_name="changed",
        incrementing_column_name="id",
        batch_max_rows="2",
    ).poll()
    assert ids(records) == [1, 2]
    assert records[0].topic == "db-"
    assert records[0].source_partition == {"query": "query"}
    assert records[1].source_offset == {
        "incrementing": 2, "timestamp": 1704103200123, "timestamp_nanos": 123_456_000
    }  # fmt: skip


def test_column_that_is_added_is_taken_up(db: PostgresServer):
    db.run("CREATE TABLE p (id int primary key)", "INSERT INTO p VALUES (1)")
    task = source(db, mode="incrementing", incrementing_column_name="id")
    assert task.poll()[0].value.values == [1]
    db.run("ALTER TABLE p ADD COLUMN x text", "INSERT INTO p VALUES (2, 'new')")
    assert task.poll()[0].value.values == [2, "new"]


def test_column_of_the_mode_that_may_be_null_is_refused(db: PostgresServer):
    db.run("CREATE TABLE p (id int, at timestamp)", "INSERT INTO p VALUES (NULL, now()), (7, NULL)")
    for props in (
        {"mode": "incrementing", "incrementing_column_name": "id"},
        {"mode": "timestamp", "timestamp_column_name": "at"},
    ):
        with pytest.raises(ConnectError, match=r"column of public\.p may be NULL"):
            source(db, **props)
    task = source(db, mode="incrementing", incrementing_column_name="id", validate_non_null="false")
    assert ids(task.poll()) == [7]


def test_tables_are_selected_by_lists_types_and_schema(db: PostgresServer):
    db.run(
        "CREATE TABLE a (id int)", "CREATE TABLE b (id int)", "CREATE VIEW v AS SELECT 1 AS id",
        "CREATE SCHEMA other", "CREATE TABLE other.c (id int)",
    )  # fmt: skip
    bulk = {"mode": "bulk"}

    def names(**props: str) -> list[str]:
        given = {name.replace("_", "."): value for name, value in props.items()}
        found = configs(db, {**bulk, **given}, tasks=9)
        return sorted(each["tables"] for each in found)

    a, b, c = '[["public", "a"]]', '[["public", "b"]]', '[["other", "c"]]'
    assert names() == [c, a, b]
    assert names(table_blacklist="a,other.c") == [b]
    assert names(table_whitelist='public.a,"other"."c"') == [c, a]
    assert names(schema_pattern="oth%") == [c]
    assert names(table_types="VIEW") == ['[["public", "v"]]']
    for props, message in (
        ({"table_whitelist": "a,nothing"}, "table.whitelist=nothing"),
        ({"table_whitelist": "v"}, "table.whitelist=v"),
        ({"table_whitelist": "a", "table_blacklist": "b"}, "not both"),
        ({"table_types": "SYNONYM"}, "table.types=SYNONYM"),
        ({"query": "SELECT 1", "table_whitelist": "a"}, "not both"),
    ):
        with pytest.raises(ConnectError, match=message):
            names(**props)
    db.run("CREATE TABLE other.a (id int)")
    with pytest.raises(ConnectError, match=r"other\.a and public\.a would have one topic"):
        names()


def test_value_that_connect_lacks_is_refused_with_its_column(db: PostgresServer):
    db.run("CREATE TABLE p (n numeric(4,2))", "INSERT INTO p VALUES ('NaN')")
    with pytest.raises(DataError, match="column n: NaN"):
        source(db, mode="bulk").poll()
    db.run("ALTER TABLE p ADD COLUMN d date", "DELETE FROM p")
    db.run("INSERT INTO p (d) VALUES ('infinity')")
    with pytest.raises(DataError, match="date too large"):
        source(db, mode="bulk").poll()


def test_sink_modes_insert_upsert_update_and_delete(db: PostgresServer):
    task = sink(db, **{name.replace(".", "_"): value for name, value in UPSERT.items()})
    assert write(task, [record(0, 1, "a"), record(1, 2, None), record(2, 1, "b")], {}) == "1"
    assert db.run("SELECT * FROM t ORDER BY id") == [(1, "b"), (2, None)]
    update = sink(db, name="u", insert_mode="update", pk_mode="record_value", pk_fields="id")
    write(update, [record(0, 2, "set"), record(1, 3, "absent")], {})
    assert db.run("SELECT * FROM t ORDER BY id") == [(1, "b"), (2, "set")]
    delete = sink(db, name="d", pk_mode="record_key", pk_fields="id", delete_enabled="true")
    key = (KEY, s.Struct.of(KEY, {"id": 1}))
    other = s.struct_schema([("name", s.STRING)])
    added = sunk(other, s.Struct.of(other, {"name": "c"}), 1, (s.INT64, 3))
    write(delete, [sunk(None, None, 0, key), added], {})
    assert db.run("SELECT * FROM t ORDER BY id") == [(2, "set"), (3, "c")]


def test_sink_key_of_kafka_is_the_place_of_the_record(db: PostgresServer):
    write(sink(db, pk_mode="kafka", insert_mode="upsert"), [record(5, 1, "a")], {})
    assert db.run("SELECT * FROM t") == [("t", 0, 5, 1, "a")]


def test_sink_writes_the_table_of_its_format_and_evolves_it(db: PostgresServer):
    db.run("CREATE SCHEMA other")
    wider = s.struct_schema([("id", s.INT64), ("name", s.OPTIONAL_STRING), ("x%", s.OPTIONAL_INT8)])
    task = sink(db, table_name_format="other.k_${topic}", auto_evolve="true")
    write(task, [record(0, 1, "a"), record(1, 2, "b", wider)], {})
    assert db.run("SELECT * FROM other.k_t ORDER BY id") == [(1, "a", None), (2, "b", None)]
    with pytest.raises(ConnectError, match="is not the name of a table"):
        write(sink(db, name="n", table_name_format="a.b.${topic}"), [record(0, 1, "a")], {})


def test_sink_batch_that_kafka_did_not_commit_is_not_written_twice(db: PostgresServer):
    """Also the first one, for which Kafka has no position at all."""
    first = sink(db)
    first.open({})
    first.put([record(0, 1, "a"), record(1, 1, "a")])
    first.flush({("t", 0): 2})
    first.stop()
    again = sink(db)
    again.open({})
    again.put([record(0, 1, "a"), record(1, 1, "a"), record(2, 2, "b")])
    assert again.flush({("t", 0): 3}) == "2"
    assert db.run("SELECT count(*) FROM t") == [(3,)]


def test_sink_follows_offsets_that_a_user_has_reset(db: PostgresServer):
    """After a single batch, and when the first batch after the reset was not committed in Kafka."""
    write(sink(db), [record(0, 1, "a")], {})
    again = sink(db)
    again.open({})
    again.put([record(0, 1, "a")])
    again.flush({("t", 0): 1})
    again.stop()
    assert db.run("SELECT count(*) FROM t") == [(2,)]
    write(sink(db), [record(0, 1, "a"), record(1, 2, "b")], {})
    assert db.run("SELECT count(*) FROM t") == [(3,)]


def test_sink_task_that_was_replaced_within_a_batch_rolls_back(db: PostgresServer):
    write(sink(db), [record(0, 1, "a")], {})
    suspended, successor = sink(db), sink(db)
    suspended.open(position(1, "1"))
    suspended.put([record(1, 2, "b")])
    assert write(successor, [record(1, 2, "b"), record(2, 3, "c")], position(1, "1")) == "2"
    with pytest.raises(RetriableError, match="another task of job has written t-0"):
        suspended.flush({("t", 0): 2})
    suspended.close(is_committed=False)
    assert db.run("SELECT id FROM t ORDER BY id") == [(1,), (2,), (3,)]


def test_sink_tasks_create_and_evolve_a_table_at_the_same_time(db: PostgresServer):
    wider = s.struct_schema([("id", s.INT64), ("name", s.OPTIONAL_STRING), ("x", s.OPTIONAL_INT8)])
    failures: list[Exception] = []
    ready = threading.Barrier(4)

    def run(number: int) -> None:
        task = sink(db, name=f"job-{number}", auto_evolve="true")
        rows = [record(0, number, "a", ROW if number % 2 else wider)]
        ready.wait(60)
        attempts = 0
        while True:
            try:
                write(task, rows, {})
            except RetriableError as error:  # a deadlock is resolved by a new attempt
                attempts += 1
                if attempts > 5:
                    failures.append(error)
                    return
                task.close(is_committed=False)
            except Exception as error:
                failures.append(error)
                return
            else:
                return

    threads = [threading.Thread(target=run, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)
    assert not failures
    assert db.run("SELECT id FROM t ORDER BY id") == [(0,), (1,), (2,), (3,)]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"id": 1, "name": "a\0b"}, "no character 0"),
        ({"id": 1 << 40, "name": "a"}, "integer out of range"),
        ({"id": 7, "name": "again"}, "duplicate key"),
    ],
)
def test_sink_row_that_the_table_never_accepts_is_a_permanent_failure(
    db: PostgresServer, value: dict[str, Any], message: str
):
    db.run("CREATE TABLE t (id int primary key, name text)", "INSERT INTO t VALUES (7, 'x')")
    task = sink(db)
    task.open({})
    with pytest.raises(DataError, match=message):
        task.put([sunk(ROW, s.Struct.of(ROW, value), 0)])


def test_lost_connection_is_a_failure_that_may_pass(db: PostgresServer):
    db.run(*PEOPLE)
    task, writer = source(db, mode="bulk", poll_interval_ms="0"), sink(db)
    task.poll()
    writer.open({})
    db.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
    for call in (task.poll, lambda: writer.put([record(0, 1, "a")])):
        with pytest.raises(RetriableError):
            call()
    writer.close(is_committed=False)
    assert len(source(db, mode="bulk").poll()) == 3


@pytest.mark.parametrize(
    ("props", "message"),
    [
        ({"connection.password": "wrong"}, "password authentication failed"),
        ({"connection.url": "jdbc:postgresql://127.0.0.1:1/x"}, "Connection refused"),
        ({"connection.url": "jdbc:postgresql://h/x?loadBalanceHosts=true"}, "loadBalanceHosts"),
        ({"connection.url": "jdbc:mysql://h/x"}, "this database is not supported"),
        ({"connection.url": "jdbc:postgresql://me:secret@h/x"}, "set connection.user"),
    ],
)
def test_connection_that_fails_says_why_and_hides_the_password(
    db: PostgresServer, props: dict[str, str], message: str
):
    with pytest.raises(ConnectError, match=message) as raised:
        configs(db, {"mode": "bulk", **props})
    assert "secret" not in str(raised.value)


def test_schema_and_user_of_the_address_are_used(db: PostgresServer):
    db.run("CREATE SCHEMA other", "CREATE TABLE other.t (id bigint, name text)")
    url = f"{db.jdbc_url}?user={db.user}&currentSchema=other&sslmode=prefer"
    props = {"connection.url": url, "connection.user": "", "name": "job"}
    task = JdbcSinkTask()
    OPEN.append(task)
    given = {**db.properties, **props}
    del given["connection.user"]
    task.start(given)
    write(task, [record(0, 1, "a")], {})
    assert db.run("SELECT * FROM other.t") == [(1, "a")]


def test_task_that_is_stopped_within_a_query_leaves_no_transaction(db: PostgresServer):
    db.run(*PEOPLE)
    task = source(db, mode="bulk", batch_max_rows="1")
    task.poll()
    task.stop()
    open_count = "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction'"
    deadline = time.monotonic() + 60
    while db.run(open_count) != [(0,)]:
        assert time.monotonic() < deadline
        time.sleep(0.05)

"""The JDBC connectors' tasks on PostgreSQL: its types, schemas and errors."""

import time
from collections.abc import Iterator
from datetime import UTC, date, datetime
from datetime import time as time_of_day
from decimal import Decimal
from typing import Any

import pytest

from barnabas.pipeline.connect.connectors.jdbc_sink import JdbcSinkTask
from barnabas.pipeline.data import connect_schema as s
from barnabas.pipeline.data.connect_errors import ConnectError, DataError
from barnabas.pipeline.data.java_values import EpochMillis, Float32
from compat_tests import postgres
from compat_tests.pipeline.jdbc_tasks import (
    OPEN,
    ROW,
    configs,
    converted,
    record,
    sink,
    source,
    stop_all,
    sunk,
    write,
)
from compat_tests.postgres import PostgresServer

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.barnabas_only,
    postgres.needed,
]


@pytest.fixture
def db(database: PostgresServer) -> Iterator[PostgresServer]:
    """The server without tables."""
    database.clear()
    yield database
    stop_all()


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
    write(sink(db, pk_mode="record_value", pk_fields="id"), converted([full, empty]), {})
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


def test_numeric_without_scale_is_refused_or_read_as_double(db: PostgresServer):
    db.run("CREATE TABLE n (a numeric)", "INSERT INTO n VALUES (1.5)")
    with pytest.raises(ConnectError, match="column a is numeric without a scale"):
        source(db, mode="bulk").poll()
    (found,) = source(db, mode="bulk", numeric_mapping="best_fit").poll()
    assert found.value.values == [1.5]


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
    with pytest.raises(DataError, match="column n: Connect cannot represent the decimal NaN"):
        source(db, mode="bulk").poll()
    db.run("ALTER TABLE p ADD COLUMN d date", "DELETE FROM p")
    db.run("INSERT INTO p (d) VALUES ('infinity')")
    with pytest.raises(DataError, match="date too large"):
        source(db, mode="bulk").poll()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"id": 1, "name": "a\0b"}, "cannot store the character U"),
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


@pytest.mark.parametrize(
    ("props", "message"),
    [
        ({"connection.password": "wrong"}, "password authentication failed"),
        ({"connection.url": "jdbc:postgresql://127.0.0.1:1/x"}, "Connection refused"),
        ({"connection.url": "jdbc:postgresql://h/x?loadBalanceHosts=true"}, "loadBalanceHosts"),
        ({"connection.url": "jdbc:oracle://h/x"}, "this database is not supported"),
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


@pytest.mark.parametrize("props", [{}, {"query": "SELECT * FROM p WHERE id > 0"}])
def test_column_that_is_added_changed_or_dropped_is_in_the_next_query(
    db: PostgresServer, props: dict[str, str]
):
    db.run("CREATE TABLE p (id int, x int)", "INSERT INTO p VALUES (1, 2)")
    task = source(db, mode="bulk", **props)

    def values() -> list[tuple[Any, ...]]:
        """Query more often than a driver does before it prepares the statement."""
        for _ in range(12):
            (found,) = task.poll()
        return [(field.name, found.value.get(field.name)) for field in found.value_schema.fields]

    assert values() == [("id", 1), ("x", 2)]
    db.run("ALTER TABLE p ADD COLUMN name text DEFAULT 'a'")
    assert values() == [("id", 1), ("x", 2), ("name", "a")]
    db.run("ALTER TABLE p ALTER COLUMN x TYPE text")
    assert values() == [("id", 1), ("x", "2"), ("name", "a")]
    db.run("ALTER TABLE p DROP COLUMN name")
    assert values() == [("id", 1), ("x", "2")]


def test_task_that_is_stopped_within_a_query_leaves_no_transaction(db: PostgresServer):
    db.run("CREATE TABLE p (id int)", "INSERT INTO p VALUES (1), (2), (3)")
    task = source(db, mode="bulk", batch_max_rows="1")
    task.poll()
    task.stop()
    open_count = "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction'"
    deadline = time.monotonic() + 240
    while db.run(open_count) != [(0,)]:
        assert time.monotonic() < deadline
        time.sleep(0.05)

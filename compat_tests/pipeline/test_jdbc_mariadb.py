"""The JDBC connectors' tasks on MariaDB: its types, definitions that commit, TLS, errors."""

import struct
import threading
import time
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import trustme

from barnabas.pipeline.connect.connectors.jdbc_sink import JdbcSinkTask
from barnabas.pipeline.data import connect_schema as s
from barnabas.pipeline.data.connect_errors import ConnectError, DataError, RetriableError
from barnabas.pipeline.data.java_values import EpochMillis, Float32
from compat_tests import mariadb
from compat_tests.mariadb import MariadbServer
from compat_tests.pipeline.jdbc_tasks import (
    ROW,
    UPSERT,
    WIDER,
    configs,
    converted,
    ids,
    position,
    record,
    sink,
    source,
    stop_all,
    sunk,
    write,
)

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.barnabas_only,
    mariadb.needed,
]

BYTES_KEY = s.struct_schema([("id", s.BYTES), ("name", s.OPTIONAL_STRING)])
TEXT_KEY = s.struct_schema([("id", s.STRING), ("name", s.OPTIONAL_STRING)])


@pytest.fixture
def db(maria: MariadbServer) -> Iterator[MariadbServer]:
    """The server without tables."""
    maria.clear()
    yield maria
    stop_all()


TYPES = (
    ("i1", "tinyint", -128, -128, "tinyint(4)"),
    ("u1", "tinyint unsigned", 255, 255, "smallint(6)"),
    ("flag", "boolean", True, 1, "tinyint(4)"),
    ("i2", "smallint", -32768, -32768, "smallint(6)"),
    ("u2", "smallint unsigned", 65535, 65535, "int(11)"),
    ("i3", "mediumint", -8388608, -8388608, "int(11)"),
    ("u3", "mediumint unsigned", 16777215, 16777215, "bigint(20)"),
    ("i4", "int", -2147483648, -2147483648, "int(11)"),
    ("u4", "int unsigned", 4294967295, 4294967295, "bigint(20)"),
    ("i8", "bigint", -(1 << 63), -(1 << 63), "bigint(20)"),
    ("u8", "bigint unsigned", (1 << 63) - 1, (1 << 63) - 1, "bigint(20)"),
    ("bit_one", "bit", 1, 1, "tinyint(4)"),
    ("bits", "bit(12)", 0xABC, b"\x0a\xbc", "longblob"),
    ("f4", "float", 0.1, Float32(0.1), "float"),
    ("f4_whole", "float", 16777217.0, Float32(16777216.0), "float"),
    ("f8", "double", 0.1, 0.1, "double"),
    ("n", "decimal(30,2)", Decimal("-12345678901234567890.10"), Decimal("-12345678901234567890.10"),
     "decimal(65,2)"),
    ("n0", "decimal(5)", Decimal(12345), Decimal(12345), "decimal(65,0)"),
    ("t", "text character set utf8mb4", "Škoda % ? \\ ' \" \n 🚲", "Škoda % ? \\ ' \" \n 🚲",
     "longtext"),
    ("vc", "varchar(10)", "x ", "x ", "longtext"),
    ("e", "enum('small','large')", "large", "large", "longtext"),
    ("sets", "set('a','b')", "a,b", "a,b", "longtext"),
    ("j", "json", '{"a": 1}', '{"a": 1}', "longtext"),
    ("bl", "blob", b"\x00\xff'\\", b"\x00\xff'\\", "longblob"),
    ("vb", "varbinary(3)", b"\x00\xff", b"\x00\xff", "longblob"),
    ("u", "uuid", "8a0e1a08-3b5f-4d9e-9d0c-0d6a5f3f3c11", "8a0e1a08-3b5f-4d9e-9d0c-0d6a5f3f3c11",
     "longtext"),
    ("addr", "inet6", "::1", "::1", "longtext"),
    ("d", "date", date(1969, 12, 31), EpochMillis(-86_400_000), "date"),
    ("y", "year", 1969, EpochMillis(-365 * 86_400_000), "date"),
    ("ti", "time(6)", timedelta(hours=23, minutes=59, seconds=59, microseconds=999_999),
     EpochMillis(86_399_999), "time(3)"),
    ("dt", "datetime(6)", datetime(2024, 2, 29, 1, 2, 3, 4567), EpochMillis(1709168523004),
     "datetime(3)"),
    ("ts", "timestamp(6) NULL", datetime(2024, 2, 29, 1, 2, 3, 4567), EpochMillis(1709168523004),
     "datetime(3)"),
)  # fmt: skip
"""Columns, values as the driver takes them, values of Connect, and types that a sink creates.

The widths of numbers are MariaDB's defaults.
"""


def create_types(db: MariadbServer) -> None:
    columns = ", ".join(f"`{name}` {kind}" for name, kind, *_ in TYPES)
    marks = ", ".join("%s" for _ in TYPES)
    db.run(f"CREATE TABLE kinds (id int primary key, {columns})")
    values = [value for _, _, value, _, _ in TYPES]
    db.run(f"INSERT INTO kinds VALUES (1, {marks})", parameters=values)
    db.run("INSERT INTO kinds (id) VALUES (2)")


def test_type_of_every_kind_is_read_and_written_back(db: MariadbServer):
    create_types(db)
    full, empty = source(db, mode="bulk").poll()
    for name, _, _, expected, _ in TYPES:
        assert full.value.get(name) == expected, name
        assert type(full.value.get(name)) is type(expected), name
        assert empty.value.get(name) is None
    write(sink(db, pk_mode="record_value", pk_fields="id"), converted([full, empty]), {})
    again = [each.value for each in source(db, mode="bulk", table_whitelist="t").poll()]
    declared = dict(
        db.run(
            "SELECT column_name, column_type FROM information_schema.columns "
            "WHERE table_schema = 'shop' AND table_name = 't'"
        )
    )
    for name, _, _, expected, created in TYPES:
        assert declared[name] == created, name
        assert again[0].get(name) == expected, name
        assert again[1].get(name) is None


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        ("bigint unsigned", 1 << 63, "column v: 9223372036854775808 is greater than INT64"),
        ("datetime", "0000-00-00 00:00:00", "column v: 0000-00-00 00:00:00 is not a day"),
        ("date", "0000-00-00", "column v: 0000-00-00 is not a day"),
        ("year", 0, "column v: 0000 is not a day"),
        ("time", "-00:00:01", "column v: -1 day, 23:59:59 is not a time of a day"),
        ("time", "24:00:00", "column v: 1 day, 0:00:00 is not a time of a day"),
    ],
)
def test_value_that_connect_lacks_is_refused_and_a_query_reads_it(
    db: MariadbServer, kind: str, value: Any, message: str
):
    db.run(f"CREATE TABLE p (v {kind} NOT NULL)")
    db.run("INSERT INTO p VALUES (%s)", parameters=[value])
    with pytest.raises(DataError, match=message) as raised:
        source(db, mode="bulk").poll()
    remedy = str(raised.value).rpartition(" with ")[2].replace("column", "v")
    (found,) = source(db, mode="bulk", query=f"SELECT {remedy} AS v FROM p").poll()
    read = found.value.get("v")
    assert read in (None, Decimal(1 << 63), "-00:00:01", "24:00:00")


def test_value_of_a_spatial_type_is_read_as_its_bytes(db: MariadbServer):
    db.run("CREATE TABLE g (p point)", "INSERT INTO g VALUES (POINT(1, 2))")
    (found,) = source(db, mode="bulk").poll()
    assert struct.unpack("<IBIdd", found.value.get("p")) == (0, 1, 1, 1.0, 2.0)


def test_row_of_a_day_that_no_calendar_has_is_not_read_by_its_timestamp(db: MariadbServer):
    db.run("CREATE TABLE p (at datetime NOT NULL)", "INSERT INTO p VALUES (0)")
    with pytest.raises(DataError, match="is not a day of a calendar"):
        source(db, mode="timestamp", timestamp_column_name="at").poll()


def test_tables_are_selected_by_lists_types_and_schema(db: MariadbServer):
    db.run(
        "CREATE TABLE a (id int)", "CREATE TABLE b (id int) WITH SYSTEM VERSIONING",
        "CREATE VIEW v AS SELECT 1 AS id", "CREATE DATABASE other", "CREATE TABLE other.c (id int)",
    )  # fmt: skip

    def names(**props: str) -> list[str]:
        given = {name.replace("_", "."): value for name, value in props.items()}
        return sorted(each["tables"] for each in configs(db, {"mode": "bulk", **given}, tasks=9))

    a, b, c = '[["shop", "a"]]', '[["shop", "b"]]', '[["other", "c"]]'
    assert names() == [a, b]
    assert names(table_blacklist="a") == [b]
    assert names(table_whitelist="`shop`.`a`,b") == [a, b]
    assert names(schema_pattern="oth%") == [c]
    assert names(schema_pattern="%") == [c, a, b]
    assert names(table_types="VIEW") == ['[["shop", "v"]]']
    with pytest.raises(ConnectError, match=r"table\.types=SYNONYM: known types: TABLE, VIEW"):
        names(table_types="SYNONYM")


def test_sink_writes_a_batch_once_that_ended_between_a_definition_and_its_commit(
    db: MariadbServer,
):
    """Also the first batch of a partition, for which Kafka has no position at all."""
    rows = [record(0, 1, "a"), record(1, 2, "b"), record(2, 3, "c", WIDER), record(3, 4, "d")]
    task = sink(db, auto_evolve="true")
    task.open({})
    task.put(rows[:1])
    task.put(rows[1:])
    task.stop()
    assert db.run("SELECT id FROM t ORDER BY id") == [(1,), (2,)]
    again = sink(db, auto_evolve="true")
    assert write(again, rows, {}) == "2"
    assert db.run("SELECT id FROM t ORDER BY id") == [(1,), (2,), (3,), (4,)]


def test_sink_task_that_was_replaced_before_a_definition_rolls_back(db: MariadbServer):
    write(sink(db), [record(0, 1, "a")], {})
    suspended, successor = sink(db, auto_evolve="true"), sink(db)
    suspended.open(position(1, "1"))
    suspended.put([record(1, 2, "b")])
    write(successor, [record(1, 2, "b")], position(1, "1"))
    with pytest.raises(RetriableError, match="another task of job has written t-0"):
        suspended.put([record(2, 3, "c", WIDER)])
    suspended.close(is_committed=False)
    assert db.run("SELECT id FROM t ORDER BY id") == [(1,), (2,)]


def test_sink_key_is_compared_with_case_accents_and_spaces(db: MariadbServer):
    keys = ["a", "A", "á", "a ", "ß", "ss", "🚲", "x" * 256]
    rows = [text_row(offset, key) for offset, key in enumerate(keys)]
    for job in ("job", "JOB", "job "):
        write(sink(db, name=job, **UPSERT), rows, {})
    assert sorted(key for (key,) in db.run("SELECT id FROM t")) == sorted(keys)
    assert db.run("SELECT COUNT(*) FROM barnabas_offsets") == [(3,)]


def text_row(offset: int, key: str) -> Any:
    return sunk(TEXT_KEY, s.Struct.of(TEXT_KEY, {"id": key, "name": "n"}), offset)


def test_sink_key_of_bytes_is_a_key(db: MariadbServer):
    row = s.Struct.of(BYTES_KEY, {"id": b"\0k", "name": "n"})
    write(sink(db, **UPSERT), [sunk(BYTES_KEY, row, 0), sunk(BYTES_KEY, row, 1)], {})
    assert db.run("SELECT * FROM t") == [(b"\0k", "n")]


def test_sink_value_of_zero_and_a_name_with_marks_are_kept(db: MariadbServer):
    """A zero does not request a number; a name does not change the statement."""
    named = s.struct_schema([("id", s.INT64), ("a`%s VALUES (%s)", s.OPTIONAL_STRING)])
    db.run("CREATE TABLE t (id bigint auto_increment primary key) ENGINE=InnoDB")
    rows = [sunk(named, s.Struct(named, [n, "%s"]), n) for n in range(3)]
    write(sink(db, auto_evolve="true", **UPSERT), rows, {})
    assert db.run("SELECT * FROM t ORDER BY id") == [(0, "%s"), (1, "%s"), (2, "%s")]


def test_sink_rows_of_many_messages_are_written_in_order(db: MariadbServer):
    long = "ä" * 1_000
    rows = [record(offset, offset % 1_000, f"{offset} {long}") for offset in range(3_000)]
    write(sink(db, **UPSERT), rows, {})
    assert db.run("SELECT COUNT(*), MIN(CAST(name AS INT)) FROM t") == [(1_000, 2_000)]


def test_sink_row_that_is_larger_than_a_packet_is_a_permanent_failure(db: MariadbServer):
    db.run("SET GLOBAL max_allowed_packet = 1048576")
    try:
        task = sink(db)
        task.open({})
        with pytest.raises(DataError, match="raise its max_allowed_packet=1048576"):
            task.put([record(0, 1, "x" * (1 << 20))])
        task.close(is_committed=False)
        write(task, [record(0, 1, "x" * ((1 << 20) - 200))], {})
    finally:
        db.run("SET GLOBAL max_allowed_packet = 16777216")


def test_sink_refuses_a_table_without_transactions(db: MariadbServer):
    db.run("CREATE TABLE t (id bigint, name text) ENGINE=MyISAM")
    task = sink(db)
    task.open({})
    with pytest.raises(ConnectError, match="has the engine MyISAM, which has no transactions"):
        task.put([record(0, 1, "a")])


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"id": 1 << 40, "name": "a"}, "Out of range value for column 'id'"),
        ({"id": 7, "name": "again"}, "Duplicate entry '7'"),
        ({"id": 1, "name": "too long"}, "Data too long for column 'name'"),
        ({"id": 1, "name": None}, "Column 'name' cannot be null"),
        ({"id": -1, "name": "a"}, r"CONSTRAINT .* failed"),
        ({"id": 1, "name": "\ud800"}, "is not a valid Unicode string"),
    ],
)
def test_sink_row_that_the_table_never_accepts_is_a_permanent_failure(
    db: MariadbServer, value: dict[str, Any], message: str
):
    db.run(
        "CREATE TABLE t (id int primary key CHECK (id >= 0), name varchar(5) NOT NULL) "
        "ENGINE=InnoDB",
        "INSERT INTO t VALUES (7, 'x')",
    )
    task = sink(db)
    task.open({})
    with pytest.raises(DataError, match=message):
        task.put([sunk(ROW, s.Struct.of(ROW, value), 0)])


def two_writers(db: MariadbServer) -> tuple[JdbcSinkTask, JdbcSinkTask]:
    """Return two tasks within batches: one has written the row 1, the other the row 2."""
    write(sink(db, **UPSERT), [record(0, 1, "a"), record(1, 2, "b")], {})
    one, other = sink(db, name="one", **UPSERT), sink(db, name="other", **UPSERT)
    for number, task in enumerate((one, other), 1):
        task.open({})
        task.put([record(0, number, "changed")])
    return one, other


def test_sink_wait_for_a_lock_that_ends_is_a_failure_that_may_pass(db: MariadbServer):
    one, other = two_writers(db)
    one._connected().execute("SET SESSION innodb_lock_wait_timeout = 1")
    with pytest.raises(RetriableError, match="Lock wait timeout"):
        one.put([record(1, 2, "of both")])
    for task in (one, other):
        task.close(is_committed=False)
    assert db.run("SELECT name FROM t ORDER BY id") == [("a",), ("b",)]


def test_sink_deadlock_is_a_failure_that_may_pass(db: MariadbServer):
    """Each task waits for the row of the other, until the server ends one of the two."""
    failures: list[Exception] = []

    def run(task: JdbcSinkTask, number: int) -> None:
        try:
            task.put([record(1, number, "of both")])
        except Exception as error:
            failures.append(error)

    writers = two_writers(db)
    threads = [threading.Thread(target=run, args=[writers[n], 2 - n]) for n in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)
    (failure,) = failures
    assert isinstance(failure, RetriableError)
    assert "Deadlock found" in str(failure)


@pytest.mark.parametrize(
    ("props", "message"),
    [
        ({"connection.password": "wrong"}, "Access denied for user"),
        ({"connection.url": "jdbc:mysql://127.0.0.1:1/x"}, "Can't connect to MySQL server"),
        ({"connection.url": "jdbc:mariadb://h,h2:1/x"}, "must be one host"),
        ({"connection.url": "jdbc:mariadb://h/x?useSSL=true"}, "the parameter useSSL"),
        ({"connection.url": "jdbc:mariadb://me:secret@h/x"}, "set connection.user"),
    ],
)
def test_connection_that_fails_says_why_and_hides_the_password(
    db: MariadbServer, props: dict[str, str], message: str
):
    with pytest.raises(ConnectError, match=message) as raised:
        configs(db, {"mode": "bulk", **props})
    assert "secret" not in str(raised.value)


def test_task_that_is_stopped_within_a_query_leaves_no_connection(db: MariadbServer):
    query = "SELECT seq AS id FROM seq_1_to_10000000000"
    task = source(db, mode="bulk", batch_max_rows="1", query=query)
    assert ids(task.poll()) == [1]
    task.stop()
    deadline = time.monotonic() + 240
    while db.connections():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_session_ends_when_a_batch_is_suspended_and_stays_between_batches(db: MariadbServer):
    task = sink(db)
    limits: list[int] = []
    for step in (lambda: task.open({}), lambda: task.close(is_committed=False)):
        step()
        limits.append(task._connected().fetch("SELECT @@wait_timeout")[0][0])
    assert limits == [120, 31_536_000]


class SecureServer(MariadbServer):
    """A server with a certificate, which another authority than the system's has signed."""

    def __init__(self) -> None:
        super().__init__()
        authority = trustme.CA()
        certificate = authority.issue_cert("127.0.0.1")
        self.authority = self.directory / "ca.pem"
        self.chain, self.key = self.directory / "chain.pem", self.directory / "key.pem"
        authority.cert_pem.write_to_path(self.authority)
        certificate.cert_chain_pems[0].write_to_path(self.chain)
        certificate.private_key_pem.write_to_path(self.key)
        for path in (self.authority, self.chain, self.key):
            path.chmod(0o644)

    def command(self) -> list[str]:
        return [*super().command(), f"--ssl-cert={self.chain}", f"--ssl-key={self.key}"]


def test_connection_is_encrypted_as_the_address_says(tmp_path: Path):
    server = SecureServer()
    other = tmp_path / "other.pem"
    trustme.CA().cert_pem.write_to_path(other)
    try:
        server.start()
        server.run("CREATE TABLE a (id int)")

        def encryption(parameters: str) -> str:
            url = f"{server.jdbc_url}?{parameters}"
            query = "SELECT variable_value AS v FROM information_schema.session_status WHERE "
            query += "variable_name = 'ssl_cipher'"
            task = source(server, mode="bulk", connection_url=url, query=query)
            return task.poll()[0].value.get("v")

        assert encryption("sslMode=DISABLED") == ""
        verified = f"serverSslCert={server.authority}"
        for parameters in ("", "sslMode=trust", f"sslMode=VERIFY_IDENTITY&{verified}"):
            assert encryption(parameters).startswith("TLS_")
        for parameters in ("sslMode=verify-full", f"sslMode=verify-ca&serverSslCert={other}"):
            with pytest.raises(ConnectError, match="certificate verify failed"):
                encryption(parameters)
    finally:
        stop_all()
        server.close()

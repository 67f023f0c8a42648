"""Oracle and SQL Server: addresses, statements and types, as far as they need no server."""

import sys
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import types as t
from sqlalchemy.dialects import mssql, oracle

from barnabas.pipeline.connect.connectors import reflected_database, reflected_types
from barnabas.pipeline.connect.connectors.database_access import (
    DatabaseSettings,
    NumericMapping,
    TableName,
    connect,
)
from barnabas.pipeline.connect.connectors.jdbc_rows import Cell, RowForm
from barnabas.pipeline.connect.connectors.jdbc_validation import sink_errors, source_errors
from barnabas.pipeline.connect.connectors.reflected_address import (
    ReflectedAddress,
    oracle_address,
    sqlserver_address,
)
from barnabas.pipeline.connect.connectors.sql_statements import SqlStatements
from barnabas.pipeline.data import connect_schema as s
from barnabas.pipeline.data.connect_errors import ConnectError
from barnabas.pipeline.data.java_values import EpochMillis

ORACLE = SqlStatements(
    oracle.dialect(), reflected_types.ORACLE_TYPES, reflected_database._no_upsert, is_quoted=False
)
SQLSERVER = SqlStatements(
    mssql.dialect(paramstyle="format"),
    reflected_types.SQLSERVER_TYPES,
    reflected_database._no_upsert,
)
FORM = RowForm(
    (Cell("id", s.INT64, lambda record: 1),), (Cell("full name", s.STRING, lambda record: ""),)
)
TABLE = TableName("shop", "people")


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (oracle_address("jdbc:oracle:thin:@//db:1522/ORCL"), ReflectedAddress("db", 1522, "ORCL")),
        (oracle_address("jdbc:oracle:thin:@db/s"), ReflectedAddress("db", 1521, "s")),
        (
            sqlserver_address("jdbc:sqlserver://db:1434;databaseName=shop a"),
            ReflectedAddress("db", 1434, "shop a"),
        ),
        (sqlserver_address("jdbc:sqlserver://db"), ReflectedAddress("db", 1433, None)),
    ],
)  # fmt: skip
def test_reflected_address_has_host_port_and_database(
    found: ReflectedAddress, expected: ReflectedAddress
):
    assert found == expected


@pytest.mark.parametrize(
    ("url", "form"),
    [
        ("jdbc:oracle:thin:@db:1521:SID", "jdbc:oracle:thin:@//host:1521/service"),
        ("jdbc:oracle:thin:me/secret@db/s", "this database is not supported"),
        ("jdbc:sqlserver://db;password=secret", "jdbc:sqlserver://host:1433;databaseName=database"),
    ],
)
def test_reflected_address_of_another_form_is_refused_without_its_password(url: str, form: str):
    ((name, message),) = source_errors({"connection.url": url})
    assert name == "connection.url"
    assert form in message
    if "sqlserver" in url:
        assert "secret" not in message


@pytest.mark.parametrize("url", ["jdbc:oracle:thin:@//h/s", "jdbc:sqlserver://h"])
def test_reflected_database_refuses_what_it_lacks_at_its_property(url: str):
    sink = {"connection.url": url, "insert.mode": "upsert", "pk.mode": "record_key"}
    assert [name for name, _ in sink_errors(sink)] == ["insert.mode"]
    source = {"connection.url": url, "mode": "bulk", "query": "SELECT 1"}
    assert [name for name, _ in source_errors(source)] == ["query"]


@pytest.mark.parametrize(
    ("url", "driver", "message"),
    [
        ("jdbc:oracle:thin:@//h/s", "oracledb", r"of Oracle is missing .*barnabas\[oracle\]"),
        ("jdbc:sqlserver://h", "pymssql", r"of SQL Server is missing .*barnabas\[sqlserver\]"),
    ],
)
def test_reflected_driver_that_is_missing_is_named_with_its_remedy(
    monkeypatch: pytest.MonkeyPatch, url: str, driver: str, message: str
):
    monkeypatch.setitem(sys.modules, driver, None)
    with pytest.raises(ConnectError, match=message):
        connect(DatabaseSettings(url))


def test_oracle_statements_have_its_names_and_marks():
    assert ORACLE.writing("insert", TABLE, FORM) == (
        'INSERT INTO shop.people (id, "full name") VALUES (:id, :"full name")'
    )
    assert ORACLE.writing("update", TABLE, FORM) == (
        'UPDATE shop.people SET "full name"=:"full name" WHERE shop.people.id = :param_1'
    )
    place = ORACLE.place(TABLE, ("id", "n"))
    assert ORACLE.new_row(place, ["id"]) == "INSERT INTO shop.people (id, n) VALUES (:id, :n)"
    with pytest.raises(ConnectError, match=r"insert\.mode=upsert is not supported"):
        ORACLE.writing("upsert", TABLE, FORM)


def test_sqlserver_statements_have_its_names_and_marks():
    assert SQLSERVER.writing("insert", TABLE, FORM) == (
        "INSERT INTO [shop].[people] ([id], [full name]) VALUES (%s, %s)"
    )
    deletion = RowForm(FORM.keys, (), is_deletion=True)
    assert SQLSERVER.writing("insert", TABLE, deletion) == (
        "DELETE FROM [shop].[people] WHERE [shop].[people].[id] = %s"
    )
    assert SQLSERVER.addition(TABLE, "x", s.OPTIONAL_TIMESTAMP) == (
        "ALTER TABLE [shop].[people] ADD [x] DATETIME2(3) NULL"
    )


COLUMNS = {
    "id": s.STRING,
    "n": s.OPTIONAL_INT64,
    "f": s.OPTIONAL_FLOAT64,
    "b": s.OPTIONAL_BOOLEAN,
    "d": s.decimal_schema(2),
    "t": s.OPTIONAL_TIME,
    "x": s.OPTIONAL_BYTES,
}


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        (
            ORACLE,
            "id VARCHAR2(256 CHAR) NOT NULL, n NUMBER(19), f BINARY_DOUBLE, b SMALLINT, "
            "d NUMERIC(38, 2) NOT NULL, t INTEGER, x BLOB",
        ),
        (
            SQLSERVER,
            "[id] NVARCHAR(256) COLLATE Latin1_General_100_BIN2 NOT NULL, [n] BIGINT NULL, "
            "[f] DOUBLE PRECISION NULL, [b] BIT NULL, [d] NUMERIC(38, 2) NOT NULL, "
            "[t] TIME(3) NULL, [x] VARBINARY(max) NULL",
        ),
    ],
)
def test_reflected_table_is_created_with_types_of_its_database(
    statements: SqlStatements, expected: str
):
    text = statements.creation(TABLE, COLUMNS, {"id"})
    assert expected in " ".join(text.replace("\t", "").split())


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (mssql.TINYINT(), s.INT16),
        (t.BIGINT(), s.INT64),
        (mssql.BIT(), s.BOOLEAN),
        (t.REAL(), s.FLOAT32),
        (oracle.BINARY_DOUBLE(), s.FLOAT64),
        (oracle.NUMBER(9, 2), s.decimal_schema(2)),
        (oracle.DATE(), s.TIMESTAMP),
        (t.DATE(), s.DATE),
        (mssql.NVARCHAR(5), s.STRING),
        (oracle.CLOB(), s.STRING),
        (mssql.VARBINARY(5), s.BYTES),
        (mssql.UNIQUEIDENTIFIER(), None),
        (oracle.TIMESTAMP(timezone=True), None),
    ],
)
def test_reflected_type_has_its_schema(kind: Any, expected: s.Schema | None):
    found = reflected_types.reflected_schema("c", kind, NumericMapping.NONE, optional=False)
    assert found == expected


def test_reflected_number_without_a_scale_is_refused_or_a_double():
    with pytest.raises(ConnectError, match=r"column c is a number without a scale"):
        reflected_types.reflected_schema("c", oracle.NUMBER(), NumericMapping.NONE, optional=True)
    mapping = NumericMapping.BEST_FIT
    found = reflected_types.reflected_schema("c", oracle.NUMBER(), mapping, optional=True)
    assert found == s.OPTIONAL_FLOAT64


def test_reflected_values_are_those_of_the_driver_and_back():
    parameter = reflected_database._oracle_parameter
    assert [parameter(s.TIME, EpochMillis(5)), parameter(s.BOOLEAN, True)] == [5, 1]
    assert parameter(s.TIMESTAMP, EpochMillis(5)) == datetime(1970, 1, 1, 0, 0, 0, 5_000)
    assert reflected_database._connect_value(s.decimal_schema(0), 7) == Decimal(7)

"""Databases as the JDBC connectors see them: connections by JDBC address, tables, types.

Tasks run in Python processes without a JVM, so an address is opened by the Python driver of its
database. SQLite is the one that is supported: `jdbc:sqlite:/path`.
"""

import sqlite3
from collections.abc import Mapping
from typing import Any, Final

import attrs

from barnabas.pipeline.data import connect_schema as s
from barnabas.pipeline.data.connect_errors import ConnectError
from barnabas.pipeline.data.connect_schema import DECIMAL_NAME, Schema, Type

_PREFIX: Final = "jdbc:sqlite:"
_BUSY_WAIT_S: Final = 30.0


@attrs.frozen
class Column:
    """A column of a table, or of a query's result."""

    name: str
    schema: Schema


_TYPES: Final[Mapping[Type, str]] = {
    Type.INT8: "INTEGER",
    Type.INT16: "INTEGER",
    Type.INT32: "INTEGER",
    Type.INT64: "INTEGER",
    Type.FLOAT32: "REAL",
    Type.FLOAT64: "REAL",
    Type.BOOLEAN: "INTEGER",
    Type.STRING: "TEXT",
    Type.BYTES: "BLOB",
}


def connect(url: str) -> sqlite3.Connection:
    """Return an open connection without implicit transactions. Raises ConnectError."""
    if not url.startswith(_PREFIX):
        raise ConnectError(f"no driver for {url.partition('?')[0]}: use {_PREFIX}/path/of/file")
    path = url.removeprefix(_PREFIX).partition("?")[0]
    if not path:
        raise ConnectError(f"{url} must name a file: {_PREFIX}/path/of/file")
    try:
        return sqlite3.connect(path, timeout=_BUSY_WAIT_S, isolation_level=None)
    except sqlite3.Error as error:
        raise ConnectError(f"cannot open {url}: {error}") from error


def execute(
    connection: sqlite3.Connection, statement: str, parameters: tuple[Any, ...] = ()
) -> sqlite3.Cursor:
    """Run a statement. Raises ConnectError with the statement."""
    try:
        return connection.execute(statement, parameters)
    except sqlite3.Error as error:
        raise ConnectError(f"{error} in: {statement}") from error


def columns_of(connection: sqlite3.Connection, table: str) -> list[Column]:
    """Return the columns of a table; none when it does not exist."""
    rows = execute(connection, f"PRAGMA table_info({quoted(table)})").fetchall()
    return [
        Column(name, _schema_of(kind, is_optional=not (is_required or is_key)))
        for _, name, kind, is_required, _, is_key in rows
    ]


def tables_of(connection: sqlite3.Connection) -> list[str]:
    """Return the names of all tables."""
    rows = execute(
        connection,
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'",
    )
    return sorted(row[0] for row in rows.fetchall())


def type_name(schema: Schema) -> str:
    """Return the type of a column for a schema; decimals are texts. Raises ConnectError."""
    if schema.name == DECIMAL_NAME:
        return "TEXT"
    found = _TYPES.get(schema.type)
    if found is None:
        raise ConnectError(f"{schema} has no type of a column")
    return found


def _schema_of(declared: str, *, is_optional: bool) -> Schema:
    """Return the schema of a declared type, by SQLite's rules of affinity."""
    upper = declared.upper()
    if "INT" in upper:
        return s.OPTIONAL_INT64 if is_optional else s.INT64
    if "BLOB" in upper:
        return s.OPTIONAL_BYTES if is_optional else s.BYTES
    if any(part in upper for part in ("REAL", "FLOA", "DOUB", "NUM", "DEC")):
        return s.OPTIONAL_FLOAT64 if is_optional else s.FLOAT64
    return s.OPTIONAL_STRING if is_optional else s.STRING


def quoted(name: str) -> str:
    """Return an identifier in quotes."""
    return f'"{name.replace(chr(34), chr(34) * 2)}"'

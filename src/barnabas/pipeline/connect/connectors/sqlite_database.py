"""SQLite for the JDBC connectors: `jdbc:sqlite:/path/of/file`, by Python's own driver.

A column holds values of any type, so values are converted to the schema of the declared type.
Dates and times are texts, or numbers of milliseconds.
"""

import sqlite3
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import Any, Final

from barnabas.pipeline.connect.connectors.database_access import (
    Column,
    Moment,
    Parameters,
    TableName,
    first_value,
    in_quotes,
    listed,
    on_conflict,
)
from barnabas.pipeline.data import connect_schema as s
from barnabas.pipeline.data.connect_errors import ConnectError, DataError, RetriableError
from barnabas.pipeline.data.connect_schema import DECIMAL_NAME, Schema, Type
from barnabas.pipeline.data.date_format import DateFormat
from barnabas.pipeline.data.java_text import plain_text
from barnabas.pipeline.data.java_values import EpochMillis

_BUSY_WAIT_S: Final = 30.0
_NANOS_PER_MS: Final = 1_000_000
_TEXT_MOMENT: Final = DateFormat("yyyy-MM-dd HH:mm:ss.SSS")
# Another task has the lock, the disk is full or fails, a table has just been changed.
_PASSING: Final = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_INTERRUPT,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_SCHEMA,
    }
)
_PRIMARY_CODE: Final = 0xFF
_TYPES: Final = {
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
_INFERRED: Final[Mapping[type, Schema]] = {
    int: s.OPTIONAL_INT64,
    float: s.OPTIONAL_FLOAT64,
    str: s.OPTIONAL_STRING,
    bytes: s.OPTIONAL_BYTES,
}


class SqliteDatabase:
    """A connection to a file."""

    mark: str = "?"
    table_options: str = ""
    are_definitions_transactional: bool = True

    def __init__(self, path: str) -> None:
        with _errors(path):
            self._connection = sqlite3.connect(path, timeout=_BUSY_WAIT_S, isolation_level=None)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def tables(self, types: Sequence[str], schema_pattern: str | None) -> list[TableName]:
        """Return the tables of the given types; there are no schemas."""
        kinds = [each.lower() for each in types if each.upper() in ("TABLE", "VIEW")]
        rows = self.fetch(
            "SELECT name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' "
            f"AND type IN ({listed('?' for _ in kinds)})",
            kinds,
        )
        return sorted(TableName("", row[0]) for row in rows)

    def table(self, text: str) -> TableName:
        """Return the table of a name: a dot is a part of it."""
        return TableName("", text)

    def columns(self, table: TableName) -> list[Column]:
        """Return the columns of a table; none when it does not exist."""
        rows = self.fetch(f"PRAGMA table_info({self.reference(table)})")
        found: list[Column] = []
        for _, name, kind, has_value, _, is_key in rows:
            is_required = bool(has_value or is_key)
            schema = _declared(kind, is_optional=not is_required)
            found.append(Column(name, schema, self.quoted(name), is_required))
        return found

    def columns_of_query(self, query: str) -> list[Column]:
        """Return the columns of a query's result, with the types of its first row."""
        with _errors(query):
            cursor = self._connection.execute(f"SELECT * FROM ({query}) LIMIT 1")
            row = cursor.fetchone()
        names = [each[0] for each in cursor.description]
        values = row or [None] * len(names)
        return [
            Column(name, _INFERRED.get(type(value), s.OPTIONAL_STRING), self.quoted(name))
            for name, value in zip(names, values, strict=True)
        ]

    def fetch(self, statement: str, parameters: Parameters = ()) -> list[Any]:
        """Run a query and return all rows."""
        with _errors(statement):
            return self._connection.execute(statement, tuple(parameters)).fetchall()

    def rows(self, statement: str, parameters: Parameters, size: int) -> Iterator[Sequence[Any]]:
        """Run a query and yield its rows."""
        with _errors(statement):
            cursor = self._connection.execute(statement, tuple(parameters))
            while found := cursor.fetchmany(size):
                yield from found

    def execute(self, statement: str, parameters: Parameters = ()) -> int:
        """Run a statement and return the number of rows that it changed."""
        with _errors(statement):
            return self._connection.execute(statement, tuple(parameters)).rowcount

    def execute_each(self, statement: str, parameters: Sequence[Parameters]) -> None:
        """Run a statement with one set of parameters after the other."""
        with _errors(statement):
            self._connection.executemany(statement, [tuple(each) for each in parameters])

    def begin(self) -> None:
        """Begin a transaction; only one at a time may write."""
        self.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """Commit the transaction."""
        self.execute("COMMIT")

    def rollback(self) -> None:
        """Roll the transaction back."""
        self.execute("ROLLBACK")

    @contextmanager
    def definitions(self) -> Generator[None]:
        """Create and change tables: the transaction has the file's only lock for writes."""
        yield

    def check_transactional(self, table: TableName) -> None:
        """Do nothing: every table takes part in transactions."""

    def upsert(self, keys: Sequence[str], values: Sequence[str]) -> str:
        """Return the end of an INSERT that replaces the values of a row with the same key."""
        return on_conflict(keys, values)

    def escaped(self, text: str) -> str:
        """Return a part of a statement as it is."""
        return text

    def quoted(self, name: str) -> str:
        """Return an identifier in quotes."""
        return in_quotes(name, '"')

    def reference(self, table: TableName) -> str:
        """Return the quoted name of a table."""
        return self.quoted(table.table)

    def type_name(self, schema: Schema, *, is_key: bool = False) -> str:
        """Return the type of a column for a schema; decimals are texts. Raises DataError."""
        if schema.name == DECIMAL_NAME:
            return "TEXT"
        found = _TYPES.get(schema.type)
        if found is None:
            raise DataError(f"no type of a column fits {schema}")
        return found

    def parameter(self, schema: Schema, value: Any) -> Any:
        """Return a value as the driver takes it: decimals as texts, moments as milliseconds."""
        if isinstance(value, EpochMillis):
            return value.ms
        if value is None or isinstance(value, bool | int | str | bytes):
            return value
        return float(value) if isinstance(value, float) else _plain(schema, value)

    def value(self, column: Column, value: Any) -> Any:
        """Return a value of the column's schema. Raises DataError."""
        if value is None:
            return None
        match column.schema.type:
            case Type.STRING:
                return value if isinstance(value, str) else str(value)
            case Type.FLOAT64:
                return float(value)
            case Type.BYTES:
                return value.encode() if isinstance(value, str) else bytes(value)
            case _:
                if not isinstance(value, int):
                    raise DataError(f"column {column.name}: {value!r} is not a whole number")
                return value

    def moment(self, columns: Sequence[Column]) -> Moment:
        """Return the first timestamp that has a value: all are texts, or all milliseconds."""
        kinds = {column.schema.type for column in columns}
        if kinds == {Type.STRING}:
            texts = [f"strftime('%Y-%m-%d %H:%M:%f', {each.expression})" for each in columns]
            return Moment(
                first_value(texts),
                lambda nanos: _TEXT_MOMENT.format(nanos // _NANOS_PER_MS),
                _nanos_of_text,
            )
        if kinds == {Type.INT64}:
            expression = first_value([each.expression for each in columns])
            return Moment(
                expression, lambda nanos: nanos // _NANOS_PER_MS, lambda ms: int(ms) * _NANOS_PER_MS
            )
        names = listed(each.name for each in columns)
        raise ConnectError(
            f"timestamp.column.name={names}: the columns must be texts (yyyy-MM-dd HH:mm:ss) or "
            "numbers of milliseconds"
        )

    def now_nanos(self) -> int:
        """Return the time of this machine, which has the file."""
        return time.time_ns()


def _nanos_of_text(text: Any) -> int:
    found = _TEXT_MOMENT.parse(str(text))
    if found is None:
        raise DataError(f"{text!r} is not a timestamp")
    return found * _NANOS_PER_MS


def _plain(schema: Schema, value: Any) -> str:
    if isinstance(value, Decimal):
        return plain_text(value)
    raise DataError(f"no type of a column fits {schema}")


def _declared(declared: str, *, is_optional: bool) -> Schema:
    """Return the schema of a declared type, by SQLite's rules of affinity."""
    upper = declared.upper()
    if "INT" in upper:
        return s.OPTIONAL_INT64 if is_optional else s.INT64
    if "BLOB" in upper:
        return s.OPTIONAL_BYTES if is_optional else s.BYTES
    if any(part in upper for part in ("REAL", "FLOA", "DOUB", "NUM", "DEC")):
        return s.OPTIONAL_FLOAT64 if is_optional else s.FLOAT64
    return s.OPTIONAL_STRING if is_optional else s.STRING


@contextmanager
def _errors(statement: str) -> Generator[None]:
    """Raise the driver's errors as Connect's, with the statement."""
    try:
        yield
    except sqlite3.IntegrityError as error:
        raise DataError(f"{error} in: {statement}") from error
    except sqlite3.OperationalError as error:
        code: int = getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE
        kind = RetriableError if code in _PASSING else ConnectError
        raise kind(f"{error} in: {statement}") from error
    except sqlite3.Error as error:
        raise ConnectError(f"{error} in: {statement}") from error

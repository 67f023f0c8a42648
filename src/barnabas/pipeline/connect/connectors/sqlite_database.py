"""SQLite for the JDBC connectors: `jdbc:sqlite:/path/of/file`, by Python's own driver.

A column holds values of any type, so values are converted to the schema of the declared type.
Dates and times are texts, or numbers of milliseconds.
"""

import sqlite3
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import Any, ClassVar, Final

from sqlalchemy import Integer, TableClause, Text, func, inspect, literal_column
from sqlalchemy.dialects.sqlite import insert

from barnabas.pipeline.connect.connectors.column_types import COLUMN_TYPES, ColumnTypes
from barnabas.pipeline.connect.connectors.column_values import driver_value
from barnabas.pipeline.connect.connectors.database_access import (
    DatabaseSettings,
    TableName,
    file_of,
    listed,
)
from barnabas.pipeline.connect.connectors.sql_database import (
    Adapter,
    Database,
    Moment,
    ResultColumn,
)
from barnabas.pipeline.connect.connectors.sql_statements import first_of, on_conflict
from barnabas.pipeline.data import connect_schema as s
from barnabas.pipeline.data.connect_errors import ConnectError, DataError, RetriableError
from barnabas.pipeline.data.connect_schema import Schema, Type
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
_WHOLE: Final = Integer()
_TYPES: Final = ColumnTypes(
    COLUMN_TYPES.primitive
    | dict.fromkeys((Type.INT8, Type.INT16, Type.INT64, Type.BOOLEAN), _WHOLE)
    | {Type.FLOAT64: COLUMN_TYPES.primitive[Type.FLOAT32]},
    dict.fromkeys(COLUMN_TYPES.logical, _WHOLE),
    lambda scale: Text(),
)
"""Times are numbers of milliseconds, decimals are texts."""
_COLUMNS: Final = 'SELECT name, type, "notnull" OR pk FROM pragma_table_info(?)'
_INFERRED: Final[Mapping[type, Schema]] = {
    int: s.OPTIONAL_INT64,
    float: s.OPTIONAL_FLOAT64,
    str: s.OPTIONAL_STRING,
    bytes: s.OPTIONAL_BYTES,
}


def _nanos_of_text(text: Any) -> int:
    found = _TEXT_MOMENT.parse(str(text))
    if found is None:
        raise DataError(f"{text!r} is not a timestamp")
    return found * _NANOS_PER_MS


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


def _parameter(schema: Schema, value: Any) -> Any:
    """Return a value as the driver takes it: decimals as texts, moments as milliseconds."""
    if isinstance(value, EpochMillis):
        return value.ms
    return plain_text(value) if isinstance(value, Decimal) else driver_value(schema, value)


def _connect_value(schema: Schema, value: Any) -> Any:
    """Return a value of the schema. Raises DataError."""
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
                raise DataError(f"{value!r} is not a whole number")
            return value


def _upsert(place: TableClause, keys: Sequence[str], values: Sequence[str]) -> Any:
    return on_conflict(insert(place), keys, values)


class SqliteDatabase(Database):
    """A connection to a file."""

    adapter: ClassVar[Adapter] = Adapter(_errors, _parameter, _connect_value, _upsert, _TYPES)

    def __init__(self, settings: DatabaseSettings) -> None:
        path = file_of(settings.url)

        def connect() -> Any:
            return sqlite3.connect(path, timeout=_BUSY_WAIT_S, isolation_level=None)

        super().__init__("sqlite+pysqlite://", path, creator=connect)

    def tables_of(self, types: Sequence[str], schema_pattern: str | None) -> list[TableName]:
        """Return the tables of the given types; there are no schemas."""
        found = inspect(self.connection)
        names = found.get_table_names() if "TABLE" in types else []
        names += found.get_view_names() if "VIEW" in types else []
        return [TableName("", each) for each in sorted(names)]

    def table(self, name: str) -> TableName:
        """Return the table of a name: a dot is a part of it."""
        return TableName("", name)

    def columns(self, source: TableName | str) -> list[ResultColumn]:
        """Return the columns of a table or a query; none of a table that does not exist.

        Columns of a query have the types of its first row, those of a table their declared types,
        which SQLAlchemy's reflection lacks.
        """
        if isinstance(source, TableName):
            rows = self.fetch(_COLUMNS, [source.table])
            return [
                ResultColumn(
                    name, _declared(kind, is_optional=not required), self.sql.column(name), required
                )
                for name, kind, required in rows
            ]
        with self.run(self.sql.all_of(source).limit(1)) as cursor:
            rows = cursor.fetchall()
            names = [each[0] for each in cursor.description]
        return [
            ResultColumn(name, _INFERRED.get(type(value), s.OPTIONAL_STRING), self.sql.column(name))
            for name, value in zip(names, rows[0] if rows else [None] * len(names), strict=True)
        ]

    def begin(self) -> None:
        """Begin a transaction; only one at a time may write."""
        self.execute("BEGIN IMMEDIATE")

    def moment(self, columns: Sequence[ResultColumn]) -> Moment:
        """Return the first timestamp that has a value: all are texts, or all milliseconds."""
        kinds = {column.schema.type for column in columns}
        expressions = [each.expression for each in columns]
        if kinds == {Type.STRING}:
            form = literal_column("'%Y-%m-%d %H:%M:%f'", Text())
            return Moment(
                first_of([func.strftime(form, each) for each in expressions]),
                lambda nanos: _TEXT_MOMENT.format(nanos // _NANOS_PER_MS),
                _nanos_of_text,
            )
        if kinds == {Type.INT64}:
            return Moment(
                first_of(expressions),
                lambda nanos: nanos // _NANOS_PER_MS,
                lambda ms: int(ms) * _NANOS_PER_MS,
            )
        names = listed(each.name for each in columns)
        raise ConnectError(
            f"timestamp.column.name={names}: the columns must be texts (yyyy-MM-dd HH:mm:ss) or "
            "numbers of milliseconds"
        )

    def now_nanos(self) -> int:
        """Return the time of this machine, which has the file."""
        return time.time_ns()

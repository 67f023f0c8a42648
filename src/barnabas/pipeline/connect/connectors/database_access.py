"""Databases as the JDBC connectors see them: connections by JDBC address, tables, types.

Tasks run in Python processes without a JVM, so an address is opened by the Python driver of its
database: SQLite by Python's own (`sqlite_database`), PostgreSQL by psycopg (`postgres_database`),
MariaDB and MySQL by PyMySQL (`mysql_database`). Another database is refused.

How data passes: a connector builds statements of names that `quoted` and `reference` return and of
the parameter mark of the database; `parameter` and `value` convert between Connect's values and the
driver's.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import Any, Final, Protocol
from urllib.parse import SplitResult, parse_qsl, urlsplit

import attrs

from barnabas.pipeline.data.connect_errors import ConnectError
from barnabas.pipeline.data.connect_schema import Schema
from barnabas.pipeline.definitions.config_types import ParsedValue, Password

Parameters = Sequence[Any]

SQLITE_PREFIX: Final = "jdbc:sqlite:"
POSTGRES_PREFIX: Final = "jdbc:postgresql:"
MYSQL_PREFIXES: Final = ("jdbc:mariadb:", "jdbc:mysql:")
_NAME_PARTS_MAX: Final = 2
_NO_PARAMETERS: Final[Parameters] = ()


class NumericMapping(StrEnum):
    """The reading of NUMERIC columns: as decimals, or as numbers where these fit."""

    NONE = "none"
    PRECISION_ONLY = "precision_only"
    BEST_FIT = "best_fit"
    BEST_FIT_EAGER_DOUBLE = "best_fit_eager_double"


@attrs.frozen(order=True)
class TableName:
    """The name of a table; its schema is empty where the database has none."""

    schema: str
    table: str

    def __str__(self) -> str:
        """Return the name as offsets have it."""
        return f"{self.schema}.{self.table}" if self.schema else self.table


@attrs.frozen
class Column:
    """A column of a table or of a query's result; `expression` selects it."""

    name: str
    schema: Schema
    expression: str
    is_required: bool = False
    kind: int = 0
    """The number of the column's type, where the database has one."""


@attrs.frozen
class Moment:
    """The time of a row's change: its expression, and the driver's values as nanoseconds."""

    expression: str
    parameter: Callable[[int], Any]
    nanos: Callable[[Any], int]


@attrs.frozen
class DatabaseSettings:
    """The values of a configuration that open a connection and read columns."""

    url: str
    user: str | None = None
    password: str | None = None
    numeric_mapping: NumericMapping = NumericMapping.NONE

    @classmethod
    def of(cls, values: Mapping[str, ParsedValue]) -> "DatabaseSettings":
        """Return the settings of a parsed configuration."""
        user, password = values["connection.user"], values["connection.password"]
        return cls(
            str(values["connection.url"]),
            None if user is None else str(user),
            password.value if isinstance(password, Password) else None,
            NumericMapping(str(values.get("numeric.mapping", NumericMapping.NONE))),
        )


class Database(Protocol):
    """One open connection.

    A method raises RetriableError when a later attempt may succeed, else ConnectError.
    """

    mark: str
    """The placeholder of a parameter in a statement."""
    table_options: str
    """The end of a statement that creates a table."""
    are_definitions_transactional: bool
    """False when creating or changing a table commits the transaction."""

    def close(self) -> None:
        """Close the connection."""
        ...

    def tables(self, types: Sequence[str], schema_pattern: str | None) -> list[TableName]:
        """Return the tables of the given types, such as TABLE or VIEW."""
        ...

    def table(self, text: str) -> TableName:
        """Return the table that a configuration or a topic names."""
        ...

    def columns(self, table: TableName) -> list[Column]:
        """Return the columns of a table; none when it does not exist."""
        ...

    def columns_of_query(self, query: str) -> list[Column]:
        """Return the columns of a query's result."""
        ...

    def fetch(self, statement: str, parameters: Parameters = _NO_PARAMETERS) -> list[Any]:
        """Run a query and return all rows."""
        ...

    def rows(self, statement: str, parameters: Parameters, size: int) -> Iterator[Sequence[Any]]:
        """Run a query and yield its rows, `size` of them in memory."""
        ...

    def execute(self, statement: str, parameters: Parameters = _NO_PARAMETERS) -> int:
        """Run a statement and return the number of rows that it changed."""
        ...

    def execute_each(self, statement: str, parameters: Sequence[Parameters]) -> None:
        """Run a statement with one set of parameters after the other."""
        ...

    def begin(self) -> None:
        """Begin a transaction."""
        ...

    def commit(self) -> None:
        """Commit the transaction."""
        ...

    def rollback(self) -> None:
        """Roll the transaction back."""
        ...

    def definitions(self) -> AbstractContextManager[None]:
        """Return a context in which this task alone creates and alters tables.

        Another task that enters it waits until this one has left.
        """
        ...

    def check_transactional(self, table: TableName) -> None:
        """Raise ConnectError when rows of a table are not written in transactions."""
        ...

    def upsert(self, keys: Sequence[str], values: Sequence[str]) -> str:
        """Return the end of an INSERT that replaces the values of a row with the same key.

        Without values the row stays as it is, and is not counted as changed. Names are quoted.
        """
        ...

    def escaped(self, text: str) -> str:
        """Return a part of a statement that a user wrote, without parameter marks."""
        ...

    def quoted(self, name: str) -> str:
        """Return an identifier in quotes."""
        ...

    def reference(self, table: TableName) -> str:
        """Return the quoted name of a table."""
        ...

    def type_name(self, schema: Schema, *, is_key: bool = False) -> str:
        """Return the type of a column for a schema. Raises DataError."""
        ...

    def parameter(self, schema: Schema, value: Any) -> Any:
        """Return a value of a record as the driver takes it. Raises DataError."""
        ...

    def value(self, column: Column, value: Any) -> Any:
        """Return a value of the driver as a value of the column's schema. Raises DataError."""
        ...

    def moment(self, columns: Sequence[Column]) -> Moment:
        """Return the first of timestamp columns that has a value. Raises ConnectError."""
        ...

    def now_nanos(self) -> int:
        """Return the database's time."""
        ...


def connect(settings: DatabaseSettings) -> Database:
    """Return an open connection. Raises ConnectError."""
    if settings.url.startswith(SQLITE_PREFIX):
        from barnabas.pipeline.connect.connectors.sqlite_database import SqliteDatabase

        return SqliteDatabase(file_of(settings.url))
    if settings.url.startswith(POSTGRES_PREFIX):
        try:
            from barnabas.pipeline.connect.connectors.postgres_database import PostgresDatabase
        except ImportError as error:
            raise _missing_driver("PostgreSQL", error) from error
        return PostgresDatabase(settings)
    if settings.url.startswith(MYSQL_PREFIXES):
        try:
            from barnabas.pipeline.connect.connectors.mysql_database import MysqlDatabase
        except ImportError as error:
            raise _missing_driver("MariaDB and MySQL", error) from error
        return MysqlDatabase(settings)
    raise unsupported(settings.url)


def unsupported(url: str) -> ConnectError:
    """Return the error for a database without a driver here."""
    return ConnectError(
        f"connection.url={url.partition('?')[0]}: this database is not supported; use "
        f"{SQLITE_PREFIX}/path/of/file, {POSTGRES_PREFIX}//host:5432/database, "
        "jdbc:mariadb://host:3306/database or jdbc:mysql://host:3306/database"
    )


def file_of(url: str) -> str:
    """Return the file of an address of SQLite. Raises ConnectError when it has none."""
    path = url.removeprefix(SQLITE_PREFIX).partition("?")[0]
    if not path:
        raise ConnectError(f"connection.url must name a file: {SQLITE_PREFIX}/path/of/file")
    return path


def _missing_driver(database: str, error: ImportError) -> ConnectError:
    return ConnectError(
        f"the driver of {database} is missing ({error}): pip install 'barnabas[jdbc]'"
    )


def checked_address(
    url: str, prefix: str, known: Collection[str]
) -> tuple[SplitResult, dict[str, str]]:
    """Return the parts of an address and its parameters. Raises ConnectError."""
    parts = urlsplit(f"database:{url.removeprefix(prefix)}")
    given = dict(parse_qsl(parts.query))
    unknown = sorted(given.keys() - known)
    if unknown:
        raise ConnectError(
            f"connection.url has the parameter {listed(unknown)}, which is not supported; known "
            f"parameters: {listed(sorted(known))}"
        )
    if "@" in parts.netloc:
        raise ConnectError("connection.url has a user: set connection.user and connection.password")
    return parts, given


def listed(names: Iterable[str]) -> str:
    """Return names as a part of a statement."""
    return ", ".join(names)


def in_quotes(name: str, quote: str) -> str:
    """Return an identifier between quote characters; those within it are doubled."""
    return f"{quote}{name.replace(quote, quote * 2)}{quote}"


def table_of(text: str) -> TableName:
    """Return the table of "table" or "schema.table". Raises ConnectError."""
    parts = text.split(".")
    if len(parts) > _NAME_PARTS_MAX or not all(parts):
        raise ConnectError(
            f"{text!r} is not the name of a table: use table or schema.table (see "
            "table.name.format)"
        )
    return TableName(*parts) if len(parts) == _NAME_PARTS_MAX else TableName("", text)


def first_value(expressions: Sequence[str]) -> str:
    """Return the expression of the first that has a value."""
    return expressions[0] if len(expressions) == 1 else f"COALESCE({listed(expressions)})"


def on_conflict(keys: Sequence[str], values: Sequence[str]) -> str:
    """Return the end of an INSERT that replaces values, as PostgreSQL and SQLite have it."""
    changes = listed(f"{name} = excluded.{name}" for name in values)
    return f"ON CONFLICT ({listed(keys)}) DO {f'UPDATE SET {changes}' if changes else 'NOTHING'}"

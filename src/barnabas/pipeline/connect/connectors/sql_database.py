"""A connection to a database by SQLAlchemy, as the JDBC connectors use it.

SQLAlchemy opens the connection, writes statements and describes tables. They run by a cursor of the
driver, with its own values: conversions of values between Connect and a driver are the connector's,
`BEGIN IMMEDIATE` and limits of a session belong to a batch, and SQLAlchemy's rows double the cost
of a row that is read, its `execute` that of a small batch.
"""

import abc
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from typing import Any, ClassVar, TypeAlias

import attrs
from sqlalchemy import (
    URL,
    ClauseElement,
    NullPool,
    create_engine,
    literal_column,
)
from sqlalchemy.exc import DBAPIError

from barnabas.pipeline.connect.connectors.column_types import COLUMN_TYPES, ColumnTypes
from barnabas.pipeline.connect.connectors.database_access import TableName, listed, table_of
from barnabas.pipeline.connect.connectors.sql_statements import (
    Expression,
    SqlStatements,
    Upsert,
)
from barnabas.pipeline.data.connect_errors import ConnectError, DataError, RetriableError
from barnabas.pipeline.data.connect_schema import Schema

Parameters: TypeAlias = Sequence[Any]


@attrs.frozen
class ResultColumn:
    """A column of a table or of a query's result; `expression` selects it."""

    name: str
    schema: Schema
    expression: Expression
    is_required: bool = False
    kind: int = 0
    """The number of the column's type, where the database has one."""


@attrs.frozen
class Moment:
    """The time of a row's change: its expression, and the driver's values as nanoseconds."""

    expression: Expression
    parameter: Callable[[int], Any]
    nanos: Callable[[Any], int]


@attrs.frozen
class Adapter:
    """The part of a database that is plain functions and values."""

    errors: Callable[[str], AbstractContextManager[None]]
    """Raises the driver's errors as Connect's, with a statement."""
    parameter: Callable[[Schema, Any], Any]
    """Returns a value of a record as the driver takes it. Raises DataError."""
    connect_value: Callable[[Schema, Any], Any]
    """Returns a value of the driver as one of a schema. Raises DataError."""
    upsert: Upsert
    types: ColumnTypes = COLUMN_TYPES
    is_quoted: bool = True
    """False when a name has quotes only where the database needs them."""
    session: Sequence[str] = ()
    """Statements that a new connection runs."""
    table_types: Collection[str] = ()
    """The known values of `table.types`; others are refused when there are some."""


class Database(abc.ABC):
    """One open connection.

    A method raises RetriableError when a later attempt may succeed, else ConnectError.
    """

    adapter: ClassVar[Adapter]
    are_definitions_transactional: ClassVar[bool] = True
    """False when creating or changing a table commits the transaction."""

    def __init__(self, url: URL | str, place: str, **options: Any) -> None:
        """Connect; an option `creator` opens the driver's connection in place of the URL."""
        adapter = self.adapter
        self.parameter = adapter.parameter
        engine = create_engine(
            url,
            poolclass=NullPool,
            pool_reset_on_return=None,
            isolation_level="AUTOCOMMIT",
            **options,
        )
        self.sql = SqlStatements(
            engine.dialect, adapter.types, adapter.upsert, is_quoted=adapter.is_quoted
        )
        with self.errors(place):
            self.connection = engine.connect()
        self.driver: Any = self.connection.connection.dbapi_connection
        for statement in adapter.session:
            self.execute(statement)

    @abc.abstractmethod
    def tables_of(self, types: Sequence[str], schema_pattern: str | None) -> list[TableName]:
        """Return the tables of types that the database has."""

    @abc.abstractmethod
    def columns(self, source: TableName | str) -> list[ResultColumn]:
        """Return the columns of a table or a query; none of a table that does not exist."""

    @abc.abstractmethod
    def moment(self, columns: Sequence[ResultColumn]) -> Moment:
        """Return the first of timestamp columns that has a value. Raises ConnectError."""

    @abc.abstractmethod
    def now_nanos(self) -> int:
        """Return the database's time."""

    def close(self) -> None:
        """Close the connection; the database rolls an open transaction back."""
        self.connection.close()

    @contextmanager
    def errors(self, statement: str) -> Generator[None]:
        """Raise the errors of SQLAlchemy and of the driver as Connect's, with the statement."""
        with self.adapter.errors(statement):
            try:
                yield
            except DBAPIError as error:
                raise (error.orig or error) from None

    def tables(self, types: Sequence[str], schema_pattern: str | None) -> list[TableName]:
        """Return the tables of the given types. Raises ConnectError."""
        unknown = [each for each in types if each.upper() not in self.adapter.table_types]
        if unknown and self.adapter.table_types:
            known = listed(self.adapter.table_types)
            raise ConnectError(f"table.types={listed(unknown)}: known types: {known}")
        return self.tables_of([each.upper() for each in types], schema_pattern)

    def table(self, name: str) -> TableName:
        """Return the table of "table" or "schema.table". Raises ConnectError."""
        return table_of(name)

    def execute(self, statement: str | ClauseElement, parameters: Parameters = ()) -> int:
        """Run a statement and return the number of rows that it changed.

        A text has the driver's parameter marks; a statement of SQLAlchemy has its values.
        """
        with self.run(statement, parameters) as cursor:
            return cursor.rowcount

    def fetch(self, statement: str | ClauseElement, parameters: Parameters = ()) -> Sequence[Any]:
        """Run a query and return all rows."""
        with self.run(statement, parameters) as cursor:
            return cursor.fetchall()

    def rows(self, statement: ClauseElement, size: int) -> Iterator[Sequence[Any]]:
        """Run a query and yield its rows, `size` of them in memory."""
        found, values = self.sql.compiled(statement)
        with self.errors(found):
            cursor = self.row_cursor()
            cursor.execute(found, values)
            while rows := cursor.fetchmany(size):
                yield from rows
            cursor.close()

    def row_cursor(self) -> Any:
        """Return a cursor of the driver, which keeps the rows of a query on the server."""
        return self.driver.cursor()

    def execute_each(self, statement: str, parameters: Sequence[Parameters]) -> None:
        """Run a statement with one set of parameters after the other."""
        with self.errors(statement), closing(self.driver.cursor()) as cursor:
            cursor.executemany(statement, [*map(tuple, parameters)])

    def insert_new(self, statement: str, parameters: Parameters) -> int:
        """Insert a row unless there is one with its key; return the number of rows."""
        return self.execute(statement, parameters)

    @contextmanager
    def run(self, statement: str | ClauseElement, parameters: Parameters = ()) -> Generator[Any]:
        """Run a statement; have its cursor, and the errors of what reads it."""
        found, values = self.sql.compiled(statement)
        with self.errors(found):
            cursor = self.driver.cursor()
            cursor.execute(found, values or tuple(parameters))
            yield cursor

    def begin(self) -> None:
        """Begin a transaction."""
        self.execute("BEGIN")

    def commit(self) -> None:
        """Commit the transaction."""
        self.execute("COMMIT")

    def rollback(self) -> None:
        """Roll the transaction back; the server does so itself when the connection is lost."""
        with suppress(RetriableError):
            self.execute("ROLLBACK")

    @contextmanager
    def definitions(self) -> Generator[None]:
        """Create and change tables in the block: another task that enters it waits."""
        yield

    def untransactional(self, name: TableName) -> str | None:
        """Return why rows of a table are not written in transactions, None when they are."""
        return None

    def value(self, column: ResultColumn, value: Any) -> Any:
        """Return a value of the driver as one of the column's schema. Raises DataError."""
        try:
            return self.adapter.connect_value(column.schema, value)
        except DataError as error:
            raise DataError(f"column {column.name}: {error}") from error

    def described(self, source: TableName | str) -> Any:
        """Return the driver's cursor of a query without rows, which has the columns' types."""
        query = self.sql.all_of(source).limit(literal_column("0"))
        with self.run(query) as cursor:
            return cursor

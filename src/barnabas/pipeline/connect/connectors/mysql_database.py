"""MariaDB and MySQL for the JDBC connectors: `jdbc:mariadb://host:3306/database`, by PyMySQL.

Creating or changing a table commits the transaction, so that is done between transactions.

A session refuses values that do not fit, has UTC, and reads what others have committed before each
statement. One that stays in a transaction without a statement is ended by the server, and a wait
for a lock ends too: a task that was suspended within a batch does not block its successor without
limit.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

import pymysql
from pymysql.constants import CLIENT, FIELD_TYPE
from pymysql.cursors import SSCursor

from barnabas.pipeline.connect.connectors.column_values import nanos_of as nanos_of_moment
from barnabas.pipeline.connect.connectors.column_values import timestamp_of
from barnabas.pipeline.connect.connectors.database_access import (
    Column,
    DatabaseSettings,
    Moment,
    NumericMapping,
    Parameters,
    TableName,
    first_value,
    listed,
)
from barnabas.pipeline.connect.connectors.mysql_address import driver_arguments
from barnabas.pipeline.connect.connectors.mysql_errors import NO_SUCH_TABLE, driver_errors
from barnabas.pipeline.connect.connectors.mysql_types import (
    MOMENT_CODES,
    ColumnType,
    column_type,
    connect_value,
    driver_value,
    nanos_of,
    schema_of,
)
from barnabas.pipeline.connect.connectors.server_database import (
    ServerDatabase,
    check_table_types,
)
from barnabas.pipeline.data.connect_errors import ConnectError, DataError, RetriableError
from barnabas.pipeline.data.connect_schema import Schema

_IDLE_MAX_S: Final = 31_536_000
_IDLE_IN_TRANSACTION_MAX_S: Final = 120
_SESSION: Final = (
    "SET SESSION sql_mode = CONCAT_WS(',', @@sql_mode, 'STRICT_ALL_TABLES', "
    "'NO_AUTO_VALUE_ON_ZERO'), time_zone = '+00:00', "
    "innodb_lock_wait_timeout = 60, lock_wait_timeout = 60, net_write_timeout = 600, "
    f"wait_timeout = {_IDLE_MAX_S}",
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
)
_KINDS: Final = {"TABLE": ("BASE TABLE", "SYSTEM VERSIONED"), "VIEW": ("VIEW",)}
_TABLES: Final = (
    "SELECT table_schema, table_name FROM information_schema.tables WHERE table_type IN %s "
    "AND table_schema NOT IN ('information_schema', 'mysql', 'performance_schema', 'sys') "
    "AND (table_schema LIKE %s OR "
    "%s IS NULL AND table_schema = COALESCE(DATABASE(), table_schema)) ORDER BY 1, 2"
)
_ENGINE: Final = (
    "SELECT t.engine FROM information_schema.tables t JOIN information_schema.engines e "
    "ON e.engine = t.engine WHERE t.table_schema = COALESCE(%s, DATABASE()) "
    "AND t.table_name = %s AND e.transactions <> 'YES'"
)
_DEFINITIONS_LOCK: Final = "barnabas_definitions"
_DEFINITIONS_WAIT_S: Final = 60
_MESSAGE_BYTES_MAX: Final = 1_000_000
_VALUES: Final = " VALUES "


class MysqlDatabase(ServerDatabase):
    """A connection to a database."""

    table_options: str = " ENGINE=InnoDB"
    are_definitions_transactional: bool = False

    def __init__(self, settings: DatabaseSettings) -> None:
        super().__init__("`", connect_value)
        self._mapping: NumericMapping = settings.numeric_mapping
        arguments = driver_arguments(settings)
        with driver_errors(f"{arguments['host']}:{arguments['port']}"):
            self._connection: Any = pymysql.connect(
                **arguments,
                charset="utf8mb4",
                autocommit=True,
                client_flag=CLIENT.MULTI_STATEMENTS,
            )
        for statement in _SESSION:
            self.execute(statement)
        version, packet = self.fetch("SELECT VERSION(), @@max_allowed_packet")[0]
        # Keys are compared exactly: with case, accents, and spaces at the end.
        is_mariadb = "MariaDB" in version
        self._collation: str = "utf8mb4_nopad_bin" if is_mariadb else "utf8mb4_0900_bin"
        self._packet: int = packet

    def close(self) -> None:
        """Close the connection."""
        with suppress(pymysql.Error):  # it is closed when its task ended within a query
            self._connection.close()

    def tables(self, types: Sequence[str], schema_pattern: str | None) -> list[TableName]:
        """Return the tables of the address's database, or of those of a pattern.

        Raises ConnectError.
        """
        check_table_types(types, _KINDS)
        kinds = [kind for each in types for kind in _KINDS[each.upper()]]
        parameters = [kinds, schema_pattern, schema_pattern]
        return [TableName(*row) for row in self.fetch(_TABLES, parameters)]

    def columns(self, table: TableName) -> list[Column]:
        """Return the columns of a table; none when it does not exist."""
        return self.described(self.reference(table), is_table=True)

    def described(self, source: str, *, is_table: bool = False) -> list[Column]:
        """Return the columns of a query in brackets or a table; none when there is no table."""
        statement = f"SELECT * FROM {source} LIMIT 0"
        with driver_errors(statement), self._connection.cursor() as cursor:
            try:
                cursor.execute(statement, ())
            except pymysql.ProgrammingError as error:
                if is_table and error.args[0] == NO_SUCH_TABLE:
                    return []
                raise
            fields = cursor._result.fields
        return [
            self._column(
                ColumnType(f.name, f.type_code, f.flags, f.charsetnr, f.length, f.scale), is_table
            )
            for f in fields
        ]

    def _column(self, kind: ColumnType, is_table: bool) -> Column:
        name = self.quoted(kind.name)
        # The server sends six digits of a FLOAT, and all of a DOUBLE.
        expression = f"{name} + 0e0" if kind.code == FIELD_TYPE.FLOAT else name
        is_required = is_table and kind.is_required
        schema = schema_of(kind, self._mapping, optional=not is_required)
        return Column(kind.name, schema, expression, is_required, kind.code)

    def fetch(self, statement: str, parameters: Parameters = ()) -> list[Any]:
        """Run a query and return all rows."""
        with driver_errors(statement), self._connection.cursor() as cursor:
            cursor.execute(statement, tuple(parameters))
            return list(cursor.fetchall())

    def rows(self, statement: str, parameters: Parameters, size: int) -> Iterator[Sequence[Any]]:
        """Run a query and yield its rows as the server sends them."""
        cursor: Any = SSCursor(self._connection)
        with driver_errors(statement):
            cursor.execute(statement, tuple(parameters))
        try:
            while True:
                with driver_errors(statement):
                    found = cursor.fetchmany(size)
                if not found:
                    break
                yield from found
        finally:
            if cursor._result is not None and cursor._result.unbuffered_active:
                # The driver would read all other rows first.
                cursor._result.unbuffered_active = False
                self.close()

    def execute(self, statement: str, parameters: Parameters = ()) -> int:
        """Run a statement and return the number of rows that it changed."""
        with driver_errors(statement), self._connection.cursor() as cursor:
            return cursor.execute(statement, tuple(parameters))

    def execute_each(self, statement: str, parameters: Sequence[Parameters]) -> None:
        """Run a statement with one set of parameters after the other, many in a message."""
        with driver_errors(statement), self._connection.cursor() as cursor:
            for message in self._messages(statement, parameters):
                cursor.execute(message)
                while cursor.nextset():
                    pass

    def _messages(self, statement: str, parameters: Sequence[Parameters]) -> Iterator[bytes]:
        """Yield statements with many rows, or many statements, up to a size. Raises DataError."""
        marks = f"({listed(self.mark for _ in parameters[0])})"
        head, values, tail = statement.rpartition(f"{_VALUES}{marks}")
        each, separator = (marks, b", ") if values else (statement, b"; ")
        start = (head % () + _VALUES).encode() if values else b""
        end = (tail % ()).encode() if values else b""
        size_max = min(_MESSAGE_BYTES_MAX, self._packet - 1)
        rows, size = list[bytes](), 0
        escape: Callable[[Any], str] = self._connection.escape
        for row in parameters:
            text = (each % tuple(map(escape, row))).encode()
            if rows and size + len(text) > size_max:
                yield start + separator.join(rows) + end
                rows, size = [], 0
            if not rows:
                size = len(start) + len(end)
            size += len(text) + len(separator)
            if size > self._packet:
                raise DataError(
                    f"a row of {size} bytes is larger than the server takes: raise its "
                    f"max_allowed_packet={self._packet}"
                )
            rows.append(text)
        yield start + separator.join(rows) + end

    def begin(self) -> None:
        """Begin a transaction."""
        self.execute(f"SET SESSION wait_timeout = {_IDLE_IN_TRANSACTION_MAX_S}")
        self.execute("START TRANSACTION")

    def commit(self) -> None:
        """Commit the transaction."""
        self.execute("COMMIT")
        self.execute(f"SET SESSION wait_timeout = {_IDLE_MAX_S}")

    def rollback(self) -> None:
        """Roll the transaction back; the server does so itself when the connection is lost."""
        with suppress(RetriableError):
            self.execute("ROLLBACK")
            self.execute(f"SET SESSION wait_timeout = {_IDLE_MAX_S}")

    @contextmanager
    def definitions(self) -> Generator[None]:
        """Create and change tables within, while other tasks do not: no transaction is open."""
        lock = [_DEFINITIONS_LOCK, _DEFINITIONS_WAIT_S]
        if self.fetch("SELECT GET_LOCK(%s, %s)", lock)[0][0] != 1:
            raise RetriableError("another task changes tables for longer than a minute")
        try:
            yield
        finally:
            with suppress(RetriableError):  # the server releases the lock of a lost connection
                self.fetch("SELECT RELEASE_LOCK(%s)", lock[:1])

    def check_transactional(self, table: TableName) -> None:
        """Raise ConnectError when rows of a table are not written in transactions."""
        for (engine,) in self.fetch(_ENGINE, [table.schema or None, table.table]):
            raise ConnectError(
                f"table {table} has the engine {engine}, which has no transactions: "
                f"ALTER TABLE {table} ENGINE=InnoDB"
            )

    def upsert(self, keys: Sequence[str], values: Sequence[str]) -> str:
        """Return the end of an INSERT that replaces the values of a row with the same key."""
        changes = [f"{name} = VALUES({name})" for name in values] or [f"{keys[0]} = {keys[0]}"]
        return f"ON DUPLICATE KEY UPDATE {listed(changes)}"

    def type_name(self, schema: Schema, *, is_key: bool = False) -> str:
        """Return the type of a column for a schema. Raises DataError."""
        return column_type(schema, is_key=is_key, collation=self._collation)

    def parameter(self, schema: Schema, value: Any) -> Any:
        """Return a value of a record as the driver takes it. Raises DataError."""
        return driver_value(schema, value)

    def moment(self, columns: Sequence[Column]) -> Moment:
        """Return the first timestamp that has a value. Raises ConnectError."""
        others = [column.name for column in columns if column.kind not in MOMENT_CODES]
        if others:
            raise ConnectError(
                f"timestamp.column.name={listed(others)}: the columns must be of type DATETIME, "
                "TIMESTAMP or DATE"
            )
        moments = [
            f"CAST({each.expression} AS DATETIME)" if each.kind == FIELD_TYPE.DATE
            else each.expression
            for each in columns
        ]  # fmt: skip
        return Moment(first_value(moments), timestamp_of, nanos_of)

    def now_nanos(self) -> int:
        """Return the database's time."""
        return nanos_of_moment(self.fetch("SELECT UTC_TIMESTAMP(6)")[0][0])

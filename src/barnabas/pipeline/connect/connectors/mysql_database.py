"""MariaDB and MySQL for the JDBC connectors: `jdbc:mariadb://host:3306/database`, by PyMySQL.

Creating or changing a table commits the transaction, so that is done between transactions.

A session refuses values that do not fit, has UTC, and reads what others have committed before each
statement. One that stays in a transaction without a statement is ended by the server, and a wait
for a lock ends too: a task that was suspended within a batch does not block its successor without
limit.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, ClassVar, Final

import attrs
import pymysql
from pymysql.constants import CLIENT, FIELD_TYPE
from pymysql.cursors import SSCursor
from sqlalchemy import ClauseElement, TableClause, cast, column, func, literal_column
from sqlalchemy.dialects.mysql import DATETIME, insert

from barnabas.pipeline.connect.connectors.column_values import nanos_of as nanos_of_moment
from barnabas.pipeline.connect.connectors.column_values import timestamp_of
from barnabas.pipeline.connect.connectors.database_access import (
    DatabaseSettings,
    TableName,
    listed,
)
from barnabas.pipeline.connect.connectors.mysql_address import driver_arguments
from barnabas.pipeline.connect.connectors.mysql_errors import NO_SUCH_TABLE, driver_errors
from barnabas.pipeline.connect.connectors.mysql_types import (
    MOMENT_CODES,
    ColumnType,
    column_types,
    connect_value,
    driver_value,
    nanos_of,
    schema_of,
)
from barnabas.pipeline.connect.connectors.sql_database import (
    Adapter,
    Database,
    Moment,
    Parameters,
    ResultColumn,
)
from barnabas.pipeline.connect.connectors.sql_statements import first_of
from barnabas.pipeline.data.connect_errors import ConnectError, DataError, RetriableError

_IDLE_MAX_S: Final = 31_536_000
_IDLE_IN_TRANSACTION_MAX_S: Final = 120
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
_MARK: Final = "%s"
_VALUES: Final = " VALUES "


def _upsert(place: TableClause, keys: Sequence[str], values: Sequence[str]) -> Any:
    # SQLAlchemy's `inserted` doubles the percent signs of a name twice.
    changes = {each: func.VALUES(column(place.c[each].name)) for each in values}
    return insert(place).on_duplicate_key_update(changes or {keys[0]: place.c[keys[0]]})


class MysqlDatabase(Database):
    """A connection to a database."""

    adapter: ClassVar[Adapter] = Adapter(
        driver_errors,
        driver_value,
        connect_value,
        _upsert,
        session=(
            "SET SESSION sql_mode = CONCAT_WS(',', @@sql_mode, 'STRICT_ALL_TABLES', "
            "'NO_AUTO_VALUE_ON_ZERO'), time_zone = '+00:00', "
            "innodb_lock_wait_timeout = 60, lock_wait_timeout = 60, net_write_timeout = 600, "
            f"wait_timeout = {_IDLE_MAX_S}",
            "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
        ),
        table_types=_KINDS,
    )
    are_definitions_transactional: ClassVar[bool] = False

    def __init__(self, settings: DatabaseSettings) -> None:
        arguments = driver_arguments(settings)

        def connect() -> Any:
            return pymysql.connect(
                **arguments,
                charset="utf8mb4",
                autocommit=True,
                client_flag=CLIENT.MULTI_STATEMENTS,
            )

        self._mapping = settings.numeric_mapping
        place = f"{arguments['host']}:{arguments['port']}"
        super().__init__("mysql+pymysql://", place, creator=connect, paramstyle="format")
        version, packet = self.fetch("SELECT VERSION(), @@max_allowed_packet")[0]
        # Keys are compared exactly: with case, accents, and spaces at the end.
        collation = "utf8mb4_nopad_bin" if "MariaDB" in version else "utf8mb4_0900_bin"
        self.sql = attrs.evolve(self.sql, types=column_types(collation))
        self._packet: int = packet

    def tables_of(self, types: Sequence[str], schema_pattern: str | None) -> list[TableName]:
        """Return the tables of the address's database, or of those of a pattern."""
        kinds = [kind for each in types for kind in _KINDS[each]]
        parameters = [kinds, schema_pattern, schema_pattern]
        return [TableName(*row) for row in self.fetch(_TABLES, parameters)]

    def columns(self, source: TableName | str) -> list[ResultColumn]:
        """Return the columns of a table or a query; none of a table that does not exist."""
        is_table = isinstance(source, TableName)
        try:
            fields = self.described(source)._result.fields
        except ConnectError as error:
            cause: Any = error.__cause__
            if is_table and getattr(cause, "args", ())[:1] == (NO_SUCH_TABLE,):
                return []
            raise
        return [
            self._column(
                ColumnType(f.name, f.type_code, f.flags, f.charsetnr, f.length, f.scale), is_table
            )
            for f in fields
        ]

    def _column(self, kind: ColumnType, is_table: bool) -> ResultColumn:
        name = self.sql.column(kind.name)
        # The server sends six digits of a FLOAT, and all of a DOUBLE.
        expression = name + literal_column("0e0") if kind.code == FIELD_TYPE.FLOAT else name
        is_required = is_table and kind.is_required
        schema = schema_of(kind, self._mapping, optional=not is_required)
        return ResultColumn(kind.name, schema, expression, is_required, kind.code)

    def rows(self, statement: ClauseElement, size: int) -> Iterator[Sequence[Any]]:
        """Run a query and yield its rows as the server sends them."""
        found, values = self.sql.compiled(statement)
        with self.errors(found):
            cursor: Any = self.driver.cursor(SSCursor)
            cursor.execute(found, values)
            unread = cursor._result
            try:
                while rows := cursor.fetchmany(size):
                    yield from rows
            finally:
                if unread.unbuffered_active:
                    # The driver would read all other rows first.
                    unread.unbuffered_active = False
                    self.connection.invalidate()

    def execute_each(self, statement: str, parameters: Sequence[Parameters]) -> None:
        """Run a statement with one set of parameters after the other, many in a message."""
        with self.errors(statement), self.driver.cursor() as cursor:
            for message in self._messages(statement, parameters):
                cursor.execute(message)
                while cursor.nextset():
                    pass

    def _messages(self, statement: str, parameters: Sequence[Parameters]) -> Iterator[bytes]:
        """Yield statements with many rows, or many statements, up to a size. Raises DataError."""
        marks = f"({listed(_MARK for _ in parameters[0])})"
        head, values, tail = statement.rpartition(f"{_VALUES}{marks}")
        each, separator = (marks, b", ") if values else (statement, b"; ")
        start = (head % () + _VALUES).encode() if values else b""
        end = (tail % ()).encode() if values else b""
        size_max = min(_MESSAGE_BYTES_MAX, self._packet - 1)
        rows, size = list[bytes](), 0
        escape: Callable[[Any], str] = self.driver.escape
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

    def untransactional(self, name: TableName) -> str | None:
        """Return why rows of a table are not written in transactions, None when they are."""
        for (engine,) in self.fetch(_ENGINE, [name.schema or None, name.table]):
            return (
                f"table {name} has the engine {engine}, which has no transactions: "
                f"ALTER TABLE {name} ENGINE=InnoDB"
            )
        return None

    def moment(self, columns: Sequence[ResultColumn]) -> Moment:
        """Return the first timestamp that has a value. Raises ConnectError."""
        others = [column.name for column in columns if column.kind not in MOMENT_CODES]
        if others:
            raise ConnectError(
                f"timestamp.column.name={listed(others)}: the columns must be of type DATETIME, "
                "TIMESTAMP or DATE"
            )
        moments = [
            cast(each.expression, DATETIME) if each.kind == FIELD_TYPE.DATE else each.expression
            for each in columns
        ]
        return Moment(first_of(moments), timestamp_of, nanos_of)

    def now_nanos(self) -> int:
        """Return the database's time."""
        return nanos_of_moment(self.fetch("SELECT UTC_TIMESTAMP(6)")[0][0])

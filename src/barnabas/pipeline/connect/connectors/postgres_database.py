"""PostgreSQL for the JDBC connectors: `jdbc:postgresql://host:5432/database`, by psycopg.

The parameters of an address are those of PostgreSQL's JDBC driver that matter here. A session that
stays in a transaction without a statement is ended by the server, and a wait for a lock ends too:
a task that was suspended within a batch does not block its successor without limit.
"""

from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.rows import TupleRow

from barnabas.pipeline.connect.connectors.column_values import (
    nanos_of,
    timestamp_of,
    timestamptz_of,
)
from barnabas.pipeline.connect.connectors.database_access import (
    Column,
    DatabaseSettings,
    Moment,
    NumericMapping,
    Parameters,
    TableName,
    first_value,
    listed,
    on_conflict,
)
from barnabas.pipeline.connect.connectors.postgres_address import driver_address
from barnabas.pipeline.connect.connectors.postgres_types import (
    DATE_OID,
    TIMESTAMP_OID,
    TIMESTAMPTZ_OID,
    ColumnType,
    column_type,
    connect_value,
    driver_value,
    schema_of,
)
from barnabas.pipeline.connect.connectors.server_database import (
    ServerDatabase,
    check_table_types,
)
from barnabas.pipeline.data.connect_errors import ConnectError, DataError, RetriableError
from barnabas.pipeline.data.connect_schema import Schema

_SESSION: Final = (
    "SET TimeZone = 'UTC'",
    "SET DateStyle = 'ISO'",
    "SET lock_timeout = '60s'",
    "SET idle_in_transaction_session_timeout = '120s'",
)
_KINDS: Final = {
    "TABLE": "r",
    "PARTITIONED TABLE": "p",
    "VIEW": "v",
    "MATERIALIZED VIEW": "m",
    "FOREIGN TABLE": "f",
}
_TABLES: Final = (
    "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE c.relkind::text = ANY(%s) AND n.nspname <> 'information_schema' "
    "AND n.nspname NOT LIKE 'pg\\_%%' AND n.nspname LIKE %s ORDER BY 1, 2"
)
# Reading a table makes the session see tables that others have just committed.
_REQUIRED: Final = (
    "SELECT attname, attnotnull FROM pg_attribute WHERE attrelid = to_regclass(%s) "
    "AND attnum > 0 AND NOT attisdropped"
)
_DEFINITIONS_LOCK: Final = 7_166_218
"""The number of the advisory lock that tasks hold while they change tables."""


class PostgresDatabase(ServerDatabase):
    """A connection to a database."""

    table_options: str = ""
    are_definitions_transactional: bool = True

    def __init__(self, settings: DatabaseSettings) -> None:
        super().__init__('"', connect_value)
        self._mapping: NumericMapping = settings.numeric_mapping
        address, parameters, schema = driver_address(settings)
        with _errors(address):
            self._connection: psycopg.Connection[TupleRow] = psycopg.connect(
                make_conninfo(address, **parameters), autocommit=True
            )
        for statement in _SESSION:
            self.execute(statement)
        if schema:
            self.execute("SELECT set_config('search_path', %s, false)", [schema])

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def tables(self, types: Sequence[str], schema_pattern: str | None) -> list[TableName]:
        """Return the tables of the given types outside of system schemas. Raises ConnectError."""
        check_table_types(types, _KINDS)
        kinds = [_KINDS[each.upper()] for each in types]
        return [TableName(*row) for row in self.fetch(_TABLES, [kinds, schema_pattern or "%"])]

    def columns(self, table: TableName) -> list[Column]:
        """Return the columns of a table; none when it does not exist."""
        reference = self.reference(table)
        # `reference` is doubled for statements with parameters; a parameter has the name itself.
        name = reference.replace("%%", "%")
        found = self.fetch(_REQUIRED, [name])
        if not found:
            return []
        required = {column for column, is_required in found if is_required}
        return self.described(reference, required)

    def described(self, source: str, required: Collection[str] = ()) -> list[Column]:
        """Return the columns of a query in brackets or a table; the required ones are NOT NULL."""
        statement = f"SELECT * FROM {source} LIMIT 0"
        with _errors(statement):
            # A plan that is kept fails after an ALTER TABLE, and the driver would keep one soon.
            cursor = self._connection.execute(statement.encode(), (), prepare=False)
        result = cursor.pgresult
        names = [column.name for column in cursor.description or ()]
        types = [
            ColumnType(name, result.ftype(at), result.fmod(at), name in required)
            for at, name in enumerate(names)
            if result is not None
        ]
        return [self._column(each) for each in types]

    def _column(self, kind: ColumnType) -> Column:
        name = self.quoted(kind.name)
        expression = name if kind.is_known else f"{name}::text"
        schema = schema_of(kind, self._mapping)
        return Column(kind.name, schema, expression, kind.is_required, kind.oid)

    def fetch(self, statement: str, parameters: Parameters = ()) -> list[Any]:
        """Run a query and return all rows."""
        with _errors(statement):
            found = self._connection.execute(statement.encode(), parameters, prepare=False)
            return found.fetchall()

    def rows(self, statement: str, parameters: Parameters, size: int) -> Iterator[Sequence[Any]]:
        """Run a query and yield its rows, from a cursor of the server in one transaction."""
        self.begin()
        with _errors(statement):
            cursor = self._connection.cursor(name="barnabas_rows")
            cursor.execute(statement.encode(), parameters)
        while True:
            with _errors(statement):
                found = cursor.fetchmany(size)
            if not found:
                break
            yield from found
        with _errors(statement):
            cursor.close()
        self.commit()

    def execute(self, statement: str, parameters: Parameters = ()) -> int:
        """Run a statement and return the number of rows that it changed."""
        with _errors(statement):
            return self._connection.execute(statement.encode(), parameters).rowcount

    def execute_each(self, statement: str, parameters: Sequence[Parameters]) -> None:
        """Run a statement with one set of parameters after the other, without waiting between."""
        with _errors(statement), self._connection.cursor() as cursor:
            cursor.executemany(statement.encode(), parameters)

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
        """Create and change tables, while other tasks do not until the transaction ends."""
        self.execute("SELECT pg_advisory_xact_lock(%s)", [_DEFINITIONS_LOCK])
        yield

    def check_transactional(self, table: TableName) -> None:
        """Do nothing: every table takes part in transactions."""

    def upsert(self, keys: Sequence[str], values: Sequence[str]) -> str:
        """Return the end of an INSERT that replaces the values of a row with the same key."""
        return on_conflict(keys, values)

    def type_name(self, schema: Schema, *, is_key: bool = False) -> str:
        """Return the type of a column for a schema. Raises DataError."""
        return column_type(schema)

    def parameter(self, schema: Schema, value: Any) -> Any:
        """Return a value of a record as the driver takes it. Raises DataError."""
        return driver_value(schema, value)

    def moment(self, columns: Sequence[Column]) -> Moment:
        """Return the first timestamp that has a value. Raises ConnectError."""
        kinds = {column.kind for column in columns}
        if kinds == {TIMESTAMPTZ_OID}:
            return Moment(
                first_value([each.expression for each in columns]), timestamptz_of, nanos_of
            )
        if kinds <= {TIMESTAMP_OID, DATE_OID}:
            casts = [f"{each.expression}::timestamp" for each in columns]
            return Moment(first_value(casts), timestamp_of, nanos_of)
        raise ConnectError(
            f"timestamp.column.name={listed(each.name for each in columns)}: the columns must all "
            "be timestamps without time zone, or all with it"
        )

    def now_nanos(self) -> int:
        """Return the database's time."""
        return nanos_of(self.fetch("SELECT clock_timestamp()")[0][0])


@contextmanager
def _errors(statement: str) -> Generator[None]:
    """Raise the driver's errors as Connect's, with the statement.

    A lost connection, a deadlock and a timeout may pass. A value that a column or a constraint
    does not accept is refused again; a missing row of a foreign key may still come.
    """
    try:
        yield
    except psycopg.errors.ForeignKeyViolation as error:
        raise RetriableError(_shown(error, statement)) from error
    except (psycopg.DataError, psycopg.IntegrityError) as error:
        raise DataError(_shown(error, statement)) from error
    except (psycopg.OperationalError, psycopg.InterfaceError, psycopg.InternalError) as error:
        raise RetriableError(_shown(error, statement)) from error
    except psycopg.Error as error:
        raise ConnectError(_shown(error, statement)) from error


def _shown(error: psycopg.Error, statement: str) -> str:
    return f"{str(error).strip()} in: {statement}"

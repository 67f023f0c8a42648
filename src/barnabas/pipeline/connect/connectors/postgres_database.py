"""PostgreSQL for the JDBC connectors: `jdbc:postgresql://host:5432/database`, by psycopg.

The parameters of an address are those of PostgreSQL's JDBC driver that matter here. A session that
stays in a transaction without a statement is ended by the server, and a wait for a lock ends too:
a task that was suspended within a batch does not block its successor without limit.
"""

import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Final

import psycopg
from psycopg.conninfo import make_conninfo
from sqlalchemy import ClauseElement, TableClause, Text, cast
from sqlalchemy.dialects.postgresql import TIMESTAMP, insert

from barnabas.pipeline.connect.connectors.column_values import (
    connect_value,
    nanos_of,
    timestamp_of,
    timestamptz_of,
)
from barnabas.pipeline.connect.connectors.database_access import (
    DatabaseSettings,
    TableName,
    listed,
)
from barnabas.pipeline.connect.connectors.postgres_address import driver_address
from barnabas.pipeline.connect.connectors.postgres_types import (
    DATE_OID,
    TIMESTAMP_OID,
    TIMESTAMPTZ_OID,
    ColumnType,
    driver_value,
    schema_of,
)
from barnabas.pipeline.connect.connectors.sql_database import (
    Adapter,
    Database,
    Moment,
    ResultColumn,
)
from barnabas.pipeline.connect.connectors.sql_statements import first_of, on_conflict
from barnabas.pipeline.data.connect_errors import ConnectError, DataError, RetriableError

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


def _upsert(place: TableClause, keys: Sequence[str], values: Sequence[str]) -> Any:
    return on_conflict(insert(place), keys, values)


class PostgresDatabase(Database):
    """A connection to a database."""

    adapter: ClassVar[Adapter] = Adapter(
        _errors,
        driver_value,
        connect_value,
        _upsert,
        session=(
            "SET TimeZone = 'UTC'",
            "SET DateStyle = 'ISO'",
            "SET lock_timeout = '60s'",
            "SET idle_in_transaction_session_timeout = '120s'",
        ),
        table_types=_KINDS,
    )

    def __init__(self, settings: DatabaseSettings) -> None:
        address, parameters, schema = driver_address(settings)

        def connect() -> Any:
            found = psycopg.connect(make_conninfo(address, **parameters), autocommit=True)
            # A plan that is kept fails after an ALTER TABLE: only `executemany` prepares, which
            # has no result whose type could change.
            found.prepare_threshold = sys.maxsize
            return found

        self._mapping = settings.numeric_mapping
        super().__init__(
            "postgresql+psycopg://",
            address,
            creator=connect,
            paramstyle="format",
            use_native_hstore=False,
        )
        if schema:
            self.execute("SELECT set_config('search_path', %s, false)", [schema])

    def tables_of(self, types: Sequence[str], schema_pattern: str | None) -> list[TableName]:
        """Return the tables of the given types outside of system schemas."""
        kinds = [_KINDS[each] for each in types]
        return [TableName(*row) for row in self.fetch(_TABLES, [kinds, schema_pattern or "%"])]

    def columns(self, source: TableName | str) -> list[ResultColumn]:
        """Return the columns of a table or a query; none of a table that does not exist."""
        required: set[str] = set()
        if isinstance(source, TableName):
            # A percent sign is doubled for statements with parameters, and this is a parameter.
            reference = self.sql.reference(source).replace("%%", "%")
            found = self.fetch(_REQUIRED, [reference])
            if not found:
                return []
            required = {column for column, is_required in found if is_required}
        cursor = self.described(source)
        result = cursor.pgresult
        names = [each.name for each in cursor.description]
        return [
            self._column(ColumnType(name, result.ftype(at), result.fmod(at), name in required))
            for at, name in enumerate(names)
        ]

    def _column(self, kind: ColumnType) -> ResultColumn:
        column = self.sql.column(kind.name)
        expression = column if kind.is_known else cast(column, Text)
        schema = schema_of(kind, self._mapping)
        return ResultColumn(kind.name, schema, expression, kind.is_required, kind.oid)

    def rows(self, statement: ClauseElement, size: int) -> Iterator[Sequence[Any]]:
        """Run a query and yield its rows, from a cursor of the server in one transaction."""
        self.begin()
        yield from super().rows(statement, size)
        self.commit()

    def row_cursor(self) -> Any:
        """Return a cursor of the server."""
        return self.driver.cursor(name="barnabas_rows")

    @contextmanager
    def definitions(self) -> Generator[None]:
        """Create and change tables, while other tasks do not until the transaction ends."""
        self.execute("SELECT pg_advisory_xact_lock(%s)", [_DEFINITIONS_LOCK])
        yield

    def moment(self, columns: Sequence[ResultColumn]) -> Moment:
        """Return the first timestamp that has a value. Raises ConnectError."""
        kinds = {column.kind for column in columns}
        expressions = [each.expression for each in columns]
        if kinds == {TIMESTAMPTZ_OID}:
            return Moment(first_of(expressions), timestamptz_of, nanos_of)
        if kinds <= {TIMESTAMP_OID, DATE_OID}:
            casts = [cast(each, TIMESTAMP) for each in expressions]
            return Moment(first_of(casts), timestamp_of, nanos_of)
        raise ConnectError(
            f"timestamp.column.name={listed(each.name for each in columns)}: the columns must all "
            "be timestamps without time zone, or all with it"
        )

    def now_nanos(self) -> int:
        """Return the database's time."""
        return nanos_of(self.fetch("SELECT clock_timestamp()")[0][0])

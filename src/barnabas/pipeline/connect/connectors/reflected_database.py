"""Oracle and SQL Server for the JDBC connectors, by SQLAlchemy's reflection of tables.

Neither was tried against a server. What the other databases have and these have not is refused:
`insert.mode=upsert`, and `query`, whose columns no reflection has: a view does the same.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from decimal import Decimal
from typing import Any, ClassVar, Final

from sqlalchemy import URL, Integer, Numeric, TableClause, Unicode, cast, exc, insert, inspect
from sqlalchemy.types import TypeEngine

from barnabas.pipeline.connect.connectors.column_values import (
    connect_value,
    driver_value,
    nanos_of,
    timestamp_of,
)
from barnabas.pipeline.connect.connectors.database_access import (
    DatabaseSettings,
    TableName,
    listed,
)
from barnabas.pipeline.connect.connectors.reflected_address import (
    NO_QUERY,
    NO_UPSERT,
    ReflectedAddress,
    oracle_address,
    sqlserver_address,
)
from barnabas.pipeline.connect.connectors.reflected_types import (
    ORACLE_TYPES,
    SQLSERVER_TYPES,
    reflected_schema,
)
from barnabas.pipeline.connect.connectors.sql_database import (
    Adapter,
    Database,
    Moment,
    Parameters,
    ResultColumn,
)
from barnabas.pipeline.connect.connectors.sql_statements import first_of
from barnabas.pipeline.data import connect_schema as s
from barnabas.pipeline.data.connect_errors import ConnectError, DataError, RetriableError
from barnabas.pipeline.data.connect_schema import Schema
from barnabas.pipeline.data.java_values import EpochMillis

_KINDS: Final = ("TABLE", "VIEW")
_OF_DRIVER: Final = frozenset({"DatabaseError", "InterfaceError"})
_OF_DATA: Final = frozenset({"IntegrityError", "DataError"})
_PASSING: Final = frozenset({"OperationalError", "InterfaceError", "InternalError"})
_CHANGED: Final = (955, 1_430)
"""Oracle's codes for a table and a column that another task has just created."""


def _oracle_parameter(schema: Schema, value: Any) -> Any:
    """Return a value as Oracle's driver takes it: there are no times and no booleans."""
    if isinstance(value, EpochMillis) and schema.name == s.TIME_NAME:
        return value.ms
    return int(value) if isinstance(value, bool) else driver_value(schema, value)


def _connect_value(schema: Schema, value: Any) -> Any:
    """Return a value of the schema; Oracle's driver has decimals without fraction as integers."""
    is_decimal = schema.name == s.DECIMAL_NAME and isinstance(value, int | float)
    return connect_value(schema, Decimal(str(value)) if is_decimal else value)


def _no_upsert(place: TableClause, keys: Sequence[str], values: Sequence[str]) -> Any:
    if values:
        raise ConnectError(NO_UPSERT)
    return insert(place)


@contextmanager
def _errors(statement: str) -> Generator[None]:
    """Raise errors as Connect's, by the names of classes that all drivers have."""
    try:
        yield
    except Exception as error:
        names = {each.__name__ for each in type(error).__mro__}
        if not names & _OF_DRIVER:
            raise
        shown = f"{error} in: {statement}"
        if names & _OF_DATA:
            raise DataError(shown) from error
        code = getattr(error.args[0] if error.args else None, "code", None)
        is_passing = names & _PASSING or code in _CHANGED
        raise (RetriableError if is_passing else ConnectError)(shown) from error


class ReflectedDatabase(Database):
    """A connection to a database whose tables SQLAlchemy describes."""

    now: ClassVar[str]
    """The query of the time in UTC."""

    def __init__(
        self, settings: DatabaseSettings, address: ReflectedAddress, driver: str, **parts: Any
    ) -> None:
        self._mapping = settings.numeric_mapping
        url = URL.create(
            driver, settings.user, settings.password, address.host, address.port, **parts
        )
        super().__init__(url, f"{address.host}:{address.port}")

    def tables_of(self, types: Sequence[str], schema_pattern: str | None) -> list[TableName]:
        """Return the tables of the schema of the user, or of the schema that is named."""
        found = inspect(self.connection)
        names = found.get_table_names(schema_pattern) if "TABLE" in types else []
        names += found.get_view_names(schema_pattern) if "VIEW" in types else []
        return [TableName(schema_pattern or "", each) for each in sorted(names)]

    def columns(self, source: TableName | str) -> list[ResultColumn]:
        """Return the columns of a table; none when it does not exist. Raises ConnectError."""
        if isinstance(source, str):
            raise ConnectError(NO_QUERY)
        try:
            found = inspect(self.connection).get_columns(source.table, source.schema or None)
        except exc.NoSuchTableError:
            return []
        return [self._column(each["name"], each["type"], each["nullable"]) for each in found]

    def _column(self, name: str, kind: TypeEngine[Any], is_optional: bool) -> ResultColumn:
        column = self.sql.column(name)
        schema = reflected_schema(name, self._reflected(kind), self._mapping, optional=is_optional)
        if schema is None:
            text = Schema(s.Type.STRING, is_optional)
            return ResultColumn(name, text, cast(column, Unicode(4_000)), not is_optional)
        return ResultColumn(name, schema, column, not is_optional)

    def _reflected(self, kind: TypeEngine[Any]) -> TypeEngine[Any]:
        return kind

    def insert_new(self, statement: str, parameters: Parameters) -> int:
        """Insert a row; return 0 when another one has its key."""
        try:
            return self.execute(statement, parameters)
        except DataError:
            return 0

    def moment(self, columns: Sequence[ResultColumn]) -> Moment:
        """Return the first timestamp that has a value. Raises ConnectError."""
        others = [each.name for each in columns if each.schema.name != s.TIMESTAMP_NAME]
        if others:
            raise ConnectError(
                f"timestamp.column.name={listed(others)}: the columns must be timestamps without "
                "time zone"
            )
        return Moment(first_of([each.expression for each in columns]), timestamp_of, nanos_of)

    def now_nanos(self) -> int:
        """Return the database's time."""
        return nanos_of(self.fetch(self.now)[0][0])


class OracleDatabase(ReflectedDatabase):
    """A connection to Oracle by oracledb. Creating or changing a table commits the transaction."""

    adapter: ClassVar[Adapter] = Adapter(
        _errors,
        _oracle_parameter,
        _connect_value,
        _no_upsert,
        ORACLE_TYPES,
        is_quoted=False,
        table_types=_KINDS,
    )
    are_definitions_transactional: ClassVar[bool] = False
    now: ClassVar[str] = "SELECT CAST(SYS_EXTRACT_UTC(SYSTIMESTAMP) AS TIMESTAMP) FROM dual"

    def __init__(self, settings: DatabaseSettings) -> None:
        address = oracle_address(settings.url)
        query = {"service_name": str(address.database)}
        super().__init__(settings, address, "oracle+oracledb", query=query)

    def _reflected(self, kind: TypeEngine[Any]) -> TypeEngine[Any]:
        """Return a number for what Oracle calls an integer, which has 38 digits."""
        return Numeric(38, 0) if isinstance(kind, Integer) else kind

    def begin(self) -> None:
        """Begin a transaction: no statement does, it begins where the driver does not commit."""
        with self.errors("BEGIN"):
            self.driver.autocommit = False

    def commit(self) -> None:
        """Commit the transaction."""
        super().commit()
        self.driver.autocommit = True

    def rollback(self) -> None:
        """Roll the transaction back."""
        with suppress(RetriableError):
            self.execute("ROLLBACK")
            self.driver.autocommit = True


class SqlserverDatabase(ReflectedDatabase):
    """A connection to SQL Server by pymssql."""

    adapter: ClassVar[Adapter] = Adapter(
        _errors,
        driver_value,
        _connect_value,
        _no_upsert,
        SQLSERVER_TYPES,
        session=("SET LOCK_TIMEOUT 60000", "SET XACT_ABORT ON"),
        table_types=_KINDS,
    )
    now: ClassVar[str] = "SELECT SYSUTCDATETIME()"

    def __init__(self, settings: DatabaseSettings) -> None:
        address = sqlserver_address(settings.url)
        super().__init__(settings, address, "mssql+pymssql", database=address.database)

    def begin(self) -> None:
        """Begin a transaction."""
        self.execute("BEGIN TRANSACTION")

    @contextmanager
    def definitions(self) -> Generator[None]:
        """Create and change tables, while other tasks do not until the transaction ends."""
        self.execute("EXEC sp_getapplock 'barnabas_definitions', 'Exclusive', 'Transaction', 60000")
        yield

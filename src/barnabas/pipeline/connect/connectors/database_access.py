"""Databases as the JDBC connectors see them: their addresses, the names of tables, `connect`.

Tasks run in Python processes without a JVM, so an address is opened by the Python driver of its
database, with SQLAlchemy around it (`sql_database`): SQLite by Python's own driver
(`sqlite_database`), PostgreSQL by psycopg (`postgres_database`), MariaDB and MySQL by PyMySQL
(`mysql_database`), Oracle by oracledb and SQL Server by pymssql (`reflected_database`). Another
database is refused.

SQLAlchemy and the drivers are imported by `connect`, not by this module.
"""

from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from importlib import import_module
from typing import TYPE_CHECKING, Final
from urllib.parse import SplitResult, parse_qsl, urlsplit

import attrs

from barnabas.pipeline.data.connect_errors import ConnectError
from barnabas.pipeline.definitions.config_types import ParsedValue, Password

if TYPE_CHECKING:
    from barnabas.pipeline.connect.connectors.sql_database import Database

SQLITE_PREFIX: Final = "jdbc:sqlite:"
POSTGRES_PREFIX: Final = "jdbc:postgresql:"
ORACLE_PREFIX: Final = "jdbc:oracle:thin:@"
SQLSERVER_PREFIX: Final = "jdbc:sqlserver://"
MYSQL_PREFIXES: Final = ("jdbc:mariadb:", "jdbc:mysql:")
_NAME_PARTS_MAX: Final = 2


_DATABASES: Final[tuple[tuple[tuple[str, ...], str, str, str, str], ...]] = (
    ((SQLITE_PREFIX,), "SQLite", "jdbc", "sqlite_database", "SqliteDatabase"),
    ((POSTGRES_PREFIX,), "PostgreSQL", "jdbc", "postgres_database", "PostgresDatabase"),
    (MYSQL_PREFIXES, "MariaDB and MySQL", "jdbc", "mysql_database", "MysqlDatabase"),
    ((ORACLE_PREFIX,), "Oracle", "oracle", "reflected_database", "OracleDatabase"),
    ((SQLSERVER_PREFIX,), "SQL Server", "sqlserver", "reflected_database", "SqlserverDatabase"),
)
"""For each prefix of addresses: the database, the extra with its driver, its module and class."""


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


def connect(settings: DatabaseSettings) -> "Database":
    """Return an open connection. Raises ConnectError."""
    for prefixes, title, extra, module, name in _DATABASES:
        if settings.url.startswith(prefixes):
            try:
                found = import_module(f"{__package__}.{module}")
                return getattr(found, name)(settings)
            except ImportError as error:
                raise ConnectError(
                    f"the driver of {title} is missing ({error}): pip install 'barnabas[{extra}]'"
                ) from error
    raise unsupported(settings.url)


def unsupported(url: str) -> ConnectError:
    """Return the error for a database without a driver here."""
    return ConnectError(
        f"connection.url={url.partition('?')[0]}: this database is not supported; use "
        f"{SQLITE_PREFIX}/path/of/file, {POSTGRES_PREFIX}//host:5432/database, "
        "jdbc:mariadb://host:3306/database, jdbc:mysql://host:3306/database, "
        f"{ORACLE_PREFIX}//host:1521/service or {SQLSERVER_PREFIX}host:1433;databaseName=database"
    )


def file_of(url: str) -> str:
    """Return the file of an address of SQLite. Raises ConnectError when it has none."""
    path = url.removeprefix(SQLITE_PREFIX).partition("?")[0]
    if not path:
        raise ConnectError(f"connection.url must name a file: {SQLITE_PREFIX}/path/of/file")
    return path


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


def table_of(text: str) -> TableName:
    """Return the table of "table" or "schema.table". Raises ConnectError."""
    parts = text.split(".")
    if len(parts) > _NAME_PARTS_MAX or not all(parts):
        raise ConnectError(
            f"{text!r} is not the name of a table: use table or schema.table (see "
            "table.name.format)"
        )
    return TableName(*parts) if len(parts) == _NAME_PARTS_MAX else TableName("", text)

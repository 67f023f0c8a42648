"""Addresses of Oracle and SQL Server, in the forms of their JDBC drivers."""

import re
from typing import Final

import attrs

from barnabas.pipeline.connect.connectors.database_access import ORACLE_PREFIX, SQLSERVER_PREFIX
from barnabas.pipeline.data.connect_errors import ConnectError

_ORACLE: Final = re.compile(r"(?://)?([\w.-]+)(?::(\d+))?/([\w.$#-]+)")
_SQLSERVER: Final = re.compile(r"([\w.-]+)(?::(\d+))?(?:;database(?:Name)?=([^;]+))?;?")
_ORACLE_PORT: Final = 1521
_SQLSERVER_PORT: Final = 1433

NO_UPSERT: Final = (
    "insert.mode=upsert is not supported for Oracle and SQL Server: set insert.mode=insert or "
    "insert.mode=update"
)
NO_QUERY: Final = (
    "query is not supported for Oracle and SQL Server: create a view, and set table.types=VIEW"
)


@attrs.frozen
class ReflectedAddress:
    """A host, a port, and an Oracle service or a database of SQL Server."""

    host: str
    port: int
    database: str | None


def oracle_address(url: str) -> ReflectedAddress:
    """Return the parts of an address of Oracle. Raises ConnectError."""
    form = f"{ORACLE_PREFIX}//host:{_ORACLE_PORT}/service"
    return _address(url, ORACLE_PREFIX, _ORACLE, form, _ORACLE_PORT)


def sqlserver_address(url: str) -> ReflectedAddress:
    """Return the parts of an address of SQL Server. Raises ConnectError."""
    form = f"{SQLSERVER_PREFIX}host:{_SQLSERVER_PORT};databaseName=database"
    return _address(url, SQLSERVER_PREFIX, _SQLSERVER, form, _SQLSERVER_PORT)


def _address(
    url: str, prefix: str, pattern: re.Pattern[str], form: str, port: int
) -> ReflectedAddress:
    found = pattern.fullmatch(url.removeprefix(prefix))
    if found is None:
        # The address may have a password, which an error does not show.
        raise ConnectError(
            f"connection.url is not of the form {form}; no other parameter is supported (set "
            "connection.user and connection.password)"
        )
    return ReflectedAddress(found[1], int(found[2] or port), found[3])

"""Addresses of PostgreSQL: the driver's arguments, by the names of PostgreSQL's JDBC driver."""

from typing import Final
from urllib.parse import unquote

from barnabas.pipeline.connect.connectors.database_access import (
    POSTGRES_PREFIX,
    DatabaseSettings,
    checked_address,
)

_PARAMETERS: Final = {
    "user": "user",
    "password": "password",
    "sslmode": "sslmode",
    "sslrootcert": "sslrootcert",
    "sslcert": "sslcert",
    "sslkey": "sslkey",
    "connectTimeout": "connect_timeout",
    "ApplicationName": "application_name",
}
_SCHEMA_PARAMETER: Final = "currentSchema"


def driver_address(settings: DatabaseSettings) -> tuple[str, dict[str, str], str]:
    """Return psycopg's address and parameters, and the schema to look tables up in.

    Raises ConnectError.
    """
    known = {*_PARAMETERS, _SCHEMA_PARAMETER}
    parts, given = checked_address(settings.url, POSTGRES_PREFIX, known)
    schema = given.pop(_SCHEMA_PARAMETER, "")
    parameters = {_PARAMETERS[name]: value for name, value in given.items()}
    if not parts.netloc:
        parameters["host"] = "localhost"
    if settings.user is not None:
        parameters["user"] = settings.user
    if settings.password is not None:
        parameters["password"] = settings.password
    parameters["dbname"] = unquote(parts.path.strip("/")) or parameters.get("user", "postgres")
    return f"postgresql://{parts.netloc}", parameters, schema

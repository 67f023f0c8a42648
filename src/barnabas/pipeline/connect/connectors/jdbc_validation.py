"""Errors in the configuration of a JDBC connector that are seen without a connection.

Each has the name of its property, so validation reports all of them at once.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from barnabas.pipeline.connect.connectors.database_access import (
    MYSQL_PREFIXES,
    ORACLE_PREFIX,
    POSTGRES_PREFIX,
    SQLITE_PREFIX,
    SQLSERVER_PREFIX,
    DatabaseSettings,
    file_of,
    listed,
    unsupported,
)
from barnabas.pipeline.connect.connectors.jdbc_config import texts
from barnabas.pipeline.connect.connectors.mysql_address import check_host
from barnabas.pipeline.connect.connectors.postgres_address import driver_address
from barnabas.pipeline.connect.connectors.reflected_address import (
    NO_QUERY,
    NO_UPSERT,
    oracle_address,
    sqlserver_address,
)
from barnabas.pipeline.data.connect_errors import ConnectError
from barnabas.pipeline.definitions.config_types import ParsedValue

_URL: Final = "connection.url"
_KAFKA_KEY_COLUMNS: Final = 3

Errors = Iterable[tuple[str, str]]


def raise_first(errors: Errors) -> None:
    """Raise ConnectError for the first error, if there is one."""
    for _, message in errors:
        raise ConnectError(message)


def source_errors(values: Mapping[str, ParsedValue]) -> Iterator[tuple[str, str]]:
    """Yield the errors of a source; `values` lacks the properties whose value is not valid."""
    yield from _address_errors(values)
    mode = values.get("mode", "")
    for part in ("timestamp", "incrementing"):
        name = f"{part}.column.name"
        if part in str(mode) and not values.get(name, True):
            yield name, f"mode={mode} needs {name}"
    if values.get("query") and _is_reflected(values):
        yield "query", NO_QUERY
    has_lists = bool(values.get("table.whitelist") or values.get("table.blacklist"))
    if values.get("query") and has_lists:
        yield "query", "set query, or table.whitelist and table.blacklist, not both"
    if values.get("table.whitelist") and values.get("table.blacklist"):
        yield "table.blacklist", "set table.whitelist or table.blacklist, not both"


def sink_errors(values: Mapping[str, ParsedValue]) -> Iterator[tuple[str, str]]:
    """Yield the errors of a sink; `values` lacks the properties whose value is not valid."""
    yield from _address_errors(values)
    if values.get("insert.mode") == "upsert" and _is_reflected(values):
        yield "insert.mode", NO_UPSERT
    mode, pk_mode = values.get("insert.mode", "insert"), values.get("pk.mode")
    if mode != "insert" and pk_mode == "none":
        yield "pk.mode", f"insert.mode={mode} needs a primary key: set pk.mode"
    if values.get("delete.enabled") is True and pk_mode not in ("record_key", None):
        yield (
            "delete.enabled",
            f"delete.enabled needs pk.mode=record_key: pk.mode={pk_mode}, and a record without "
            "a value has no other key",
        )
    keys = texts(values, "pk.fields") if "pk.fields" in values else []
    if pk_mode == "kafka" and keys and len(keys) != _KAFKA_KEY_COLUMNS:
        yield (
            "pk.fields",
            f"pk.fields={listed(keys)}: pk.mode=kafka needs three columns, for topic, "
            "partition and offset, or none",
        )


def _is_reflected(values: Mapping[str, ParsedValue]) -> bool:
    return str(values.get(_URL)).startswith((ORACLE_PREFIX, SQLSERVER_PREFIX))


def _address_errors(values: Mapping[str, ParsedValue]) -> Iterator[tuple[str, str]]:
    url = values.get(_URL)
    if not isinstance(url, str):
        return
    try:
        if url.startswith(SQLITE_PREFIX):
            file_of(url)
        elif url.startswith(POSTGRES_PREFIX):
            driver_address(DatabaseSettings(url))
        elif url.startswith(MYSQL_PREFIXES):
            check_host(url)
        elif url.startswith(ORACLE_PREFIX):
            oracle_address(url)
        elif url.startswith(SQLSERVER_PREFIX):
            sqlserver_address(url)
        else:
            raise unsupported(url)
    except ConnectError as error:
        yield _URL, str(error)

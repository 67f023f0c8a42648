"""Rows of tables as records: the connector; `jdbc_source_task` has its tasks.

The tasks' module imports SQLAlchemy, so it is imported where the tasks run.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from barnabas.pipeline.connect.connectors.database_access import (
    DatabaseSettings,
    TableName,
    connect,
    listed,
)
from barnabas.pipeline.connect.connectors.jdbc_config import SOURCE, TABLES, texts
from barnabas.pipeline.connect.connectors.jdbc_validation import raise_first, source_errors
from barnabas.pipeline.connect.plugin_api import Properties, SourceTask
from barnabas.pipeline.data.connect_errors import ConnectError
from barnabas.pipeline.definitions.config_def import ConfigDef
from barnabas.pipeline.definitions.config_types import ParsedValue


class JdbcSourceConnector:
    """Divides the tables among tasks."""

    kind: ClassVar[str] = "source"
    java_class = "io.confluent.connect.jdbc.JdbcSourceConnector"

    def config(self) -> ConfigDef:
        """Return the definition of the connector's properties."""
        return SOURCE

    def config_errors(self, values: Mapping[str, ParsedValue]) -> Iterator[tuple[str, str]]:
        """Return the errors that are seen without a connection."""
        return source_errors(values)

    def task_configs(self, props: Properties, max_tasks: int) -> list[dict[str, str]]:
        """Return the tasks, each with some tables. Raises ConnectError."""
        values = SOURCE.parse(props)
        raise_first(source_errors(values))
        wanted, unwanted = texts(values, "table.whitelist"), texts(values, "table.blacklist")
        if values["query"]:
            return [dict(props)]
        tables = _tables(values, wanted, unwanted)
        count = min(max_tasks, len(tables))
        shares = [tables[first::count] for first in range(count)]
        return [{**props, TABLES: json.dumps([[*_names(t)] for t in share])} for share in shares]

    def source_task(self) -> type[SourceTask]:
        """Return the class of the tasks."""
        from barnabas.pipeline.connect.connectors.jdbc_source_task import JdbcSourceTask

        return JdbcSourceTask

    def check_offset(self, partition: Mapping[str, Any], offset: Mapping[str, Any] | None) -> None:
        """Raise ConnectError when an offset given by a user does not fit."""
        if offset is None:
            return
        known = {"incrementing", "timestamp", "timestamp_nanos"}
        if not offset or not offset.keys() <= known:
            raise ConnectError(f"the offset may have {', '.join(sorted(known))} only")
        if any(type(value) is not int for value in offset.values()):
            raise ConnectError("the values of an offset must be whole numbers")


def _tables(
    values: Mapping[str, ParsedValue], wanted: Sequence[str], unwanted: Sequence[str]
) -> list[TableName]:
    """Return the tables of the database that the lists select. Raises ConnectError."""
    types, pattern = texts(values, "table.types"), values["schema.pattern"]
    database = connect(DatabaseSettings.of(values))
    try:
        found = database.tables(types, None if pattern is None else str(pattern))
    finally:
        database.close()
    found = [each for each in found if not each.table.startswith("barnabas_")]
    missing = [name for name in wanted if not any(_is_named(each, name) for each in found)]
    if missing:
        raise ConnectError(
            f"table.whitelist={listed(missing)}: the database has no such table of table.types="
            f"{listed(types)}"
        )
    if wanted:
        found = [each for each in found if any(_is_named(each, name) for name in wanted)]
    found = [each for each in found if not any(_is_named(each, name) for name in unwanted)]
    if not found:
        raise ConnectError("no table matches table.whitelist and table.blacklist")
    by_topic: dict[str, TableName] = {}
    for each in found:
        other = by_topic.setdefault(each.table, each)
        if other is not each:
            raise ConnectError(
                f"{other} and {each} would have one topic: select one by schema.pattern or "
                "table.whitelist, and the other in a job with another topic.prefix"
            )
    return found


def _is_named(table: TableName, name: str) -> bool:
    """True when a name of a list means the table: with or without its schema and quotes."""
    plain = name.replace('"', "").replace("`", "")
    return plain in (table.table, str(table))


def _names(table: TableName) -> tuple[str, str]:
    return table.schema, table.table

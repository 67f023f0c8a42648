"""The query of a job's configuration, planned on the definitions that the configuration has."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from barnabas.pipeline.definitions.config_types import ConfigValueError
from barnabas.pipeline.sql.analysis.plan_values import WrittenQuery
from barnabas.pipeline.sql.analysis.query_analysis import plan_of
from barnabas.pipeline.sql.catalog.catalog_changes import Catalog
from barnabas.pipeline.sql.functions.aggregate_properties import (
    AGGREGATE_PROPERTIES,
    AggregateProperties,
    aggregate_properties,
    check_property,
)
from barnabas.pipeline.sql.hosting.query_properties import DEFINITIONS, STATEMENT
from barnabas.pipeline.sql.scripts import StatementText, parse_statement
from barnabas.pipeline.sql.sql_failures import SqlError, UnresolvedError
from barnabas.pipeline.sql.statement_values import CreateSource, InsertSelect, Select
from barnabas.pipeline.sql.stored.object_codec import UnreadableObjectError, read_definitions

if TYPE_CHECKING:
    from collections.abc import Mapping


def planned_statement(props: Mapping[str, str]) -> WrittenQuery:
    """Return the plan of a configuration, and the source that it writes.

    Raises ConfigValueError.
    """
    text = props.get(STATEMENT, "")
    properties = _aggregate_properties(props)
    try:
        known = read_definitions(_loaded(props.get(DEFINITIONS, "")))
    except UnreadableObjectError as error:
        raise ConfigValueError.of(DEFINITIONS, props.get(DEFINITIONS), str(error)) from None
    catalog = Catalog(known.sources, known.types)
    try:
        name, query, is_insert = _parts(text)
        plan = plan_of(query, catalog, is_persistent=True, properties=properties)
        return WrittenQuery(plan, catalog.source(name), not is_insert, is_insert)
    except (SqlError, UnresolvedError) as error:
        raise ConfigValueError.of(STATEMENT, text, str(error)) from None


def _aggregate_properties(props: Mapping[str, str]) -> AggregateProperties:
    for name in AGGREGATE_PROPERTIES:
        try:
            check_property(name, props.get(name, "0"))
        except UnresolvedError as error:
            raise ConfigValueError.of(name, props[name], str(error)) from None
    return aggregate_properties(props)


def _parts(text: str) -> tuple[str, Select, bool]:
    """Return the sink, the SELECT, and whether it is an INSERT. Raises SqlError."""
    statement = parse_statement(StatementText(text, 1, 1), {})
    if isinstance(statement, InsertSelect):
        return statement.target, statement.query, True
    if isinstance(statement, CreateSource) and statement.query is not None:
        return statement.name, statement.query, False
    raise SqlError("A query is CREATE .. AS SELECT, or INSERT INTO .. SELECT", 1, 1)


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ConfigValueError.of(DEFINITIONS, text, f"Not JSON: {error}") from None

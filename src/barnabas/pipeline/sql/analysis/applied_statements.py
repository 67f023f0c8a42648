"""Statements applied to a catalog: what each changes, and the query that it starts."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from barnabas.pipeline.sql import statement_values as st
from barnabas.pipeline.sql.analysis.plan_values import WrittenQuery
from barnabas.pipeline.sql.analysis.written_results import created, inserted
from barnabas.pipeline.sql.catalog.catalog_changes import (
    Catalog,
    PersistentQuery,
    query_number,
)
from barnabas.pipeline.sql.catalog.source_definitions import declared
from barnabas.pipeline.sql.sql_failures import SqlError, UnresolvedError

if TYPE_CHECKING:
    from barnabas.pipeline.sql.catalog.source_definitions import Defaults

_PREFIXES: Final = {"STREAM": "CSAS", "TABLE": "CTAS"}
_NAME: Final = re.compile(r"[A-Za-z0-9_]{1,200}")

Definition = (
    st.CreateSource
    | st.InsertSelect
    | st.DropSource
    | st.AddColumns
    | st.CreateType
    | st.DropType
    | st.QueryControl
)
"""The statements that change a catalog."""


@dataclass(frozen=True)
class StartedQuery:
    """A persistent query that a statement starts."""

    name: str
    query: WrittenQuery


@dataclass(frozen=True)
class Applied:
    """The catalog behind a statement, and the query that it starts, if any."""

    catalog: Catalog
    started: StartedQuery | None = None


def applied(
    statement: Definition,
    catalog: Catalog,
    defaults: Defaults,
    text: str = "",
    name: str | None = None,
) -> Applied:
    """Return what a statement makes of a catalog. Raises SqlError.

    `name` is that of the query that it starts; None for the next one.
    """
    try:
        return _applied(statement, catalog, defaults, text, name)
    except UnresolvedError as error:
        raise SqlError(str(error), *statement.at) from None


def _applied(
    statement: Definition, catalog: Catalog, defaults: Defaults, text: str, name: str | None
) -> Applied:
    if isinstance(statement, st.CreateSource):
        return _created(statement, catalog, defaults, text, name)
    if isinstance(statement, st.InsertSelect):
        return _started("INSERTQUERY", inserted(statement, catalog), catalog, text, name)
    if isinstance(statement, st.DropSource):
        return Applied(catalog.without_source(statement))
    if isinstance(statement, st.AddColumns):
        return Applied(catalog.with_columns(statement))
    if isinstance(statement, st.CreateType):
        return Applied(catalog.with_type(statement))
    if isinstance(statement, st.DropType):
        return Applied(catalog.without_type(statement))
    return Applied(_controlled(statement, catalog))


def _controlled(statement: st.QueryControl, catalog: Catalog) -> Catalog:
    if statement.action != "TERMINATE":
        return catalog
    if statement.query is None:
        return replace(catalog, queries=())
    return catalog.without_query(statement.query)


def _created(
    statement: st.CreateSource, catalog: Catalog, defaults: Defaults, text: str, name: str | None
) -> Applied:
    if statement.or_replace and statement.read_only:
        raise UnresolvedError(
            f"{statement.name} is a SOURCE, which is not replaced: DROP it, then CREATE SOURCE"
        )
    if statement.if_not_exists and statement.name in catalog.sources:
        return Applied(catalog)
    if statement.query is None:
        source = declared(statement, catalog.types, defaults)
        return Applied(catalog.with_source(source, or_replace=statement.or_replace))
    found = created(statement, statement.query, catalog, defaults)
    changed = catalog.with_source(found.sink, or_replace=statement.or_replace)
    return _started(_PREFIXES[statement.kind], found, changed, text, name)


def _started(
    prefix: str, found: WrittenQuery, catalog: Catalog, text: str, given: str | None
) -> Applied:
    name = given or f"{prefix}_{found.sink.name}_{catalog.started}"
    if given is not None:
        _check_name(given, prefix, catalog)
    reads = tuple(dict.fromkeys(each.source.name for each in found.plan.relations))
    query = PersistentQuery(name, found.sink.name, reads, text)
    started = max(catalog.started, query_number(name)) + 1
    return Applied(replace(catalog.with_query(query), started=started), StartedQuery(name, found))


def _check_name(name: str, prefix: str, catalog: Catalog) -> None:
    """Raise UnresolvedError for a name that a query cannot get."""
    if _NAME.fullmatch(name) is None or not name.startswith(f"{prefix}_"):
        raise UnresolvedError(
            f"The name of the query begins with {prefix}_ and has letters, digits and _, and is "
            f"not '{name}'"
        )
    if any(each.name == name for each in catalog.queries):
        raise UnresolvedError(
            f"There is a query {name} already: SET another barnabas.sql.query.name, or UNSET it"
        )

"""SHOW and DESCRIBE: what the catalog has, as tables of texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.pipeline.sql.functions.function_table import FUNCTIONS
from barnabas.pipeline.sql.shell.session_values import Listing
from barnabas.pipeline.sql.sql_failures import UnresolvedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.pipeline.sql.catalog.catalog_changes import Catalog
    from barnabas.pipeline.sql.catalog.source_values import Source
    from barnabas.pipeline.sql.statement_values import Describe, Show


def shown(statement: Show, catalog: Catalog, variables: Mapping[str, str]) -> Listing:
    """Return the objects that SHOW lists. Raises UnresolvedError for a kind that is missing."""
    if statement.subject in ("STREAMS", "TABLES"):
        return _sources(catalog, statement.subject.removesuffix("S"))
    if statement.subject == "QUERIES":
        rows = [(each.name, each.sink, ", ".join(each.reads)) for each in catalog.queries]
        return Listing(("query", "writes", "reads"), rows)
    if statement.subject == "TYPES":
        return Listing(("type", "is"), [(name, str(kind)) for name, kind in catalog.types.items()])
    if statement.subject == "VARIABLES":
        return Listing(("variable", "value"), list(variables.items()))
    if statement.subject == "FUNCTIONS":
        rows = [(each.name, each.kind, each.category) for each in FUNCTIONS.values()]
        return Listing(("function", "kind", "category"), sorted(rows))
    raise UnresolvedError(f"SHOW {statement.subject} does not run yet")


def _sources(catalog: Catalog, kind: str) -> Listing:
    rows = [
        (
            each.name,
            each.topic,
            each.key_format.name,
            each.value_format.name,
            "-" if each.window is None else each.window.kind,
        )
        for each in catalog.sources.values()
        if each.kind == kind
    ]
    return Listing((kind.lower(), "topic", "key format", "value format", "windows"), rows)


def described(statement: Describe, catalog: Catalog) -> Listing:
    """Return the columns of a source. Raises UnresolvedError."""
    if statement.subject != "SOURCE" or statement.name is None:
        raise UnresolvedError(f"DESCRIBE {statement.subject} does not run yet")
    source = catalog.source(statement.name)
    return Listing(("column", "type"), [*_columns(source)])


def _columns(source: Source) -> list[tuple[str, str]]:
    role = "primary key" if source.is_table else "key"
    rows = [(each.name, f"{each.type} ({role})") for each in source.key]
    rows += [(each.name, str(each.type)) for each in source.value]
    return rows + [(each.name, f"{each.type} (headers)") for each in source.headers]

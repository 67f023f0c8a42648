"""A statement that changes the catalog: what it makes of it, and which queries start and end."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from barnabas.pipeline.sql import statement_values as st
from barnabas.pipeline.sql.analysis.applied_statements import (
    Applied,
    Definition,
    StartedQuery,
    applied,
)
from barnabas.pipeline.sql.catalog.catalog_changes import Replacement
from barnabas.pipeline.sql.sql_failures import UnresolvedError

if TYPE_CHECKING:
    from barnabas.pipeline.sql.analysis.plan_values import QueryPlan
    from barnabas.pipeline.sql.catalog.catalog_changes import Catalog, PersistentQuery
    from barnabas.pipeline.sql.catalog.source_definitions import Defaults

_INSERTS: Final = "INSERTQUERY"


@dataclass(frozen=True)
class CatalogChange:
    """A statement with what it needs of its session."""

    statement: Definition
    text: str
    defaults: Defaults
    start: str
    """Where a new query reads topics from: earliest or latest."""
    query: str | None = None
    """The name of the query that starts; None for the next one."""

    def applied_to(self, catalog: Catalog) -> AppliedChange:
        """Return what the statement makes of a catalog. Raises SqlError, UnresolvedError."""
        result = applied(self.statement, catalog, self.defaults, self.text, self.query)
        if result.catalog is catalog:
            return AppliedChange(catalog, None, (), is_unchanged=True)
        started = result.started
        replaced = None if started is None else self._replaced(catalog)
        if replaced is None or started is None:
            return _changed(catalog, result)
        if started.query.sink.is_table:
            return _changed(catalog, _beside(result, started, catalog, replaced), is_built=True)
        _check_in_place(replaced, started.query.plan)
        return _changed(catalog, _in_place(result, started, catalog, replaced), is_replaced=True)

    def _replaced(self, catalog: Catalog) -> PersistentQuery | None:
        """Return the query of which CREATE OR REPLACE changes the text. Raises UnresolvedError."""
        statement = self.statement
        if not isinstance(statement, st.CreateSource) or not statement.or_replace:
            return None
        found = [each for each in catalog.queries if each.sink == statement.name]
        if any(each.replacement and each.replacement.phase != "BUILDING" for each in found):
            raise UnresolvedError(
                f"{statement.name} changes to its new query now: repeat the statement in a minute"
            )
        found = [each for each in found if not each.is_pending]
        inserts = [each.name for each in found if each.name.startswith(_INSERTS)]
        if inserts:
            raise UnresolvedError(
                f"{statement.name} is written by {', '.join(inserts)}: TERMINATE these queries, "
                "then replace it"
            )
        return found[0] if found else None


@dataclass(frozen=True)
class AppliedChange:
    """The catalog behind a statement, the query that starts, and the names of those that end."""

    catalog: Catalog
    started: StartedQuery | None
    ended: tuple[str, ...]
    is_replaced: bool = False
    """True when the query that starts continues one of the same name."""
    is_built: bool = False
    """True when the query that starts rebuilds its table, beside the query that has it."""
    released: tuple[str, ...] = ()
    """The queries that had stopped for a swap which is not made any longer."""
    warnings: tuple[str, ...] = ()
    """Sentences for the answer about rows that are missing."""
    is_unchanged: bool = False
    """True behind IF NOT EXISTS and IF EXISTS that had nothing to do."""


def _changed(
    catalog: Catalog, result: Applied, *, is_replaced: bool = False, is_built: bool = False
) -> AppliedChange:
    left = {each.name for each in result.catalog.queries}
    ended = [each for each in catalog.queries if each.name not in left]
    swaps = [each.replacement for each in ended if each.replacement is not None]
    released = [each.query for each in swaps if each.starts_again and each.query in left]
    names = tuple(each.name for each in ended)
    return AppliedChange(
        result.catalog, result.started, names, is_replaced, is_built, tuple(released)
    )


def has_state(plan: QueryPlan) -> bool:
    """True for a query whose state is in a checkpoint."""
    return plan.aggregation is not None or bool(plan.joins) or plan.source.source.is_table


def _check_in_place(replaced: PersistentQuery, plan: QueryPlan) -> None:
    """Raise UnresolvedError where a query cannot continue with another text."""
    reads = tuple(dict.fromkeys(each.source.name for each in plan.relations))
    if reads != replaced.reads:
        raise UnresolvedError(
            f"{replaced.name} reads {', '.join(replaced.reads)}, and the new text reads "
            f"{', '.join(reads)}: DROP {replaced.sink}, then create it again"
        )
    if has_state(plan):
        raise UnresolvedError(
            f"{replaced.name} has state, which the new text may not fit: DROP {replaced.sink}, "
            "then create it again"
        )


def _beside(
    result: Applied, started: StartedQuery, catalog: Catalog, replaced: PersistentQuery
) -> Applied:
    """Return the change in which a query begins to rebuild a table.

    The table stays as it is until the swap. A query that has begun to build it before is ended.
    """
    query = next(each for each in result.catalog.queries if each.name == started.name)
    others = tuple(
        each for each in catalog.queries if each.sink != replaced.sink or not each.is_pending
    )
    built = replace(query, replacement=Replacement(replaced.name, started.query.sink))
    changed = replace(result.catalog, sources=catalog.sources, queries=(*others, built))
    return Applied(changed, started)


def _in_place(
    result: Applied, started: StartedQuery, catalog: Catalog, replaced: PersistentQuery
) -> Applied:
    """Return the change in which a query keeps its name, and gets its new text."""
    query = next(each for each in result.catalog.queries if each.name == started.name)
    queries = tuple(
        replace(query, name=each.name) if each.name == replaced.name else each
        for each in catalog.queries
    )
    changed = replace(result.catalog, queries=queries, started=catalog.started)
    return Applied(changed, replace(started, name=replaced.name))

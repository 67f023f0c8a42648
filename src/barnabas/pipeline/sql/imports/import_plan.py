"""The plan of an import: each statement that is in force, and whether it runs here.

The statements are applied to a catalog in memory, by the rules with which a session applies those
that are typed, so the reason of one that cannot run is the error that it would get.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from barnabas.pipeline.sql import statement_values as st
from barnabas.pipeline.sql.analysis.applied_statements import Definition
from barnabas.pipeline.sql.catalog.catalog_changes import Catalog
from barnabas.pipeline.sql.catalog.source_definitions import Defaults
from barnabas.pipeline.sql.imports.source_statements import source_statement
from barnabas.pipeline.sql.scripts import parse_statement, statement_texts
from barnabas.pipeline.sql.shell.catalog_change import CatalogChange
from barnabas.pipeline.sql.sql_failures import SqlError, UnresolvedError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from barnabas.pipeline.sql.imports.live_commands import LiveCommand
    from barnabas.pipeline.sql.shell.catalog_change import AppliedChange

_QUERIES: Final = ("CSAS", "CTAS", "INSERTQUERY")


@dataclass(frozen=True)
class ImportStep:
    """A statement of the plan."""

    text: str
    start: str
    """The first position of its query in a topic: earliest or latest."""
    query: str | None = None
    """The id of its query; None without a query, and where a new one is given."""
    problem: str | None = None
    """Why it cannot run."""
    is_there: bool = False
    """True when the server has the stream, the table, the type or the query already."""


def planned(
    commands: Iterable[LiveCommand], known: Collection[str] = (), start: str | None = None
) -> list[ImportStep]:
    """Return the statements of an import in the order in which they run.

    `known` are the names that a server has: of streams, tables, types and queries. `start` is the
    first position of all queries, instead of that which each has.
    """
    plan = _Plan(known, start)
    return [step for each in commands for step in plan.steps(each)]


class _Plan:
    """The catalog that the statements make, and the names of sources that are not made."""

    def __init__(self, known: Collection[str], start: str | None) -> None:
        self._known = known
        self._start = start
        self._catalog = Catalog()
        self._missing: set[str] = set()

    def steps(self, live: LiveCommand) -> Iterator[ImportStep]:
        command = live.command
        step = ImportStep(command.text, self._start or command.start, _kept(command.query))
        try:
            statement, result = self._applied(step)
        except (SqlError, UnresolvedError) as error:
            if not command.is_insert:
                self._missing.add(command.name)
            yield replace(step, problem=self._reason(str(error)))
            return
        made = result.started
        if made is not None and live.is_terminated:
            step = replace(step, text=source_statement(made.query.sink), query=None)
            result = replace(result, catalog=result.catalog.without_query(made.name))
        self._catalog = result.catalog
        name = step.query if isinstance(statement, st.InsertSelect) else command.name
        yield replace(step, is_there=name in self._known)

    def _applied(self, step: ImportStep) -> tuple[Definition, AppliedChange]:
        """Return a statement and its change. Raises SqlError, UnresolvedError."""
        sources = list(statement_texts(step.text))
        if len(sources) != 1:
            raise UnresolvedError(f"it has {len(sources)} statements, and a command has one")
        statement = parse_statement(sources[0], {})
        if not isinstance(statement, Definition):
            raise UnresolvedError("it makes no stream, table, type or query")
        if isinstance(statement, st.QueryControl):
            raise UnresolvedError("queries run when they are created: send it then")
        change = CatalogChange(statement, step.text, Defaults(), step.start, step.query)
        return statement, change.applied_to(self._catalog)

    def _reason(self, text: str) -> str:
        for name in sorted(self._missing):
            if f"There is no stream or table {name};" in text or text.endswith(f"table {name}"):
                return f"it needs {name}, which is not imported"
        return text


def _kept(query: str | None) -> str | None:
    """Return the id of a query where it begins as those of queries here do."""
    return query if query is not None and query.startswith(_QUERIES) else None

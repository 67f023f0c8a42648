"""The catalog as a value: sources, declared types and queries, and the changes of statements."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from barnabas.pipeline.sql.catalog.format_rules import WRAPPING_FORMATS
from barnabas.pipeline.sql.catalog.source_values import (
    RESERVED_COLUMNS,
    Format,
    Source,
    SourceColumn,
    SourceWindow,
)
from barnabas.pipeline.sql.sql_failures import UnresolvedError, nearest
from barnabas.pipeline.sql.sql_types import SqlType, resolved

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.pipeline.sql.statement_values import (
        AddColumns,
        CreateType,
        DropSource,
        DropType,
    )


ReplacementPhase: TypeAlias = Literal["BUILDING", "SWAPPING", "REMOVING"]
"""BUILDING: both queries run. SWAPPING: they stop, and the rows are exchanged. REMOVING: the new
query has the table, and what is left of the earlier one is removed."""


@dataclass(frozen=True)
class Replacement:
    """The table that a query of CREATE OR REPLACE takes over from another query."""

    query: str
    """The query that it replaces."""
    sink: Source
    """The table, as it is after the swap."""
    phase: ReplacementPhase = "BUILDING"
    stays_stopped: bool = False
    """True when the query that it replaces had been stopped before the swap began."""

    @property
    def starts_again(self) -> bool:
        """True when the replaced query is started again if the swap fails: the swap stopped it."""
        return self.phase == "SWAPPING" and not self.stays_stopped


@dataclass(frozen=True)
class PersistentQuery:
    """A query that runs until it is terminated: its name, what it reads and what it writes."""

    name: str
    sink: str
    reads: tuple[str, ...]
    text: str
    """The statement that made it."""
    replacement: Replacement | None = None
    """None for a query that has its sink alone."""

    @property
    def is_pending(self) -> bool:
        """True until the query has taken its table over."""
        return self.replacement is not None and self.replacement.phase != "REMOVING"


def query_number(name: str) -> int:
    """Return the number at the end of a query's name, which is that of its start; -1 without."""
    text = name.rpartition("_")[2]
    return int(text) if text.isascii() and text.isdecimal() else -1


def _no_sources() -> dict[str, Source]:
    return {}


def _no_types() -> dict[str, SqlType]:
    return {}


@dataclass(frozen=True)
class Catalog:
    """All that statements have made so far."""

    sources: Mapping[str, Source] = field(default_factory=_no_sources)
    types: Mapping[str, SqlType] = field(default_factory=_no_types)
    queries: tuple[PersistentQuery, ...] = ()
    started: int = 0
    """The number of queries that were started so far, which is in the name of the next one."""

    def source(self, name: str) -> Source:
        """Return a stream or a table. Raises UnresolvedError with the nearest name."""
        if name not in self.sources:
            hint = nearest(name, self.sources) or _known(self.sources)
            raise UnresolvedError(f"There is no stream or table {name}{hint}")
        return self.sources[name]

    def with_source(self, source: Source, *, or_replace: bool = False) -> Catalog:
        """Return the catalog with a new source. Raises UnresolvedError when the name is taken."""
        known = self.sources.get(source.name)
        if known is None:
            return replace(self, sources={**self.sources, source.name: source})
        if not or_replace:
            raise UnresolvedError(
                f"There is a {known.kind.lower()} {source.name} already: DROP it first, or write "
                "CREATE OR REPLACE"
            )
        _check_replaced(known, source)
        return replace(self, sources={**self.sources, source.name: source})

    def with_query(self, query: PersistentQuery) -> Catalog:
        """Return the catalog with a query; one of the same name is replaced."""
        others = tuple(each for each in self.queries if each.name != query.name)
        return replace(self, queries=(*others, query))

    def without_query(self, name: str) -> Catalog:
        """Return the catalog without a query, and without the one that would replace it.

        Raises UnresolvedError.
        """
        if all(each.name != name for each in self.queries):
            names = [each.name for each in self.queries]
            raise UnresolvedError(f"There is no query {name}{nearest(name, names)}")
        queries = tuple(
            each
            for each in self.queries
            if each.name != name and (each.replacement is None or each.replacement.query != name)
        )
        return replace(self, queries=queries)

    def without_source(self, statement: DropSource) -> Catalog:
        """Return the catalog without a source, and without the query that made it.

        Raises UnresolvedError when there is none, or when a query reads or writes it.
        """
        name = statement.name
        if name not in self.sources and statement.if_exists:
            return self
        found = self.source(name)
        if found.kind != statement.kind:
            raise UnresolvedError(f"{name} is a {found.kind.lower()}: write DROP {found.kind}")
        if statement.delete_topic and found.is_read_only:
            raise UnresolvedError(f"{name} is a SOURCE, whose topic stays: leave DELETE TOPIC out")
        self._check_unused(name)
        sources = {key: each for key, each in self.sources.items() if key != name}
        queries = tuple(each for each in self.queries if each.sink != name)
        return replace(self, sources=sources, queries=queries)

    def _check_unused(self, name: str) -> None:
        readers = [each for each in self.queries if name in each.reads]
        if readers:
            sinks = ", ".join(sorted({each.sink for each in readers}))
            queries = ", ".join(each.name for each in readers)
            raise UnresolvedError(
                f"{name} is read by {queries}: DROP {sinks} first, or TERMINATE these queries"
            )
        writers = [each.name for each in self.queries if each.sink == name and not each.is_pending]
        if len(writers) > 1 or any(each.startswith("INSERTQUERY") for each in writers):
            raise UnresolvedError(
                f"{name} is written by {', '.join(writers)}: TERMINATE these queries first"
            )

    def with_columns(self, statement: AddColumns) -> Catalog:
        """Return the catalog with more columns of a source. Raises UnresolvedError."""
        found = self.source(statement.name)
        if found.kind != statement.kind:
            raise UnresolvedError(
                f"{statement.name} is a {found.kind.lower()}: write ALTER {found.kind}"
            )
        if any(each.sink == found.name for each in self.queries):
            raise UnresolvedError(
                f"{found.name} has the columns of its query: use CREATE OR REPLACE"
            )
        if found.is_read_only:
            raise UnresolvedError(f"{found.name} is a SOURCE, which is not altered")
        added: list[SourceColumn] = []
        for each in statement.columns:
            taken = (*found.column_names, *(column.name for column in added), *RESERVED_COLUMNS)
            if each.name in taken:
                raise UnresolvedError(f"There is a column {each.name} already: use another name")
            added.append(SourceColumn(each.name, resolved(each.type, self.types)))
        source = replace(found, value=(*found.value, *added))
        return replace(self, sources={**self.sources, source.name: source})

    def with_type(self, statement: CreateType) -> Catalog:
        """Return the catalog with a declared type. Raises UnresolvedError."""
        if statement.name in self.types:
            if statement.if_not_exists:
                return self
            raise UnresolvedError(f"There is a type {statement.name} already: DROP TYPE it first")
        kind = resolved(statement.type, self.types)
        return replace(self, types={**self.types, statement.name: kind})

    def without_type(self, statement: DropType) -> Catalog:
        """Return the catalog without a declared type. Raises UnresolvedError."""
        if statement.name not in self.types:
            if statement.if_exists:
                return self
            hint = nearest(statement.name, self.types)
            raise UnresolvedError(f"There is no type {statement.name}{hint}")
        types = {key: each for key, each in self.types.items() if key != statement.name}
        return replace(self, types=types)


def _known(sources: Mapping[str, Source]) -> str:
    names = ", ".join(sorted(sources)[:10])
    return f"; there are {names}" if names else "; CREATE STREAM or CREATE TABLE makes one"


def _check_replaced(known: Source, source: Source) -> None:
    """Raise UnresolvedError where a source cannot become another one in place."""
    if known.kind != source.kind:
        raise UnresolvedError(
            f"{known.name} is a {known.kind.lower()} and cannot become a {source.kind.lower()}: "
            "DROP it first"
        )
    if known.is_read_only or source.is_read_only:
        raise UnresolvedError(f"{known.name} is a SOURCE, which is not replaced: DROP it first")
    if known.topic != source.topic:
        raise UnresolvedError(
            f"{known.name} is over the topic {known.topic}, and not over {source.topic}: "
            "DROP it first"
        )
    if known.key != source.key:
        raise UnresolvedError(
            f"The key of {known.name} is {_columns(known.key)}, and not {_columns(source.key)}: "
            "DROP it first"
        )
    _check_records(known, source)
    if source.value[: len(known.value)] != known.value:
        raise UnresolvedError(
            f"{known.name} has the columns {_columns(known.value)}, which a replacement keeps in "
            "this order, and adds others behind: DROP it first"
        )


def _check_records(known: Source, source: Source) -> None:
    """Raise UnresolvedError for formats and windows that misread the records which are there."""
    if _formats(known) != _formats(source):
        raise UnresolvedError(
            f"{known.name} has the formats {_formats(known)} of value and key, and not "
            f"{_formats(source)}: DROP {known.name}, then create it again"
        )
    if known.window != source.window:
        raise UnresolvedError(
            f"The keys of {known.name} have {_shown(known.window)}, and those of the new text have "
            f"{_shown(source.window)}: DROP {known.name}, then create it again"
        )


def _formats(source: Source) -> str:
    value = source.value_format
    is_bare = value.name in WRAPPING_FORMATS and not value.is_wrapped
    form = f"{_format(value)} without wrapping" if is_bare else _format(value)
    return f"{form} and {_format(source.key_format)}"


def _format(format_: Format) -> str:
    if format_.name != "DELIMITED" or format_.delimiter == ",":
        return format_.name
    return f"{format_.name} with '{format_.delimiter}'"


def _shown(window: SourceWindow | None) -> str:
    if window is None:
        return "no window"
    size = "" if window.size_ms is None else f" of {window.size_ms} ms"
    return f"a {window.kind} window{size}"


def _columns(columns: tuple[SourceColumn, ...]) -> str:
    return ", ".join(map(str, columns)) or "empty"

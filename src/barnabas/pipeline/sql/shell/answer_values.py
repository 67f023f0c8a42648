"""Answers of statements: values that the command prints and the REST API encodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from barnabas.pipeline.sql.catalog.source_values import Source, SourceColumn
    from barnabas.pipeline.sql.functions.function_values import Function
    from barnabas.pipeline.sql.sql_types import SqlType
    from barnabas.pipeline.sql.statement_values import SourceKind

_WAIT_S = 0.5


@dataclass(frozen=True)
class Message:
    """One line about a statement that changes only the session, or writes a row."""

    text: str


@dataclass(frozen=True)
class CommandDone:
    """A statement that changed the catalog or a persistent query."""

    message: str
    command_id: str
    """The command as ksqlDB names it: stream/`CLICKS`/create."""
    query_id: str | None = None
    """The persistent query that it started."""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Skipped:
    """CREATE .. IF NOT EXISTS of a stream or a table whose name is taken: nothing changed."""

    warning: str


@dataclass(frozen=True)
class RunningQuery:
    """A query that runs."""

    id: str
    text: str
    sink: str | None
    sink_topic: str | None
    reads: tuple[str, ...] = ()
    state: Literal["RUNNING", "PAUSED", "ERROR"] = "RUNNING"
    kind: Literal["PERSISTENT", "PUSH"] = "PERSISTENT"
    is_building: bool = False
    """True for one that rebuilds a table, beside the query that has it."""


@dataclass(frozen=True)
class SourceList:
    """SHOW STREAMS, SHOW TABLES."""

    kind: SourceKind
    sources: tuple[Source, ...]


@dataclass(frozen=True)
class QueryList:
    """SHOW QUERIES."""

    queries: tuple[RunningQuery, ...]


@dataclass(frozen=True)
class ListedTopic:
    """A topic, with the number of replicas of each partition."""

    name: str
    replicas: tuple[int, ...]


@dataclass(frozen=True)
class TopicList:
    """SHOW TOPICS."""

    topics: tuple[ListedTopic, ...]


@dataclass(frozen=True)
class SourceDetails:
    """DESCRIBE a stream or a table."""

    source: Source
    statement: str
    """The statement of its query; empty for a source over a topic."""
    readers: tuple[RunningQuery, ...]
    writers: tuple[RunningQuery, ...]
    topic: ListedTopic | None = None
    """None when the topic does not exist."""
    is_extended: bool = False


@dataclass(frozen=True)
class SourceDetailsList:
    """DESCRIBE STREAMS, DESCRIBE TABLES."""

    sources: tuple[SourceDetails, ...]


@dataclass(frozen=True)
class QueryDetails:
    """EXPLAIN: a query, or a statement that has none yet."""

    query: RunningQuery
    columns: tuple[SourceColumn, ...]
    key: tuple[SourceColumn, ...] = ()
    topology: str = ""
    plan: str = ""


@dataclass(frozen=True)
class SqlProperty:
    """A property with its value; `is_set` when it is not the default."""

    name: str
    value: str | None
    is_set: bool = False


@dataclass(frozen=True)
class PropertyList:
    """SHOW PROPERTIES."""

    properties: tuple[SqlProperty, ...]


@dataclass(frozen=True)
class FunctionList:
    """SHOW FUNCTIONS."""

    functions: tuple[Function, ...]


@dataclass(frozen=True)
class FunctionDetails:
    """DESCRIBE FUNCTION."""

    function: Function


@dataclass(frozen=True)
class TypeList:
    """SHOW TYPES."""

    types: Mapping[str, SqlType]


@dataclass(frozen=True)
class VariableList:
    """SHOW VARIABLES."""

    variables: Mapping[str, str]


@dataclass(frozen=True)
class AssertedTopic:
    """ASSERT TOPIC, which holds."""

    topic: str
    exists: bool

    @property
    def text(self) -> str:
        """The line that the command prints."""
        return f"Topic {self.topic} {_existence(self.exists)}."


@dataclass(frozen=True)
class AssertedSchema:
    """ASSERT SCHEMA, which holds."""

    subject: str | None
    id: int | None
    exists: bool

    @property
    def text(self) -> str:
        """The line that the command prints."""
        subject = "" if self.subject is None else f" subject {self.subject}"
        number = "" if self.id is None else f" id {self.id}"
        return f"Schema with{subject}{number} {_existence(self.exists)}."


def _existence(exists: bool) -> str:
    return "exists" if exists else "does not exist"


class DeletedRow(list[Any]):
    """A row that a table no longer has: the columns of its key, and None for the others."""


class RowSource(Protocol):
    """Rows that come until a query ends; `close` may be called by another thread."""

    def take(self, timeout_s: float) -> list[Sequence[Any]] | None:
        """Return the rows that are there, waiting for the first; None behind the last.

        The list is empty when no row came in time. Raises the error of the query.
        """
        ...

    def close(self) -> None:
        """End the query."""
        ...


class KnownRows:
    """Rows that are all there."""

    def __init__(self, rows: Sequence[Sequence[Any]]) -> None:
        self._rows: list[Sequence[Any]] | None = list(rows)

    def take(self, timeout_s: float) -> list[Sequence[Any]] | None:
        """Return all rows, then None."""
        del timeout_s
        rows, self._rows = self._rows, None
        return rows

    def close(self) -> None:
        """Do nothing."""


@dataclass(frozen=True)
class Rows:
    """SELECT: the rows of a query, which come until it ends or is closed."""

    query_id: str
    columns: tuple[SourceColumn, ...]
    is_push: bool
    limit: int | None
    source: RowSource
    table_key: tuple[str, ...] | None = None
    """Of a SELECT without EMIT on a table: the columns of its key among those of the rows."""
    at_ms: int | None = None
    """Of rows of a view: a recent time at which it had all that its topic had."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(each.name for each in self.columns)

    def __iter__(self) -> Iterator[Sequence[Any]]:
        """Yield the rows, and end the query when the reader stops."""
        return _each(self.source)


@dataclass(frozen=True)
class PrintedRecords:
    """PRINT: records of a topic, each a line."""

    topic: str
    source: RowSource

    def __iter__(self) -> Iterator[str]:
        """Yield the lines, and end the reading when the reader stops."""
        return (row[0] for row in _each(self.source))


def _each(source: RowSource) -> Iterator[Sequence[Any]]:
    try:
        while (rows := source.take(_WAIT_S)) is not None:
            yield from rows
    finally:
        source.close()


Answer = (
    Message
    | CommandDone
    | Skipped
    | SourceList
    | QueryList
    | TopicList
    | SourceDetails
    | SourceDetailsList
    | QueryDetails
    | PropertyList
    | FunctionList
    | FunctionDetails
    | TypeList
    | VariableList
    | AssertedTopic
    | AssertedSchema
    | Rows
    | PrintedRecords
)

"""Statements as plain values: what the parser returns and the planner reads.

Names are as the catalog keeps them: upper case, or exactly as written between back-quotes.
Expressions are sqlglot's, because sqlglot can write them as Spark's SQL.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from sqlglot import expressions as exp

from barnabas.pipeline.sql.sql_types import SqlType

SourceKind = Literal["STREAM", "TABLE"]


Place = tuple[int, int]
"""The line and the column of a name in its statement, both from 1."""


@dataclass(frozen=True)
class Column:
    """A declared column; `header` is the header that a HEADER('name') column reads."""

    name: str
    type: SqlType
    role: Literal["VALUE", "KEY", "PRIMARY KEY", "HEADERS"] = "VALUE"
    header: str | None = None


@dataclass(frozen=True)
class Duration:
    """A length of time in milliseconds."""

    ms: int


@dataclass(frozen=True)
class Window:
    """The window of an aggregation; for SESSION, `size` is the gap of inactivity."""

    kind: Literal["TUMBLING", "HOPPING", "SESSION"]
    size: Duration
    advance: Duration | None = None
    retention: Duration | None = None
    grace: Duration | None = None


@dataclass(frozen=True)
class Within:
    """The window of a join between streams."""

    before: Duration
    after: Duration
    grace: Duration | None = None


@dataclass(frozen=True)
class Relation:
    """A source that is read, under its own name or an alias."""

    source: str
    alias: str
    at: Place = field(default=(1, 1), compare=False)


@dataclass(frozen=True)
class Join:
    """One joined source."""

    kind: Literal["INNER", "LEFT", "RIGHT", "FULL"]
    relation: Relation
    within: Within | None
    condition: exp.Expr


@dataclass(frozen=True)
class SelectItem:
    """A column of a result; `alias` is None where the name follows from the expression."""

    expression: exp.Expr
    alias: str | None = None


@dataclass(frozen=True)
class Select:
    """A query: pull when `emit` is None, else push (CHANGES, or FINAL results of windows)."""

    items: tuple[SelectItem, ...]
    source: Relation
    joins: tuple[Join, ...] = ()
    window: Window | None = None
    where: exp.Expr | None = None
    group_by: tuple[exp.Expr, ...] = ()
    partition_by: tuple[exp.Expr, ...] = ()
    having: exp.Expr | None = None
    emit: Literal["CHANGES", "FINAL"] | None = None
    limit: int | None = None


Properties = dict[str, str | int | float | bool | None]


def _no_properties() -> Properties:
    return {}


@dataclass(frozen=True)
class CreateSource:
    """CREATE STREAM or TABLE over a topic, or AS the result of a query."""

    kind: SourceKind
    name: str
    columns: tuple[Column, ...] = ()
    properties: Properties = field(default_factory=_no_properties)
    query: Select | None = None
    or_replace: bool = False
    if_not_exists: bool = False
    read_only: bool = False
    at: Place = field(default=(1, 1), compare=False)


@dataclass(frozen=True)
class InsertSelect:
    """INSERT INTO a stream the results of a query."""

    target: str
    query: Select
    properties: Properties = field(default_factory=_no_properties)
    at: Place = field(default=(1, 1), compare=False)


@dataclass(frozen=True)
class InsertValues:
    """INSERT INTO a source one row; without columns, the values are in the source's order."""

    target: str
    columns: tuple[str, ...]
    values: tuple[exp.Expr, ...]
    at: Place = field(default=(1, 1), compare=False)


@dataclass(frozen=True)
class DropSource:
    """DROP STREAM or TABLE."""

    kind: SourceKind
    name: str
    if_exists: bool = False
    delete_topic: bool = False
    at: Place = field(default=(1, 1), compare=False)


@dataclass(frozen=True)
class AddColumns:
    """ALTER STREAM or TABLE ADD COLUMN."""

    kind: SourceKind
    name: str
    columns: tuple[Column, ...]
    at: Place = field(default=(1, 1), compare=False)


@dataclass(frozen=True)
class CreateType:
    """CREATE TYPE: a name for a type."""

    name: str
    type: SqlType
    if_not_exists: bool = False
    at: Place = field(default=(1, 1), compare=False)


@dataclass(frozen=True)
class DropType:
    """DROP TYPE."""

    name: str
    if_exists: bool = False
    at: Place = field(default=(1, 1), compare=False)


ConnectorKind = Literal["SOURCE", "SINK"]


@dataclass(frozen=True)
class CreateConnector:
    """CREATE SOURCE or SINK CONNECTOR: a job of Connect; values of properties are texts."""

    kind: ConnectorKind
    name: str
    properties: dict[str, str | None]
    if_not_exists: bool = False
    at: Place = field(default=(1, 1), compare=False)


@dataclass(frozen=True)
class DropConnector:
    """DROP CONNECTOR."""

    name: str
    if_exists: bool = False
    at: Place = field(default=(1, 1), compare=False)


@dataclass(frozen=True)
class ShowConnectors:
    """SHOW CONNECTORS, or those of one kind."""

    kind: ConnectorKind | None = None


@dataclass(frozen=True)
class ShowConnectorPlugins:
    """SHOW CONNECTOR PLUGINS."""


@dataclass(frozen=True)
class DescribeConnector:
    """DESCRIBE CONNECTOR."""

    name: str


ConnectorStatement = (
    CreateConnector | DropConnector | ShowConnectors | ShowConnectorPlugins | DescribeConnector
)


@dataclass(frozen=True)
class QueryControl:
    """PAUSE, RESUME or TERMINATE one query, or all when `query` is None."""

    action: Literal["PAUSE", "RESUME", "TERMINATE"]
    query: str | None
    at: Place = field(default=(1, 1), compare=False)


@dataclass(frozen=True)
class Show:
    """SHOW or LIST the objects of a kind."""

    subject: str
    extended: bool = False
    all: bool = False


@dataclass(frozen=True)
class Describe:
    """DESCRIBE a source, a function (FUNCTION), or all sources of a kind (STREAMS, TABLES)."""

    subject: Literal["SOURCE", "FUNCTION", "STREAMS", "TABLES"]
    name: str | None
    extended: bool = False


@dataclass(frozen=True)
class Explain:
    """EXPLAIN a running query by its name, or a statement."""

    query: str | None
    statement: Statement | None


@dataclass(frozen=True)
class SetProperty:
    """SET a property, or UNSET it when `value` is None."""

    name: str
    value: str | None


@dataclass(frozen=True)
class DefineVariable:
    """DEFINE a variable, or UNDEFINE it when `value` is None."""

    name: str
    value: str | None


@dataclass(frozen=True)
class RunScript:
    """RUN SCRIPT: the statements of a file."""

    path: str


@dataclass(frozen=True)
class PrintTopic:
    """PRINT the records of a topic."""

    topic: str
    from_beginning: bool = False
    interval: int | None = None
    limit: int | None = None


@dataclass(frozen=True)
class AssertTopic:
    """ASSERT [NOT EXISTS] TOPIC; without `timeout` a property says how long it waits."""

    topic: str
    properties: Properties = field(default_factory=_no_properties)
    timeout: Duration | None = None
    exists: bool = True
    at: Place = field(default=(1, 1), compare=False)


@dataclass(frozen=True)
class AssertSchema:
    """ASSERT [NOT EXISTS] SCHEMA, of a subject, an id, or an id in a subject."""

    subject: str | None
    id: int | None
    timeout: Duration | None = None
    exists: bool = True
    at: Place = field(default=(1, 1), compare=False)


Assertion = AssertTopic | AssertSchema

Statement = (
    Select
    | CreateSource
    | InsertSelect
    | InsertValues
    | DropSource
    | AddColumns
    | CreateType
    | DropType
    | QueryControl
    | Show
    | Describe
    | Explain
    | SetProperty
    | DefineVariable
    | RunScript
    | PrintTopic
    | ConnectorStatement
    | Assertion
)

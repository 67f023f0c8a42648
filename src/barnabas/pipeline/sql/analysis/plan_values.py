"""The plan of a query: sources, steps and results, with names and types resolved.

Columns inside expressions are `exp.Column` with a table: the alias of a source, or one of the names
below for what a step before has made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from barnabas.pipeline.sql.catalog.source_values import Source, SourceColumn, SourceWindow
    from barnabas.pipeline.sql.functions.function_values import ResolvedAggregate, ResolvedFunction
    from barnabas.pipeline.sql.functions.literals import TypedExpression
    from barnabas.pipeline.sql.statement_values import SourceKind, Window, Within

ROWS: Final = "#rows"
"""The table of the results of table functions."""
GROUP: Final = "#group"
"""The table of the expressions of GROUP BY."""
AGGREGATES: Final = "#aggregates"
"""The table of the results of aggregates."""
JOINED: Final = "#joined"
"""The table of the key of a join on expressions, whose column is ROWKEY."""
WINDOW: Final = "#window"
"""The table of WINDOWSTART and WINDOWEND of an aggregation."""


@dataclass(frozen=True)
class PlannedRelation:
    """A source under its alias."""

    alias: str
    source: Source


@dataclass(frozen=True)
class PlannedJoin:
    """A source that is joined to those before it."""

    kind: Literal["INNER", "LEFT", "RIGHT", "FULL"]
    left: PlannedRelation
    """The first source of the query."""
    right: PlannedRelation
    left_key: TypedExpression
    right_key: TypedExpression
    within: Within | None
    is_left_table: bool
    keeps_left: bool
    """True when the left side is the key of the records before the join."""
    keeps_right: bool
    """True when the right side is the key of its source."""
    by_foreign_key: bool = False

    @property
    def by_keys(self) -> bool:
        """True when both sides are keys already."""
        return self.keeps_left and self.keeps_right


@dataclass(frozen=True)
class TableFunction:
    """A call of a table function; its rows are a column of `ROWS`."""

    name: str
    function: ResolvedFunction
    arguments: tuple[TypedExpression, ...]


@dataclass(frozen=True)
class PlannedAggregate:
    """A call of an aggregate; its result is a column of `AGGREGATES`."""

    name: str
    function: ResolvedAggregate
    arguments: tuple[TypedExpression, ...]


@dataclass(frozen=True)
class Aggregation:
    """GROUP BY: the expressions, which are columns of `GROUP` by their index, and the window."""

    group: tuple[TypedExpression, ...]
    aggregates: tuple[PlannedAggregate, ...]
    window: Window | None
    has_each_update: bool = False
    """True when each record of a group makes a row, False when those of a micro-batch make one."""


@dataclass(frozen=True)
class Having:
    """HAVING: a condition for groups."""

    condition: TypedExpression
    is_lasting: bool
    """True when a group of a stream never ceases to meet it."""


@dataclass(frozen=True)
class NamedExpression:
    """A column of the result."""

    name: str
    expression: TypedExpression


@dataclass(frozen=True)
class QueryPlan:
    """A query, in the order in which its steps run."""

    kind: SourceKind
    source: PlannedRelation
    joins: tuple[PlannedJoin, ...]
    where: TypedExpression | None
    table_functions: tuple[TableFunction, ...]
    aggregation: Aggregation | None
    having: Having | None
    key: tuple[NamedExpression, ...]
    value: tuple[NamedExpression, ...]
    columns: tuple[str, ...]
    """The names of the columns of the result, in their order in the SELECT."""
    has_new_key: bool
    """True after PARTITION BY."""
    window: SourceWindow | None
    emit: Literal["CHANGES", "FINAL"] | None
    limit: int | None

    @property
    def relations(self) -> tuple[PlannedRelation, ...]:
        """The sources that the query reads."""
        return (self.source, *(each.right for each in self.joins))


@dataclass(frozen=True)
class WrittenQuery:
    """A persistent query: its plan, and the source that it writes, which may be a new one."""

    plan: QueryPlan
    sink: Source
    is_new: bool
    is_insert: bool


@dataclass(frozen=True)
class ResultColumns:
    """The columns of the key and of the value of a result."""

    key: tuple[SourceColumn, ...]
    value: tuple[SourceColumn, ...]

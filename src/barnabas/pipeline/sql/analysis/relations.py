"""The sources of a query, and the meaning of a name in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, cast

from sqlglot import expressions as exp

from barnabas.pipeline.sql.analysis.plan_values import PlannedRelation
from barnabas.pipeline.sql.catalog.source_values import PSEUDO_COLUMNS, WINDOW_BOUNDS
from barnabas.pipeline.sql.functions.resolution import takes_unit
from barnabas.pipeline.sql.functions.units import UNITS
from barnabas.pipeline.sql.sql_failures import SqlError, UnresolvedError, nearest
from barnabas.pipeline.sql.sql_types import BIGINT, INTEGER, SqlType

if TYPE_CHECKING:
    from barnabas.pipeline.sql.catalog.source_values import Source

PSEUDO_TYPES: Final = {"ROWTIME": BIGINT, "ROWPARTITION": INTEGER, "ROWOFFSET": BIGINT}


def columns_of(source: Source) -> dict[str, SqlType]:
    """Return the types of a source's columns, the key's first, without those that all have."""
    found = {each.name: each.type for each in (*source.key, *source.value)}
    return found | {each.name: each.type for each in source.headers}


def all_columns_of(source: Source) -> dict[str, SqlType]:
    """Return the types of a source's columns, with ROWTIME, WINDOWSTART and their like."""
    bounds = dict.fromkeys(WINDOW_BOUNDS, BIGINT) if source.window else {}
    return columns_of(source) | PSEUDO_TYPES | bounds


def column(table: str, name: str) -> exp.Column:
    """Return a column of a table, as expressions have them."""
    return exp.Column(
        this=exp.Identifier(this=name, quoted=True),
        table=exp.Identifier(this=table, quoted=True),
    )


def _no_types() -> dict[tuple[str, str], SqlType]:
    return {}


@dataclass(frozen=True)
class Relations:
    """The names that expressions may use: a `Scope` of the functions.

    `made` are the columns that steps have made, by table and name.
    """

    relations: Sequence[PlannedRelation]
    declared: Mapping[str, SqlType]
    clause: str = "SELECT"
    made: Mapping[tuple[str, str], SqlType] = field(default_factory=_no_types)

    def type_of(self, column: exp.Column) -> SqlType:
        """Return the type of a qualified column. Raises UnresolvedError."""
        found = self.made.get((column.table, column.name))
        if found is not None:
            return found
        relation = self.relation_of(column)
        return all_columns_of(relation.source)[column.name]

    def relation_of(self, column: exp.Column) -> PlannedRelation:
        """Return the relation that has a column.

        Raises UnresolvedError when none has it, or when several do.
        """
        given = [each for each in self.relations if column.table in ("", each.alias)]
        if not given:
            aliases = [each.alias for each in self.relations]
            raise UnresolvedError(
                f"{column.table} in {self.clause} is not a source of this query"
                f"{nearest(column.table, aliases)}; its sources are {', '.join(aliases)}"
            )
        found = [each for each in given if column.name in all_columns_of(each.source)]
        if len(found) > 1:
            names = " or ".join(f"{each.alias}.{column.name}" for each in found)
            raise UnresolvedError(f"{column.name} is in several sources: write {names}")
        if not found:
            names = [name for each in given for name in all_columns_of(each.source)]
            raise UnresolvedError(
                f"There is no column {column.name} for {self.clause}"
                f"{nearest(column.name, names)}; the columns are {', '.join(names)}"
            )
        return found[0]

    def qualified(self, node: exp.Expr) -> exp.Expr:
        """Return an expression in which each column names its table.

        Parameters of lambdas stay as they are.
        Raises SqlError for a name that is not known.
        """
        return self._qualified(node.copy(), frozenset())

    def _qualified(self, node: exp.Expr, parameters: frozenset[str]) -> exp.Expr:
        if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
            return self._column(node, parameters)
        inner = parameters
        if _is_map_entry(node):
            node.set("this", exp.Column(this=node.this.copy()))
        if isinstance(node, exp.Lambda):
            inner = parameters | {each.name for each in node.expressions}
        for name, argument in list(node.args.items()):
            if isinstance(node, exp.Lambda) and name == "expressions":
                continue
            if isinstance(argument, list):
                parts = cast("list[object]", argument)
                units = 1 if isinstance(node, exp.Anonymous) and takes_unit(node.name) else 0
                first = [self._part(each, inner | UNITS) for each in parts[:units]]
                node.set(name, [*first, *(self._part(each, inner) for each in parts[units:])])
            elif isinstance(argument, exp.Expr):
                node.set(name, self._part(argument, inner))
        return node

    def _part(self, part: object, parameters: frozenset[str]) -> object:
        return self._qualified(part, parameters) if isinstance(part, exp.Expr) else part

    def _column(self, node: exp.Column, parameters: frozenset[str]) -> exp.Expr:
        if (not node.table and node.name in parameters) or (node.table, node.name) in self.made:
            return node
        if node.name in WINDOW_BOUNDS and ("", node.name) in self.made and self._has(node.table):
            return _placed(column("", node.name), node)
        try:
            relation = self.relation_of(node)
        except UnresolvedError as error:
            raise SqlError(str(error), *place_of(node)) from None
        found = column(relation.alias, node.name)
        return _placed(found, node)

    def _has(self, alias: str) -> bool:
        return any(each.alias == alias and each.source.window is None for each in self.relations)


def _is_map_entry(node: exp.Expr) -> bool:
    """True for an entry of MAP whose key is a column, of which the parser makes a bare name."""
    parent = node.parent
    is_entry = isinstance(node, exp.PropertyEQ) and isinstance(node.this, exp.Identifier)
    return is_entry and isinstance(parent, exp.Anonymous) and parent.name == "MAP"


def _placed(found: exp.Column, node: exp.Column) -> exp.Column:
    found.this.meta.update(node.this.meta)
    return found


def place_of(node: exp.Expr) -> tuple[int, int]:
    """Return the line and the column of an expression's first name, both from 1."""
    places = [each.meta for each in node.walk() if "line" in each.meta]
    if not places:
        return 1, 1
    first = min(places, key=lambda meta: meta["start"])
    return first["line"], first["col"] - (first["end"] - first["start"])


def replaced(node: exp.Expr, change: Callable[[exp.Expr], exp.Expr | None]) -> exp.Expr:
    """Return an expression in which `change` replaces nodes, from the top; None keeps one."""

    def changed(each: exp.Expr) -> exp.Expr:
        return change(each) or each

    transform: Callable[[Callable[[exp.Expr], exp.Expr]], exp.Expr] = node.copy().transform
    return transform(changed)


def is_pseudo(name: str) -> bool:
    """True for columns that each source has, or each one with windows."""
    return name in PSEUDO_COLUMNS or name in WINDOW_BOUNDS

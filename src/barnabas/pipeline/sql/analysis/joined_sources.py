"""Joins: which kinds there are, the key of both sides, and the key of the result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import expressions as exp

from barnabas.pipeline.sql.analysis.plan_values import (
    JOINED,
    PlannedJoin,
    PlannedRelation,
)
from barnabas.pipeline.sql.analysis.projection import same_expression, text_of
from barnabas.pipeline.sql.analysis.relations import Relations, column, place_of
from barnabas.pipeline.sql.functions.typed_expressions import typed
from barnabas.pipeline.sql.sql_failures import SqlError

if TYPE_CHECKING:
    from barnabas.pipeline.sql.statement_values import Join


@dataclass(frozen=True)
class JoinedSources:
    """The joins of a query, and the expressions that may be the key of the result."""

    joins: tuple[PlannedJoin, ...]
    keys: tuple[exp.Expr, ...]

    @property
    def is_synthetic(self) -> bool:
        """True when no column has the key, so that it is called ROWKEY."""
        return any(each.table == JOINED for each in self.keys if isinstance(each, exp.Column))


def joined(relations: Relations, joins: tuple[tuple[Join, PlannedRelation], ...]) -> JoinedSources:
    """Return the joins of a query. Raises SqlError."""
    known = [relations.relations[0]]
    planned: list[PlannedJoin] = []
    keys: list[exp.Expr] = []
    for written, right in joins:
        left_node, right_node = _sides(written, relations, known, right)
        is_primary = any(same_expression(left_node, each) for each in keys)
        planned.append(
            _planned(
                written,
                relations,
                known[0],
                right,
                left_node,
                right_node,
                is_primary=is_primary,
                is_first=not planned,
            )
        )
        _check(written, planned[-1], known[0], right, right_node)
        if planned[-1].by_foreign_key:
            if len(planned) > 1:
                raise SqlError(
                    "A join by a foreign key is the first of several joins: put it first, or make "
                    "it in another query",
                    *place_of(written.condition),
                )
            keys = [column(known[0].alias, each.name) for each in known[0].source.key]
        elif written.kind == "FULL":
            keys = []
        elif any(same_expression(left_node, each) for each in keys):
            keys.append(right_node)
        else:
            keys = [left_node, right_node]
        known.append(right)
    columns = [each for each in keys if isinstance(each, exp.Column)]
    if not columns:
        columns = [column(JOINED, "ROWKEY")]
    return JoinedSources(tuple(planned), tuple(columns))


def _sides(
    written: Join, relations: Relations, known: list[PlannedRelation], right: PlannedRelation
) -> tuple[exp.Expr, exp.Expr]:
    """Return the two sides of ON: one of the sources before, one of the joined source."""
    condition = written.condition.unnest()
    if not isinstance(condition, exp.EQ):
        raise SqlError(
            "A join is ON one comparison with =, as in ON a.id = b.id", *place_of(condition)
        )
    sides = [relations.qualified(each).unnest() for each in (condition.this, condition.expression)]
    aliases = [{each.table for each in side.find_all(exp.Column) if each.table} for side in sides]
    if any(len(each) != 1 for each in aliases):
        raise SqlError(
            "Each side of ON has columns of one source: on the left of those before, on the right "
            f"of {right.alias}",
            *place_of(condition),
        )
    left = {each.alias for each in known}
    if aliases[0] <= left and aliases[1] == {right.alias}:
        return sides[0], sides[1]
    if aliases[1] <= left and aliases[0] == {right.alias}:
        return sides[1], sides[0]
    raise SqlError(
        f"One side of ON has columns of {right.alias}, the other those of "
        f"{' or '.join(each.alias for each in known)}",
        *place_of(condition),
    )


def _planned(
    written: Join,
    relations: Relations,
    left: PlannedRelation,
    right: PlannedRelation,
    left_node: exp.Expr,
    right_node: exp.Expr,
    *,
    is_primary: bool,
    is_first: bool,
) -> PlannedJoin:
    keys = typed(left_node, relations), typed(right_node, relations)
    if keys[0].type != keys[1].type:
        raise SqlError(
            f"ON compares {keys[0].type} with {keys[1].type}: CAST one of them",
            *place_of(written.condition),
        )
    is_by_key = is_primary or not left.source.is_table or _is_key(left, left_node)
    return PlannedJoin(
        written.kind,
        left,
        right,
        *keys,
        written.within,
        is_left_table=left.source.is_table,
        keeps_left=is_primary or (is_first and _is_key(left, left_node)),
        keeps_right=_is_key(right, right_node),
        by_foreign_key=left.source.is_table and right.source.is_table and not is_by_key,
    )


def _is_key(relation: PlannedRelation, node: exp.Expr) -> bool:
    key = relation.source.key
    return (
        isinstance(node, exp.Column)
        and node.table == relation.alias
        and len(key) == 1
        and node.name == key[0].name
    )


def _check(
    written: Join,
    planned: PlannedJoin,
    left: PlannedRelation,
    right: PlannedRelation,
    right_node: exp.Expr,
) -> None:
    place = place_of(written.condition)
    if left.source.is_table and not right.source.is_table:
        raise SqlError(
            f"{left.alias} is a table and {right.alias} a stream: put the stream before JOIN",
            *place,
        )
    is_stream_join = not right.source.is_table
    if is_stream_join and written.within is None:
        raise SqlError("A join of two streams needs WITHIN, as in WITHIN 1 HOUR", *place)
    if not is_stream_join and written.within is not None:
        raise SqlError("WITHIN is for joins of two streams: leave it out", *place)
    if not is_stream_join and not left.source.is_table and written.kind in ("RIGHT", "FULL"):
        raise SqlError(
            f"A stream has INNER and LEFT joins with a table, and no {written.kind} join", *place
        )
    if not is_stream_join and not _is_key(right, right_node):
        keys = ", ".join(each.name for each in right.source.key)
        raise SqlError(
            f"ON compares with the key of the table {right.alias}, which is {keys}, and not with "
            f"{text_of(right_node)}",
            *place,
        )
    _check_windows(planned, place)
    if planned.by_foreign_key and written.kind not in ("INNER", "LEFT"):
        raise SqlError("A join by a foreign key is an INNER or a LEFT join", *place)


def _check_windows(planned: PlannedJoin, place: tuple[int, int]) -> None:
    """Raise SqlError for a join of sources whose windows differ, or by another key."""
    left, right = planned.left.source.window, planned.right.source.window
    if (left is None) != (right is None):
        raise SqlError(
            "One of the joined sources has windows: join two with, or two without", *place
        )
    if left is None or right is None:
        return
    if left != right and "SESSION" in (left.kind, right.kind):
        raise SqlError(
            f"The joined sources have windows of {left.kind} and {right.kind}: sessions are joined "
            "with sessions only",
            *place,
        )
    if not planned.by_keys:
        raise SqlError("Sources with windows are joined by their keys only", *place)

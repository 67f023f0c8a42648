"""HAVING conditions that a group of a stream never ceases to meet, such as COUNT(*) > 3.

Results of such a condition need no tombstones: a group that does not meet it has never met it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from sqlglot import expressions as exp

from barnabas.pipeline.sql.analysis.plan_values import AGGREGATES, GROUP, WINDOW

if TYPE_CHECKING:
    from collections.abc import Mapping

_Trend: TypeAlias = Literal["constant", "rising", "falling"] | None

_TRENDS: Final[Mapping[str, _Trend]] = {
    "COUNT": "rising",
    "COUNT_DISTINCT": "rising",
    "MAX": "rising",
    "MIN": "falling",
}
"""How the result of an aggregate changes with more records."""


def is_lasting(condition: exp.Expr, aggregates: Mapping[str, str]) -> bool:
    """True when a group that meets a condition meets it after more records, too.

    `aggregates` are the functions of the columns of `AGGREGATES`.
    """
    if isinstance(condition, exp.Paren):
        return is_lasting(condition.this, aggregates)
    if isinstance(condition, exp.And | exp.Or):
        return all(is_lasting(each, aggregates) for each in (condition.left, condition.right))
    if isinstance(condition, exp.GT | exp.GTE | exp.LT | exp.LTE):
        sides = [_trend(each, aggregates) for each in (condition.left, condition.right)]
        large, small = reversed(sides) if isinstance(condition, exp.LT | exp.LTE) else sides
        return large in ("rising", "constant") and small in ("falling", "constant")
    return _trend(condition, aggregates) == "constant"


def _trend(node: exp.Expr, aggregates: Mapping[str, str]) -> _Trend:
    """Return how a value changes with more records of its group, None where that is not known."""
    if isinstance(node, exp.Paren):
        return _trend(node.this, aggregates)
    if isinstance(node, exp.Column) and node.table == AGGREGATES:
        return _TRENDS.get(aggregates[node.name])
    # A function may be that of the present time.
    if node.find(exp.Anonymous) is not None:
        return None
    columns = node.find_all(exp.Column)
    return "constant" if all(each.table in (GROUP, WINDOW) for each in columns) else None

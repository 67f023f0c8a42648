"""Rules of SELECT without EMIT that properties of a session turn on: no table is read as a whole.

They are ksqlDB's properties, which are on unless they are set to false. A look-up is `key = value`
or `key IN (values)` for each key column, in each part of an OR. A range is one comparison with the
only key column, a STRING.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sqlglot import expressions as exp

from barnabas.pipeline.sql.sql_failures import UnresolvedError
from barnabas.pipeline.sql.sql_types import STRING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from barnabas.pipeline.sql.analysis.plan_values import QueryPlan
    from barnabas.pipeline.sql.catalog.source_values import Source
    from barnabas.pipeline.sql.statement_values import Select

TABLE_SCAN: Final = "ksql.query.pull.table.scan.enabled"
RANGE_SCAN: Final = "ksql.query.pull.range.scan.enabled"
LIMIT_CLAUSE: Final = "ksql.query.pull.limit.clause.enabled"

_COMPARISONS: Final = (exp.GT, exp.GTE, exp.LT, exp.LTE)


def check_pull(statement: Select, plan: QueryPlan, properties: Mapping[str, str]) -> None:
    """Raise UnresolvedError for a SELECT without EMIT that the properties forbid."""
    if plan.emit is not None:
        return
    if plan.limit is not None and _is_off(LIMIT_CLAUSE, properties):
        raise UnresolvedError(f"LIMIT needs {LIMIT_CLAUSE}=true: set it, or leave LIMIT out")
    source = plan.source.source
    if not source.is_table or not _is_off(TABLE_SCAN, properties):
        return
    where = statement.where
    if where is not None and all(_is_lookup(each, source) for each in split(where, exp.Or)):
        return
    if _is_off(RANGE_SCAN, properties) or where is None or not _is_range(where, source):
        key = " and ".join(each.name for each in source.key)
        raise UnresolvedError(
            f"The SELECT reads the whole table {source.name}, and {TABLE_SCAN} is false: compare "
            f"{key} with a value in WHERE, or set the property to true"
        )


def _is_off(name: str, properties: Mapping[str, str]) -> bool:
    return properties.get(name, "true").lower() == "false"


def split(node: exp.Expr, kind: type[exp.And | exp.Or]) -> Iterator[exp.Expr]:
    """Yield the conditions that AND or OR connects."""
    node = node.unnest()
    if isinstance(node, kind):
        yield from split(node.this, kind)
        yield from split(node.expression, kind)
    else:
        yield node


def _is_lookup(where: exp.Expr, source: Source) -> bool:
    """True for conditions that give each key column one value, or several."""
    found = {_looked_up(each) for each in split(where, exp.And)}
    return all(each.name in found for each in source.key)


def _looked_up(node: exp.Expr) -> str | None:
    """Return the column of `column = value` or `column IN (values)`."""
    if isinstance(node, exp.In):
        values = node.expressions
        return _name(node.this) if all(map(_is_value, values)) else None
    return _compared(node, (exp.EQ,))


def _compared(node: exp.Expr, kinds: tuple[type[exp.Expr], ...]) -> str | None:
    """Return the column that a comparison of one of these kinds has beside a value."""
    if not isinstance(node, kinds):
        return None
    one, other = node.args["this"], node.args["expression"]
    if _is_value(other):
        return _name(one)
    return _name(other) if _is_value(one) else None


def _is_range(where: exp.Expr, source: Source) -> bool:
    """True for one comparison with a key that is one STRING without a window."""
    if len(source.key) != 1 or source.key[0].type != STRING or source.window is not None:
        return False
    parts = list(split(where, exp.Or))
    if len(parts) > 1:
        return False
    ranges = [_compared(each, _COMPARISONS) for each in split(where, exp.And)]
    return ranges.count(source.key[0].name) == 1


def _name(node: exp.Expr) -> str | None:
    return node.name if isinstance(node, exp.Column) else None


def _is_value(node: exp.Expr) -> bool:
    return node.find(exp.Column) is None

"""The check that the topics of two joined streams have the same number of partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.pipeline.sql.sql_failures import UnresolvedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.pipeline.sql.analysis.plan_values import PlannedRelation, QueryPlan


def copartitioned(plan: QueryPlan) -> tuple[PlannedRelation, PlannedRelation] | None:
    """Return the streams that a plan joins by their keys, whose rows are not distributed again.

    Rows behind a first join are, and so are those of a side that gets another key.
    """
    if not plan.joins:
        return None
    first = plan.joins[0]
    return (plan.source, first.right) if first.within is not None and first.by_keys else None


def check_partitions(plan: QueryPlan, partitions: Mapping[str, int]) -> None:
    """Raise UnresolvedError when joined streams have topics with other numbers of partitions.

    `partitions` are those of topics; one that is missing in them is not checked.
    """
    sides = copartitioned(plan)
    if sides is None:
        return
    left, right = (each.source for each in sides)
    one, other = (partitions.get(each.topic) for each in (left, right))
    if one is None or other is None or one == other:
        return
    few, many = (left, other) if one < other else (right, one)
    raise UnresolvedError(
        f"{left.name} and {right.name} cannot be joined by their keys, since the topic {left.topic}"
        f" has {one} partitions and {right.topic} has {other}: give {few.name} as many, as in "
        f"CREATE STREAM {few.name}_{many} WITH (PARTITIONS={many}) AS SELECT * FROM {few.name}, "
        "and join that stream"
    )

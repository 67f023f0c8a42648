"""The most values that COLLECT_LIST and COLLECT_SET keep: properties of a session, as in ksqlDB."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from barnabas.pipeline.sql.functions.aggregate_functions import first_values
from barnabas.pipeline.sql.sql_failures import UnresolvedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.pipeline.sql.analysis.plan_values import PlannedAggregate, QueryPlan

LIMIT_PROPERTIES: Final[Mapping[str, str]] = {
    "ksql.functions.collect_list.limit": "COLLECT_LIST",
    "ksql.functions.collect_set.limit": "COLLECT_SET",
}
"""The properties, with the aggregate that each limits."""
_NO_LIMIT: Final = 2**31 - 1
"""Java's largest int, which stands for no limit, as a negative number does."""


def check_limit(name: str, text: str) -> None:
    """Raise UnresolvedError for the value of a property that is not a number of values."""
    if name in LIMIT_PROPERTIES:
        _number(name, text)


def limits_of(properties: Mapping[str, str]) -> dict[str, int]:
    """Return the limit of each aggregate that has one. Raises UnresolvedError."""
    found = {
        aggregate: _number(name, properties[name])
        for name, aggregate in LIMIT_PROPERTIES.items()
        if name in properties
    }
    return {aggregate: limit for aggregate, limit in found.items() if 0 <= limit < _NO_LIMIT}


def _number(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UnresolvedError(
            f"{name} is a whole number of values, and not '{text}'; -1 lifts the limit"
        ) from None


def limited(plan: QueryPlan, limits: Mapping[str, int]) -> QueryPlan:
    """Return a plan whose aggregates keep at most these numbers of values: the first ones."""
    aggregation = plan.aggregation
    if aggregation is None or not limits:
        return plan
    aggregates = tuple(_limited(each, limits) for each in aggregation.aggregates)
    return replace(plan, aggregation=replace(aggregation, aggregates=aggregates))


def _limited(planned: PlannedAggregate, limits: Mapping[str, int]) -> PlannedAggregate:
    limit = limits.get(planned.function.name)
    if limit is None:
        return planned
    return replace(planned, function=first_values(planned.function, limit))

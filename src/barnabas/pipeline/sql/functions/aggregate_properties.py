"""Properties of a session that change how its queries aggregate, as in ksqlDB.

Two limit the values that COLLECT_LIST and COLLECT_SET keep. A cache of 0 bytes makes a query write
a row for each record; otherwise the rows of a group in one micro-batch are written as one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from barnabas.pipeline.sql.sql_failures import UnresolvedError

if TYPE_CHECKING:
    from collections.abc import Mapping

_LIMITED: Final[Mapping[str, str]] = {
    "ksql.functions.collect_list.limit": "COLLECT_LIST",
    "ksql.functions.collect_set.limit": "COLLECT_SET",
}
"""The properties of limits, with the aggregate that each limits."""
_CACHES: Final = (
    "cache.max.bytes.buffering",
    "statestore.cache.max.bytes",
    "ksql.streams.cache.max.bytes.buffering",
    "ksql.streams.statestore.cache.max.bytes",
)
"""The names that the size of the cache of Kafka Streams has; the first that is set counts."""
AGGREGATE_PROPERTIES: Final = (*_LIMITED, *_CACHES)
_NO_LIMIT: Final = 2**31 - 1
"""Java's largest int, which stands for no limit, as a negative number does."""


@dataclass(frozen=True)
class AggregateProperties:
    """The settings of aggregates of a session."""

    limits: Mapping[str, int] = field(default_factory=dict[str, int])
    """The most values that COLLECT_LIST and COLLECT_SET keep, by aggregate."""
    has_each_update: bool = False
    """True when each record of a group makes a row of the result."""


def check_property(name: str, text: str) -> None:
    """Raise UnresolvedError for the value of a property of aggregates that is wrong."""
    if name in _LIMITED:
        _limit(name, text)
    elif name in _CACHES:
        _bytes(name, text)


def aggregate_properties(properties: Mapping[str, str]) -> AggregateProperties:
    """Return what properties say of aggregates. Raises UnresolvedError."""
    limits = {
        aggregate: _limit(name, properties[name])
        for name, aggregate in _LIMITED.items()
        if name in properties
    }
    caches = [_bytes(name, properties[name]) for name in _CACHES if name in properties]
    return AggregateProperties(
        {aggregate: limit for aggregate, limit in limits.items() if 0 <= limit < _NO_LIMIT},
        has_each_update=caches[:1] == [0],
    )


def _limit(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UnresolvedError(
            f"{name} is a whole number of values, and not '{text}'; -1 lifts the limit"
        ) from None


def _bytes(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise UnresolvedError(
            f"{name} is a number of bytes, and not '{text}'; 0 writes a row for each record, and "
            "other sizes write the rows of a group in one micro-batch as one"
        )
    return int(text)

"""Bounds of values: NULL where Spark would end the query, or a value would not fit the memory.

An error of a function is NULL in ksqlDB, too, and a record must not end the queries of all records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.pipeline.sql.functions.function_values import spark
from barnabas.pipeline.sql.functions.units import DAY_MS

if TYPE_CHECKING:
    from barnabas.pipeline.sql.functions.function_values import Column

SIZE_MAX: Final = 10_000_000
"""The most characters or elements that a function makes of a number."""
_MILLIS_MAX: Final = (2**63 - 1) // 1000
_MILLIS_MIN: Final = -(_MILLIS_MAX // 1000) * 1000
"""Spark's timestamps are microseconds in 64 bits, of which it reads no part of a second before."""


def timestamp_of(ms: Column) -> Column:
    """Return the TIMESTAMP of milliseconds since 1970, NULL out of the years -290307 to 294247."""
    is_known = ms.between(_MILLIS_MIN, _MILLIS_MAX)
    return spark().when(is_known, spark().timestamp_millis(ms))


def timestamp_of_date(date: Column) -> Column:
    """Return the TIMESTAMP of the start of a day, NULL out of the bounds of a TIMESTAMP."""
    days = spark().unix_date(date)
    is_known = days.between(-(-_MILLIS_MIN // DAY_MS), _MILLIS_MAX // DAY_MS)
    return spark().when(is_known, date.cast("timestamp"))


def sum_of(one: Column, other: Column) -> Column:
    """Return the sum of two BIGINTs, NULL where it is out of bounds."""
    return spark().try_add(one.cast("bigint"), other)


def times(number: Column, factor: int) -> Column:
    """Return a number times a factor as a BIGINT, NULL where it is out of bounds."""
    return spark().try_multiply(number.cast("bigint"), spark().lit(factor).cast("bigint"))

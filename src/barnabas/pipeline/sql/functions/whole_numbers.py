"""Arithmetic of INTEGER and BIGINT as Java's: a result out of its bounds wraps around."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.pipeline.sql.functions.function_values import spark

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.pipeline.sql.functions.function_values import Column

_WIDE: Final = "decimal(38, 0)"


def wrapped_int(value: Column) -> Column:
    """Return the lowest 32 bits of a BIGINT."""
    return spark().shiftright(spark().shiftleft(value, 32), 32).cast("int")


def wrapped_long(value: Column) -> Column:
    """Return the lowest 64 bits of a DECIMAL without digits after the point."""
    wide = value.cast(_WIDE)
    all_longs, half = (spark().lit(str(each)).cast(_WIDE) for each in (2**64, 2**63))
    rest = spark().pmod(wide, all_longs)
    signed = spark().when(rest >= half, rest - all_longs).otherwise(rest)
    return spark().coalesce(value.try_cast("bigint"), signed.try_cast("bigint"))


def whole(
    one: Column,
    other: Column,
    *,
    is_long: bool,
    try_it: Callable[[Column, Column], Column],
    exactly: Callable[[Column, Column], Column],
) -> Column:
    """Return a sum, difference or product: `try_it` gives NULL where it is out of bounds."""
    longs = one.cast("bigint"), other.cast("bigint")
    if not is_long:
        return wrapped_int(exactly(*longs))
    wide = exactly(one.cast("decimal(19, 0)"), other.cast("decimal(19, 0)"))
    return spark().coalesce(try_it(*longs), wrapped_long(wide))


def divided(one: Column, other: Column, *, is_long: bool) -> Column:
    """Return a quotient without its fraction; NULL for a division by zero."""
    one, other = one.cast("bigint"), other.cast("bigint")
    lowest = spark().lit(-(2**63))
    found = (
        spark()
        .when((one == lowest) & (other == -1), lowest)
        .when(other != 0, spark().call_function("div", one, other))
    )
    return found if is_long else wrapped_int(found)


def remainder(one: Column, other: Column) -> Column:
    """Return the rest of a division, with the sign of the dividend; NULL for zero."""
    return spark().when(other == -1, other * 0).when(other != 0, one % other)

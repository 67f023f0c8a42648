"""Connect's logical types: Decimal, Date, Time and Timestamp, and the values that carry them.

A date is the number of its day, a time the milliseconds of the day, a timestamp the milliseconds
since 1970; as values all three are `EpochMillis`. A decimal is bytes of the number without its
point, which the schema has as `scale`.
"""

from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from barnabas.pipeline.data.connect_errors import DataError
from barnabas.pipeline.data.connect_schema import (
    DATE_NAME,
    SCALE_PARAMETER,
    TIME_NAME,
    TIMESTAMP_NAME,
    Schema,
)
from barnabas.pipeline.data.java_values import EpochMillis, wrapped

MILLIS_PER_DAY: Final = 86_400_000


def scale_of(schema: Schema) -> int:
    """Return the digits after the point of a decimal's schema. Raises DataError."""
    text = (schema.parameters or {}).get(SCALE_PARAMETER)
    if text is None:
        raise DataError("Invalid Decimal schema: scale parameter not found.")
    try:
        return int(text)
    except ValueError as error:
        raise DataError("Invalid scale parameter found in Decimal schema: ") from error


def bytes_of_decimal(schema: Schema, value: Decimal) -> bytes:
    """Return the bytes of a decimal. Raises DataError when its scale is another one."""
    sign, digits, exponent = value.as_tuple()
    scale = -exponent if isinstance(exponent, int) else 0
    wanted = scale_of(schema)
    if scale != wanted:
        raise DataError(
            "Decimal value has mismatching scale for given Decimal schema. "
            f"Schema has scale {wanted}, value has scale {scale}."
        )
    number = int(Decimal((sign, digits, 0)))
    bits = number if number >= 0 else ~number
    return number.to_bytes(bits.bit_length() // 8 + 1, "big", signed=True)


def decimal_of_bytes(schema: Schema, data: bytes) -> Decimal:
    """Return the decimal of bytes. Raises DataError."""
    if not data:
        raise DataError("Zero length BigInteger")
    number = Decimal(int.from_bytes(data, "big", signed=True))
    sign, digits, _ = number.as_tuple()
    return Decimal((sign, digits, -scale_of(schema)))


def day_of(moment: EpochMillis) -> int:
    """Return the number of a date's day. Raises DataError when it has a time of day."""
    days, rest = divmod(moment.ms, MILLIS_PER_DAY)
    if rest:
        raise DataError(
            "Kafka Connect Date type should not have any time fields set to non-zero values."
        )
    return wrapped(days, 32)


def date_of_day(day: int) -> EpochMillis:
    """Return the date of a day's number."""
    return EpochMillis(day * MILLIS_PER_DAY)


def milliseconds_of_day(moment: EpochMillis) -> int:
    """Return the milliseconds of a time. Raises DataError when it has a date."""
    if not 0 <= moment.ms <= MILLIS_PER_DAY:
        raise DataError(
            "Kafka Connect Time type should not have any date fields set to non-zero values."
        )
    return moment.ms


def time_of(milliseconds: int) -> EpochMillis:
    """Return the time of milliseconds of a day. Raises DataError."""
    if not 0 <= milliseconds <= MILLIS_PER_DAY:
        raise DataError(
            "Time values must use number of milliseconds greater than 0 and less than 86400000"
        )
    return EpochMillis(milliseconds)


def long_of(schema: Schema, moment: EpochMillis) -> int | None:
    """Return the number that carries a moment, None when the schema is not a logical type's."""
    if schema.name == DATE_NAME:
        return day_of(moment)
    if schema.name == TIME_NAME:
        return milliseconds_of_day(moment)
    return moment.ms if schema.name == TIMESTAMP_NAME else None


_AsLong = Callable[[Any, Schema | None], int]
_MomentConversion = Callable[[Schema, Schema | None, Any, _AsLong], EpochMillis]


def _to_date(target: Schema, source: Schema | None, value: Any, as_long: _AsLong) -> EpochMillis:
    if isinstance(value, EpochMillis):
        if source is None or source.name == DATE_NAME:
            return value
        if source.name == TIMESTAMP_NAME:
            return date_of_day(wrapped(int(value.ms / MILLIS_PER_DAY), 32))
    return date_of_day(wrapped(as_long(value, source), 32))


def _to_time(target: Schema, source: Schema | None, value: Any, as_long: _AsLong) -> EpochMillis:
    if isinstance(value, EpochMillis):
        if source is None or source.name == TIME_NAME:
            return value
        if source.name == TIMESTAMP_NAME:
            return time_of(value.ms % MILLIS_PER_DAY)
    return time_of(wrapped(as_long(value, source), 32))


def _to_timestamp(
    target: Schema, source: Schema | None, value: Any, as_long: _AsLong
) -> EpochMillis:
    if isinstance(value, EpochMillis):
        if source is None or source.name == TIMESTAMP_NAME:
            return value
        if source.name == DATE_NAME:
            return EpochMillis(day_of(value) * MILLIS_PER_DAY)
        if source.name == TIME_NAME:
            return EpochMillis(milliseconds_of_day(value))
    return EpochMillis(as_long(value, source))


def moment_conversion(schema: Schema) -> _MomentConversion | None:
    """Return the conversion to a date, a time or a timestamp, None for another schema."""
    return _MOMENTS.get(schema.name) if schema.name is not None else None


_MOMENTS: Final[dict[str, _MomentConversion]] = {
    DATE_NAME: _to_date,
    TIME_NAME: _to_time,
    TIMESTAMP_NAME: _to_timestamp,
}

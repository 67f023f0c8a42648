"""Numbers and moments of columns, as PostgreSQL and MySQL have them in common.

A time without a zone is UTC. Connect's times have milliseconds, so microseconds are cut from
values, but not from positions.
"""

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final

from barnabas.pipeline.connect.connectors.database_access import NumericMapping
from barnabas.pipeline.data import connect_schema as s
from barnabas.pipeline.data.connect_errors import DataError
from barnabas.pipeline.data.connect_schema import DECIMAL_NAME, Schema, Type
from barnabas.pipeline.data.java_values import EpochMillis, Float32
from barnabas.pipeline.data.logical_types import MILLIS_PER_DAY

EPOCH: Final = datetime(1970, 1, 1)
EPOCH_UTC: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROS_PER_MS: Final = 1_000
_EPOCH_DAY: Final = date(1970, 1, 1)
_MICROSECOND: Final = timedelta(microseconds=1)
_NANOS_PER_MICRO: Final = 1_000
_INTEGER_DIGITS_MAX: Final = 18


def numeric_schema(precision: int, scale: int, mapping: NumericMapping, optional: bool) -> Schema:
    """Return the schema of a column of decimals."""
    is_short = precision <= _INTEGER_DIGITS_MAX
    if mapping is not NumericMapping.NONE and scale == 0 and is_short:
        return Schema(_integer_type(precision), optional)
    is_double = mapping in (NumericMapping.BEST_FIT, NumericMapping.BEST_FIT_EAGER_DOUBLE)
    is_eager = mapping is NumericMapping.BEST_FIT_EAGER_DOUBLE
    if scale > 0 and is_double and (is_short or is_eager):
        return Schema(Type.FLOAT64, optional)
    return s.decimal_schema(max(scale, 0), optional=optional)


def _integer_type(precision: int) -> Type:
    for digits, found in ((2, Type.INT8), (4, Type.INT16), (9, Type.INT32)):
        if precision <= digits:
            return found
    return Type.INT64


def moment_value(schema: Schema, ms: int) -> Any:
    """Return a date, a time, or a timestamp as a driver takes it. Raises DataError."""
    try:
        moment = EPOCH + timedelta(milliseconds=ms)
    except OverflowError as error:
        raise DataError(f"{ms} ms is not a time in the years 1 to 9999") from error
    match schema.name:
        case s.DATE_NAME:
            return moment.date()
        case s.TIME_NAME:
            return moment.time()
        case s.TIMESTAMP_NAME:
            return moment
        case _:
            return ms


def driver_value(schema: Schema, value: Any) -> Any:
    """Return a value of a record as a driver takes it. Raises DataError."""
    if isinstance(value, EpochMillis):
        return moment_value(schema, value.ms)
    if isinstance(value, float):
        return float(value)
    if value is None or isinstance(value, int | str | bytes | Decimal):
        return value
    raise DataError(f"no type of a column fits {schema}")


def decimal_of(schema: Schema, value: Decimal) -> Any:
    """Return a decimal as the schema has it. Raises DataError."""
    if not value.is_finite():
        raise DataError(f"Connect cannot represent the decimal {value}")
    if schema.type is Type.FLOAT64:
        return float(value)
    return value if schema.name == DECIMAL_NAME else int(value)


def float_of(schema: Schema, value: float) -> float:
    """Return a number in the precision of the schema."""
    return Float32(value) if schema.type is Type.FLOAT32 else value


def date_of(schema: Schema, value: date) -> EpochMillis:
    """Return the midnight of a day."""
    return EpochMillis((value - _EPOCH_DAY).days * MILLIS_PER_DAY)


def moment_of(schema: Schema, value: datetime) -> EpochMillis:
    """Return the milliseconds of a timestamp."""
    return EpochMillis(_micros(value) // MICROS_PER_MS)


def _micros(value: datetime) -> int:
    """Return the microseconds since 1970."""
    return (value - (EPOCH if value.tzinfo is None else EPOCH_UTC)) // _MICROSECOND


def _time_of(schema: Schema, value: time) -> EpochMillis:
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return EpochMillis(seconds * 1000 + value.microsecond // MICROS_PER_MS)


CONVERSIONS: Final[dict[type, Callable[[Schema, Any], Any]]] = {
    Decimal: decimal_of,
    float: float_of,
    date: date_of,
    time: _time_of,
    datetime: moment_of,
}
"""What converts values of a driver, by their class; a value of another class stays as it is."""


def connect_value(schema: Schema, value: Any) -> Any:
    """Return a value of a driver as one of the schema. Raises DataError."""
    convert = CONVERSIONS.get(value.__class__)
    return value if convert is None else convert(schema, value)


def nanos_of(value: datetime) -> int:
    """Return the nanoseconds since 1970 of a timestamp."""
    return _micros(value) * _NANOS_PER_MICRO


def timestamp_of(nanos: int) -> datetime:
    """Return the timestamp without a zone."""
    return EPOCH + timedelta(microseconds=nanos // _NANOS_PER_MICRO)


def timestamptz_of(nanos: int) -> datetime:
    """Return the timestamp in UTC."""
    return EPOCH_UTC + timedelta(microseconds=nanos // _NANOS_PER_MICRO)

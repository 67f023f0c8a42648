"""Types of PostgreSQL: the schema of a column, the column of a schema, and values between them.

A type that is not listed is read as its text: arrays, intervals, addresses, JSON, enumerations.
Connect's times have milliseconds, so microseconds are cut from values, but not from positions.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from datetime import time as time_of_day
from decimal import Decimal
from typing import Any, Final

import attrs

from barnabas.pipeline.connect.connectors.database_access import NumericMapping
from barnabas.pipeline.data import connect_schema as s
from barnabas.pipeline.data.connect_errors import ConnectError, DataError
from barnabas.pipeline.data.connect_schema import (
    DATE_NAME,
    DECIMAL_NAME,
    TIME_NAME,
    TIMESTAMP_NAME,
    Schema,
    Type,
)
from barnabas.pipeline.data.java_values import EpochMillis, Float32
from barnabas.pipeline.data.logical_types import MILLIS_PER_DAY, scale_of

DATE_OID: Final = 1082
TIMESTAMP_OID: Final = 1114
TIMESTAMPTZ_OID: Final = 1184
_NUMERIC_OID: Final = 1700
_EPOCH_DAY: Final = date(1970, 1, 1)
_EPOCH: Final = datetime(1970, 1, 1)
_EPOCH_UTC: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_NANOS_PER_MICRO: Final = 1_000
_MICROS_PER_MS: Final = 1_000
_INTEGER_DIGITS_MAX: Final = 18
_NUMERIC_DIGITS_MAX: Final = 1_000

_SCHEMAS: Final[Mapping[int, tuple[Schema, Schema]]] = {
    16: (s.BOOLEAN, s.OPTIONAL_BOOLEAN),
    17: (s.BYTES, s.OPTIONAL_BYTES),
    20: (s.INT64, s.OPTIONAL_INT64),
    21: (s.INT16, s.OPTIONAL_INT16),
    23: (s.INT32, s.OPTIONAL_INT32),
    25: (s.STRING, s.OPTIONAL_STRING),
    26: (s.INT64, s.OPTIONAL_INT64),
    700: (s.FLOAT32, s.OPTIONAL_FLOAT32),
    701: (s.FLOAT64, s.OPTIONAL_FLOAT64),
    1042: (s.STRING, s.OPTIONAL_STRING),
    1043: (s.STRING, s.OPTIONAL_STRING),
    DATE_OID: (s.DATE, s.OPTIONAL_DATE),
    1083: (s.TIME, s.OPTIONAL_TIME),
    TIMESTAMP_OID: (s.TIMESTAMP, s.OPTIONAL_TIMESTAMP),
    TIMESTAMPTZ_OID: (s.TIMESTAMP, s.OPTIONAL_TIMESTAMP),
}
"""Schemas by the number of a type, for columns with and without NOT NULL."""

_COLUMN_TYPES: Final[Mapping[Type, str]] = {
    Type.INT8: "SMALLINT",
    Type.INT16: "SMALLINT",
    Type.INT32: "INTEGER",
    Type.INT64: "BIGINT",
    Type.FLOAT32: "REAL",
    Type.FLOAT64: "DOUBLE PRECISION",
    Type.BOOLEAN: "BOOLEAN",
    Type.STRING: "TEXT",
    Type.BYTES: "BYTEA",
}
_LOGICAL_TYPES: Final[Mapping[str | None, str]] = {
    DATE_NAME: "DATE",
    TIME_NAME: "TIME",
    TIMESTAMP_NAME: "TIMESTAMP",
}


@attrs.frozen
class ColumnType:
    """The type of a column as PostgreSQL describes it."""

    name: str
    oid: int
    modifier: int
    is_required: bool

    @property
    def is_known(self) -> bool:
        """False for a type that is read as its text."""
        return self.oid == _NUMERIC_OID or self.oid in _SCHEMAS


def schema_of(column: ColumnType, mapping: NumericMapping) -> Schema:
    """Return the schema of a column. Raises ConnectError."""
    if column.oid == _NUMERIC_OID:
        return _numeric_schema(column, mapping)
    required, optional = _SCHEMAS.get(column.oid, (s.STRING, s.OPTIONAL_STRING))
    return required if column.is_required else optional


def _numeric_schema(column: ColumnType, mapping: NumericMapping) -> Schema:
    is_double = mapping in (NumericMapping.BEST_FIT, NumericMapping.BEST_FIT_EAGER_DOUBLE)
    is_optional = not column.is_required
    modifier = column.modifier - 4
    if modifier < 0:
        if is_double:
            return Schema(Type.FLOAT64, is_optional)
        raise ConnectError(
            f"column {column.name} is numeric without a scale, which a decimal's schema needs: "
            "declare numeric(precision, scale), cast it in a query, or set "
            "numeric.mapping=best_fit to read it as a double"
        )
    precision, scale = modifier >> 16 & 0xFFFF, ((modifier & 0x7FF) ^ 1024) - 1024
    is_short = precision <= _INTEGER_DIGITS_MAX
    if mapping is not NumericMapping.NONE and scale == 0 and is_short:
        return Schema(_integer_type(precision), is_optional)
    is_eager = mapping is NumericMapping.BEST_FIT_EAGER_DOUBLE
    if scale > 0 and is_double and (is_short or is_eager):
        return Schema(Type.FLOAT64, is_optional)
    return s.decimal_schema(max(scale, 0), optional=is_optional)


def _integer_type(precision: int) -> Type:
    for digits, found in ((2, Type.INT8), (4, Type.INT16), (9, Type.INT32)):
        if precision <= digits:
            return found
    return Type.INT64


def column_type(schema: Schema) -> str:
    """Return the type of a column for a schema. Raises DataError."""
    if schema.name == DECIMAL_NAME:
        return f"NUMERIC({_NUMERIC_DIGITS_MAX}, {scale_of(schema)})"
    found = _LOGICAL_TYPES.get(schema.name) or _COLUMN_TYPES.get(schema.type)
    if found is None:
        raise DataError(f"{schema} has no type of a column")
    return found


def driver_value(schema: Schema, value: Any) -> Any:
    """Return a value of a record as the driver takes it. Raises DataError."""
    if isinstance(value, EpochMillis):
        return _moment_value(schema, value.ms)
    if isinstance(value, str) and "\0" in value:
        raise DataError("PostgreSQL's texts have no character 0")
    if value is None or isinstance(value, bool | int | str | bytes | Decimal):
        return value
    if isinstance(value, float):
        return float(value)
    raise DataError(f"{schema} has no type of a column")


def _moment_value(schema: Schema, ms: int) -> Any:
    try:
        moment = _EPOCH + timedelta(milliseconds=ms)
    except OverflowError as error:
        raise DataError(f"{ms} ms is not a moment of the years 1 to 9999") from error
    match schema.name:
        case s.DATE_NAME:
            return moment.date()
        case s.TIME_NAME:
            return moment.time()
        case s.TIMESTAMP_NAME:
            return moment
        case _:
            return ms


def connect_value(schema: Schema, value: Any) -> Any:
    """Return a value of the driver as one of the schema. Raises DataError."""
    kind: type[Any] = value.__class__
    convert = _CONVERSIONS.get(kind)
    return value if convert is None else convert(schema, value)


def _decimal(schema: Schema, value: Decimal) -> Any:
    if not value.is_finite():
        raise DataError(f"{value} is not a decimal that Connect has")
    if schema.type is Type.FLOAT64:
        return float(value)
    return value if schema.name == DECIMAL_NAME else int(value)


def _float(schema: Schema, value: float) -> float:
    return Float32(value) if schema.type is Type.FLOAT32 else value


def _date(schema: Schema, value: date) -> EpochMillis:
    return EpochMillis((value - _EPOCH_DAY).days * MILLIS_PER_DAY)


def _time(schema: Schema, value: time_of_day) -> EpochMillis:
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return EpochMillis(seconds * 1000 + value.microsecond // _MICROS_PER_MS)


def _timestamp(schema: Schema, value: datetime) -> EpochMillis:
    return EpochMillis(_micros(value) // _MICROS_PER_MS)


_CONVERSIONS: Final[Mapping[type, Callable[[Schema, Any], Any]]] = {
    Decimal: _decimal,
    float: _float,
    date: _date,
    time_of_day: _time,
    datetime: _timestamp,
}


def _micros(value: datetime) -> int:
    """Return the microseconds since 1970; a time without a zone is UTC."""
    return (value - (_EPOCH if value.tzinfo is None else _EPOCH_UTC)) // _MICROSECOND


def nanos_of(value: datetime) -> int:
    """Return the nanoseconds since 1970 of a timestamp."""
    return _micros(value) * _NANOS_PER_MICRO


def timestamp_of(nanos: int) -> datetime:
    """Return the timestamp without a zone."""
    return _EPOCH + timedelta(microseconds=nanos // _NANOS_PER_MICRO)


def timestamptz_of(nanos: int) -> datetime:
    """Return the timestamp in UTC."""
    return _EPOCH_UTC + timedelta(microseconds=nanos // _NANOS_PER_MICRO)

"""Types of PostgreSQL: the schema of a column, the column of a schema, and values between them.

A type that is not listed is read as its text: arrays, intervals, addresses, JSON, enumerations.
"""

from collections.abc import Callable, Mapping
from datetime import date, datetime
from datetime import time as time_of_day
from decimal import Decimal
from types import NoneType
from typing import Any, Final

import attrs

from barnabas.pipeline.connect.connectors.column_values import (
    MICROS_PER_MS,
    date_of,
    decimal_of,
    float_of,
    moment_of,
    moment_value,
    numeric_schema,
)
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
from barnabas.pipeline.data.java_values import EpochMillis
from barnabas.pipeline.data.logical_types import scale_of

DATE_OID: Final = 1082
TIMESTAMP_OID: Final = 1114
TIMESTAMPTZ_OID: Final = 1184
_NUMERIC_OID: Final = 1700
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
_AS_THEY_ARE: Final = frozenset({int, bool, bytes, Decimal, NoneType})
"""The classes of most values that the driver takes; it takes classes derived from them, too."""


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
    is_optional = not column.is_required
    modifier = column.modifier - 4
    if modifier < 0:
        if mapping in (NumericMapping.BEST_FIT, NumericMapping.BEST_FIT_EAGER_DOUBLE):
            return Schema(Type.FLOAT64, is_optional)
        raise ConnectError(
            f"column {column.name} is numeric without a scale, which a decimal's schema needs: "
            "declare numeric(precision, scale), cast it in a query, or set "
            "numeric.mapping=best_fit to read it as a double"
        )
    precision, scale = modifier >> 16 & 0xFFFF, ((modifier & 0x7FF) ^ 1024) - 1024
    return numeric_schema(precision, scale, mapping, is_optional)


def column_type(schema: Schema) -> str:
    """Return the type of a column for a schema. Raises DataError."""
    if schema.name == DECIMAL_NAME:
        return f"NUMERIC({_NUMERIC_DIGITS_MAX}, {scale_of(schema)})"
    found = _LOGICAL_TYPES.get(schema.name) or _COLUMN_TYPES.get(schema.type)
    if found is None:
        raise DataError(f"no type of a column fits {schema}")
    return found


def driver_value(schema: Schema, value: Any) -> Any:
    """Return a value of a record as the driver takes it. Raises DataError."""
    if value.__class__ in _AS_THEY_ARE:
        return value
    if isinstance(value, str):
        if "\0" in value:
            raise DataError("PostgreSQL cannot store the character U+0000 in a string")
        return value
    if isinstance(value, EpochMillis):
        return moment_value(schema, value.ms)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, int | str | bytes | Decimal):
        return value
    raise DataError(f"no type of a column fits {schema}")


def connect_value(schema: Schema, value: Any) -> Any:
    """Return a value of the driver as one of the schema. Raises DataError."""
    kind: type[Any] = value.__class__
    convert = _CONVERSIONS.get(kind)
    return value if convert is None else convert(schema, value)


def _time(schema: Schema, value: time_of_day) -> EpochMillis:
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return EpochMillis(seconds * 1000 + value.microsecond // MICROS_PER_MS)


_CONVERSIONS: Final[Mapping[type, Callable[[Schema, Any], Any]]] = {
    Decimal: decimal_of,
    float: float_of,
    date: date_of,
    time_of_day: _time,
    datetime: moment_of,
}

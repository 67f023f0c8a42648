"""Types of MariaDB and MySQL: the schema of a column, the column of a schema, and values between.

Columns have the types that Confluent's source gives them by MySQL's JDBC driver: TINYINT(1) and
BIT(1) are INT8, unsigned numbers the next larger type, a YEAR the first day of the year.
"""

from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from math import isfinite
from types import NoneType
from typing import Any, Final

import attrs
from pymysql.constants import FIELD_TYPE

from barnabas.pipeline.connect.connectors.column_values import (
    MICROS_PER_MS,
    date_of,
    decimal_of,
    float_of,
    moment_of,
    moment_value,
    numeric_schema,
)
from barnabas.pipeline.connect.connectors.column_values import nanos_of as _nanos_of
from barnabas.pipeline.connect.connectors.database_access import NumericMapping
from barnabas.pipeline.data import connect_schema as s
from barnabas.pipeline.data.connect_errors import DataError
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

MOMENT_CODES: Final = frozenset({FIELD_TYPE.DATE, FIELD_TYPE.DATETIME, FIELD_TYPE.TIMESTAMP})
_NOT_NULL_FLAG: Final = 1
_UNSIGNED_FLAG: Final = 32
_BINARY_CHARSET: Final = 63
_DECIMAL_DIGITS_MAX: Final = 65
_INT64_MAX: Final = (1 << 63) - 1
_MICROSECOND: Final = timedelta(microseconds=1)
_DAY: Final = timedelta(days=1)
_NO_TIME: Final = timedelta(0)

_INTEGERS: Final[Mapping[int, tuple[Type, Type]]] = {
    FIELD_TYPE.TINY: (Type.INT8, Type.INT16),
    FIELD_TYPE.SHORT: (Type.INT16, Type.INT32),
    FIELD_TYPE.INT24: (Type.INT32, Type.INT64),
    FIELD_TYPE.LONG: (Type.INT32, Type.INT64),
    FIELD_TYPE.LONGLONG: (Type.INT64, Type.INT64),
}
"""Types by the code of a column's type, for signed and unsigned numbers."""

_SCHEMAS: Final[Mapping[int, tuple[Schema, Schema]]] = {
    FIELD_TYPE.FLOAT: (s.FLOAT32, s.OPTIONAL_FLOAT32),
    FIELD_TYPE.DOUBLE: (s.FLOAT64, s.OPTIONAL_FLOAT64),
    FIELD_TYPE.DATE: (s.DATE, s.OPTIONAL_DATE),
    FIELD_TYPE.YEAR: (s.DATE, s.OPTIONAL_DATE),
    FIELD_TYPE.TIME: (s.TIME, s.OPTIONAL_TIME),
    FIELD_TYPE.DATETIME: (s.TIMESTAMP, s.OPTIONAL_TIMESTAMP),
    FIELD_TYPE.TIMESTAMP: (s.TIMESTAMP, s.OPTIONAL_TIMESTAMP),
    FIELD_TYPE.JSON: (s.STRING, s.OPTIONAL_STRING),
}
"""Schemas by the code of a type, for columns with and without NOT NULL."""

_COLUMN_TYPES: Final[Mapping[Type, str]] = {
    Type.INT8: "TINYINT",
    Type.INT16: "SMALLINT",
    Type.INT32: "INT",
    Type.INT64: "BIGINT",
    Type.FLOAT32: "FLOAT",
    Type.FLOAT64: "DOUBLE",
    Type.BOOLEAN: "BOOLEAN",
    Type.STRING: "LONGTEXT CHARACTER SET utf8mb4",
    Type.BYTES: "LONGBLOB",
}
_LOGICAL_TYPES: Final[Mapping[str | None, str]] = {
    DATE_NAME: "DATE",
    TIME_NAME: "TIME(3)",
    TIMESTAMP_NAME: "DATETIME(3)",
}
_KEY_TYPES: Final[Mapping[Type, str]] = {
    Type.STRING: "VARCHAR(256) CHARACTER SET utf8mb4 COLLATE {collation}",
    Type.BYTES: "VARBINARY(1024)",
}
"""Types of key columns: InnoDB's keys have at most 3,072 bytes, of which a character takes four."""
_AS_THEY_ARE: Final = frozenset({str, int, bool, bytes, Decimal, NoneType})
"""The classes of most values that the driver takes; it takes classes derived from them, too."""


@attrs.frozen
class ColumnType:
    """The type of a column as the server describes it in a result."""

    name: str
    code: int
    flags: int
    charset: int
    length: int
    scale: int

    @property
    def is_required(self) -> bool:
        """True for a column that is NOT NULL."""
        return bool(self.flags & _NOT_NULL_FLAG)


def schema_of(column: ColumnType, mapping: NumericMapping, *, optional: bool) -> Schema:
    """Return the schema of a column."""
    is_unsigned = bool(column.flags & _UNSIGNED_FLAG)
    if column.code == FIELD_TYPE.NEWDECIMAL:
        # The length counts the sign and the point.
        precision = column.length - (not is_unsigned) - (column.scale > 0)
        return numeric_schema(precision, column.scale, mapping, optional)
    if column.code in _INTEGERS:
        return Schema(_INTEGERS[column.code][is_unsigned], optional)
    if column.code == FIELD_TYPE.BIT:
        return Schema(Type.INT8 if column.length == 1 else Type.BYTES, optional)
    if column.code in _SCHEMAS:
        return _SCHEMAS[column.code][optional]
    return Schema(Type.BYTES if column.charset == _BINARY_CHARSET else Type.STRING, optional)


def column_type(schema: Schema, *, is_key: bool, collation: str) -> str:
    """Return the type of a column for a schema; texts of keys by a collation. Raises DataError."""
    if schema.name == DECIMAL_NAME:
        return f"DECIMAL({_DECIMAL_DIGITS_MAX}, {scale_of(schema)})"
    found = _LOGICAL_TYPES.get(schema.name)
    if found is None and is_key:
        found = _KEY_TYPES.get(schema.type, "").format(collation=collation)
    found = found or _COLUMN_TYPES.get(schema.type)
    if found is None:
        raise DataError(f"no type of a column fits {schema}")
    return found


def driver_value(schema: Schema, value: Any) -> Any:
    """Return a value of a record as the driver takes it. Raises DataError."""
    if value.__class__ in _AS_THEY_ARE:
        return value
    if isinstance(value, EpochMillis):
        return moment_value(schema, value.ms)
    if isinstance(value, float):
        if not isfinite(value):
            raise DataError(f"MariaDB and MySQL cannot store the number {value}")
        return float(value)
    if isinstance(value, int | str | bytes | Decimal):
        return value
    raise DataError(f"no type of a column fits {schema}")


def connect_value(schema: Schema, value: Any) -> Any:
    """Return a value of the driver as one of the schema. Raises DataError."""
    kind: type[Any] = value.__class__
    convert = _CONVERSIONS.get(kind)
    return value if convert is None else convert(schema, value)


def _number(schema: Schema, value: int) -> Any:
    if schema.name == DATE_NAME:
        if value == 0:
            raise _not_a_day("0000")
        return date_of(schema, date(value, 1, 1))
    if value > _INT64_MAX:
        raise DataError(
            f"{value} is greater than INT64 holds: read the column by a query with "
            "CAST(column AS DECIMAL(20))"
        )
    return value


def _bytes(schema: Schema, value: bytes) -> Any:
    return value[0] if schema.type is Type.INT8 else value


def _text(schema: Schema, value: str) -> str:
    """Return a text; the driver has days that no calendar has as texts, too."""
    if schema.type is not Type.STRING:
        raise _not_a_day(value)
    return value


def _not_a_day(value: str) -> DataError:
    return DataError(
        f"{value} is not a day of a calendar: correct the row, or read the column by a query with "
        "NULLIF(column, 0)"
    )


def _time(schema: Schema, value: timedelta) -> EpochMillis:
    if not _NO_TIME <= value < _DAY:
        raise DataError(
            f"{value} is not a time of a day: read the column by a query with CAST(column AS CHAR)"
        )
    return EpochMillis(value // _MICROSECOND // MICROS_PER_MS)


_CONVERSIONS: Final[Mapping[type, Callable[[Schema, Any], Any]]] = {
    int: _number,
    bytes: _bytes,
    str: _text,
    Decimal: decimal_of,
    float: float_of,
    date: date_of,
    timedelta: _time,
    datetime: moment_of,
}


def nanos_of(value: Any) -> int:
    """Return the nanoseconds since 1970 of a timestamp. Raises DataError."""
    if not isinstance(value, datetime):
        raise _not_a_day(str(value))
    return _nanos_of(value)

"""Types of MariaDB and MySQL: the schema of a column, the column of a schema, and values between.

Columns have the types that Confluent's source gives them by MySQL's JDBC driver: TINYINT(1) and
BIT(1) are INT8, unsigned numbers the next larger type, a YEAR the first day of the year.
"""

from collections.abc import Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from math import isfinite
from types import NoneType
from typing import Any, Final

import attrs
from pymysql.constants import FIELD_TYPE
from sqlalchemy.dialects import mysql

from barnabas.pipeline.connect.connectors.column_types import COLUMN_TYPES, ColumnTypes
from barnabas.pipeline.connect.connectors.column_values import (
    CONVERSIONS,
    MICROS_PER_MS,
    date_of,
    numeric_schema,
)
from barnabas.pipeline.connect.connectors.column_values import driver_value as _driver_value
from barnabas.pipeline.connect.connectors.column_values import nanos_of as _nanos_of
from barnabas.pipeline.connect.connectors.database_access import NumericMapping
from barnabas.pipeline.data import connect_schema as s
from barnabas.pipeline.data.connect_errors import DataError
from barnabas.pipeline.data.connect_schema import (
    DATE_NAME,
    TIME_NAME,
    TIMESTAMP_NAME,
    Schema,
    Type,
)
from barnabas.pipeline.data.java_values import EpochMillis

MOMENT_CODES: Final = frozenset({FIELD_TYPE.DATE, FIELD_TYPE.DATETIME, FIELD_TYPE.TIMESTAMP})
_NOT_NULL_FLAG: Final = 1
_UNSIGNED_FLAG: Final = 32
_BINARY_CHARSET: Final = 63
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

_UTF8: Final = "utf8mb4"
_PRIMITIVE: Final = COLUMN_TYPES.primitive | {
    Type.INT8: mysql.TINYINT(),
    Type.FLOAT32: mysql.FLOAT(),
    Type.STRING: mysql.LONGTEXT(charset=_UTF8),
    Type.BYTES: mysql.LONGBLOB(),
}
_LOGICAL: Final = COLUMN_TYPES.logical | {
    TIME_NAME: mysql.TIME(fsp=3),
    TIMESTAMP_NAME: mysql.DATETIME(fsp=3),
}
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


def column_types(collation: str) -> ColumnTypes:
    """Return the types of columns, with texts of keys by a collation.

    InnoDB's keys have at most 3,072 bytes, of which a character takes four.
    """
    keys = {
        Type.STRING: mysql.VARCHAR(256, charset=_UTF8, collation=collation),
        Type.BYTES: mysql.VARBINARY(1_024),
    }
    return ColumnTypes(_PRIMITIVE, _LOGICAL, lambda scale: mysql.DECIMAL(65, scale), keys)


def driver_value(schema: Schema, value: Any) -> Any:
    """Return a value of a record as the driver takes it. Raises DataError."""
    if value.__class__ in _AS_THEY_ARE:
        return value
    if isinstance(value, float) and not isfinite(value):
        raise DataError(f"MariaDB and MySQL cannot store the number {value}")
    return _driver_value(schema, value)


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


_CONVERSIONS: Final = CONVERSIONS | {
    int: _number,
    bytes: _bytes,
    str: _text,
    timedelta: _time,
}


def nanos_of(value: Any) -> int:
    """Return the nanoseconds since 1970 of a timestamp. Raises DataError."""
    if not isinstance(value, datetime):
        raise _not_a_day(str(value))
    return _nanos_of(value)

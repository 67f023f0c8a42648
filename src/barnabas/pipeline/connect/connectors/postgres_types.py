"""Types of PostgreSQL: the schema of a column, the column of a schema, and values between them.

A type that is not listed is read as its text: arrays, intervals, addresses, JSON, enumerations.
"""

from collections.abc import Mapping
from decimal import Decimal
from types import NoneType
from typing import Any, Final

import attrs

from barnabas.pipeline.connect.connectors.column_values import driver_value as _driver_value
from barnabas.pipeline.connect.connectors.column_values import (
    numeric_schema,
)
from barnabas.pipeline.connect.connectors.database_access import NumericMapping
from barnabas.pipeline.data import connect_schema as s
from barnabas.pipeline.data.connect_errors import ConnectError, DataError
from barnabas.pipeline.data.connect_schema import (
    Schema,
    Type,
)

DATE_OID: Final = 1082
TIMESTAMP_OID: Final = 1114
TIMESTAMPTZ_OID: Final = 1184
_NUMERIC_OID: Final = 1700

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


def driver_value(schema: Schema, value: Any) -> Any:
    """Return a value of a record as the driver takes it. Raises DataError."""
    if value.__class__ in _AS_THEY_ARE:
        return value
    if not isinstance(value, str):
        return _driver_value(schema, value)
    if "\0" in value:
        raise DataError("PostgreSQL cannot store the character U+0000 in a string")
    return value

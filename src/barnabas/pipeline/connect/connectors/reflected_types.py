"""Types of columns that SQLAlchemy's reflection has found, and those that a sink creates there."""

from typing import Any, Final

from sqlalchemy import types as t
from sqlalchemy.dialects import mssql, oracle
from sqlalchemy.types import TypeEngine

from barnabas.pipeline.connect.connectors.column_types import COLUMN_TYPES, ColumnTypes
from barnabas.pipeline.connect.connectors.column_values import numeric_schema
from barnabas.pipeline.connect.connectors.database_access import NumericMapping
from barnabas.pipeline.data import connect_schema as s
from barnabas.pipeline.data.connect_errors import ConnectError
from barnabas.pipeline.data.connect_schema import Schema, Type

_DIGITS_MAX: Final = 38
_SCHEMAS: Final[tuple[tuple[type[TypeEngine[Any]], Schema], ...]] = (
    (t.Boolean, s.BOOLEAN),
    (t.SmallInteger, s.INT16),
    (mssql.TINYINT, s.INT16),
    (t.BigInteger, s.INT64),
    (t.Integer, s.INT32),
    (t.REAL, s.FLOAT32),
    (t.Float, s.FLOAT64),
    (t.DateTime, s.TIMESTAMP),
    (t.Date, s.DATE),
    (t.Time, s.TIME),
    (t.String, s.STRING),
    (t._Binary, s.BYTES),
)
"""Schemas by class, the derived classes first. Any other type is read as its text."""

ORACLE_TYPES: Final = ColumnTypes(
    COLUMN_TYPES.primitive
    | {
        Type.FLOAT32: oracle.BINARY_FLOAT(),
        Type.FLOAT64: oracle.BINARY_DOUBLE(),
        Type.BOOLEAN: t.SmallInteger(),
    },
    {
        s.DATE_NAME: oracle.DATE(),
        s.TIME_NAME: t.Integer(),
        s.TIMESTAMP_NAME: oracle.TIMESTAMP(),
    },
    lambda scale: t.Numeric(_DIGITS_MAX, scale),
    {Type.STRING: t.String(256), Type.BYTES: oracle.RAW(1_024)},
)
"""Times are numbers of milliseconds."""

SQLSERVER_TYPES: Final = ColumnTypes(
    COLUMN_TYPES.primitive | {Type.STRING: mssql.NVARCHAR(), Type.BYTES: mssql.VARBINARY("max")},
    COLUMN_TYPES.logical | {s.TIME_NAME: mssql.TIME(3), s.TIMESTAMP_NAME: mssql.DATETIME2(3)},
    lambda scale: t.Numeric(_DIGITS_MAX, scale),
    {
        Type.STRING: mssql.NVARCHAR(256, collation="Latin1_General_100_BIN2"),
        Type.BYTES: mssql.VARBINARY(900),
    },
)
"""Texts of keys are compared exactly."""


def reflected_schema(
    name: str, kind: TypeEngine[Any], mapping: NumericMapping, *, optional: bool
) -> Schema | None:
    """Return the schema of a column, None for one that is read as its text. Raises ConnectError."""
    if isinstance(kind, t.Numeric) and not isinstance(kind, t.Float):
        if kind.precision is not None:
            return numeric_schema(kind.precision, kind.scale or 0, mapping, optional)
        if mapping in (NumericMapping.BEST_FIT, NumericMapping.BEST_FIT_EAGER_DOUBLE):
            return Schema(Type.FLOAT64, optional)
        raise ConnectError(
            f"column {name} is a number without a scale, which a decimal's schema needs: declare "
            "its precision and scale, or set numeric.mapping=best_fit to read it as a double"
        )
    if getattr(kind, "timezone", False):
        return None
    found = next((schema for each, schema in _SCHEMAS if isinstance(kind, each)), None)
    if found is None:
        return None
    return Schema(found.type, optional, name=found.name, version=found.version)

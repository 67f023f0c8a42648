"""The types of columns that a sink creates, as types of SQLAlchemy; databases have some others."""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import attrs
from sqlalchemy import (
    REAL,
    BigInteger,
    Boolean,
    Date,
    DateTime,
    Double,
    Integer,
    LargeBinary,
    Numeric,
    SmallInteger,
    Text,
    Time,
)
from sqlalchemy.types import TypeEngine

from barnabas.pipeline.data.connect_errors import DataError
from barnabas.pipeline.data.connect_schema import (
    DATE_NAME,
    DECIMAL_NAME,
    TIME_NAME,
    TIMESTAMP_NAME,
    Schema,
    Type,
)
from barnabas.pipeline.data.logical_types import scale_of

ColumnType: TypeAlias = TypeEngine[Any]
LogicalName: TypeAlias = str | None


@attrs.frozen
class ColumnTypes:
    """The types of a database's columns: of primitive and logical types, of decimals, of keys."""

    primitive: dict[Type, ColumnType]
    logical: dict[LogicalName, ColumnType]
    decimal: Callable[[int], ColumnType]
    """Returns the type of decimals with a scale."""
    keys: Mapping[Type, ColumnType] = attrs.field(factory=dict[Type, ColumnType])

    def of(self, schema: Schema, *, is_key: bool = False) -> ColumnType:
        """Return the type of a column for a schema. Raises DataError."""
        if schema.name == DECIMAL_NAME:
            return self.decimal(scale_of(schema))
        found = self.logical.get(schema.name)
        if found is None and is_key:
            found = self.keys.get(schema.type)
        found = found or self.primitive.get(schema.type)
        if found is None:
            raise DataError(f"no type of a column fits {schema}")
        return found


COLUMN_TYPES: Final = ColumnTypes(
    {
        Type.INT8: SmallInteger(),
        Type.INT16: SmallInteger(),
        Type.INT32: Integer(),
        Type.INT64: BigInteger(),
        Type.FLOAT32: REAL(),
        Type.FLOAT64: Double(),
        Type.BOOLEAN: Boolean(),
        Type.STRING: Text(),
        Type.BYTES: LargeBinary(),
    },
    {DATE_NAME: Date(), TIME_NAME: Time(), TIMESTAMP_NAME: DateTime()},
    lambda scale: Numeric(1_000, scale),
)
"""The types of standard SQL, with PostgreSQL's limit of digits."""

"""Types of SQL: their names, their place among Spark's types, and which of them widen to others.

A type that the parser reads is as it was written: `INT`, `VARCHAR` or the name of a declared type.
`resolved` makes one of the types below of it; everything behind the parser works with these.

TIME is a number of milliseconds since midnight, for Spark an INT. TIMESTAMP is a `TIMESTAMP` of
Spark with milliseconds.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from barnabas.pipeline.sql.sql_failures import UnresolvedError, nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PRECISION_MAX: Final = 38
"""The most digits of a DECIMAL: Spark's limit, where ksqlDB has none."""


@dataclass(frozen=True)
class SqlType:
    """A type by name, with its element types, its fields (STRUCT) or its numbers (DECIMAL)."""

    name: str
    elements: tuple[SqlType, ...] = ()
    fields: tuple[tuple[str, SqlType], ...] = ()
    numbers: tuple[int, ...] = ()

    def __str__(self) -> str:
        """Return the type as ksqlDB writes it: STRUCT<`A` INTEGER, `B` ARRAY<STRING>>."""
        if self.name == "STRUCT":
            inside = ", ".join(f"`{name}` {kind}" for name, kind in self.fields)
            return f"STRUCT<{inside}>" if inside else "STRUCT< >"
        if self.elements:
            return f"{self.name}<{', '.join(map(str, self.elements))}>"
        if self.numbers:
            return f"{self.name}({', '.join(map(str, self.numbers))})"
        return self.name

    @property
    def element(self) -> SqlType:
        """The type of an array's elements or of a map's values."""
        return self.elements[-1]

    @property
    def inside(self) -> tuple[SqlType, ...]:
        """The types of elements and of fields."""
        return (*self.elements, *(each for _, each in self.fields))

    def has(self, *names: str) -> bool:
        """True for a type of one of these names, and for one with such a type inside."""
        return self.name in names or any(each.has(*names) for each in self.inside)

    @property
    def precision(self) -> int:
        """The number of digits of a DECIMAL."""
        return self.numbers[0]

    @property
    def scale(self) -> int:
        """The number of a DECIMAL's digits after the point."""
        return self.numbers[1]

    @property
    def is_number(self) -> bool:
        """True for the types that arithmetic takes."""
        return self.name in _RANKS


BOOLEAN: Final = SqlType("BOOLEAN")
INTEGER: Final = SqlType("INTEGER")
BIGINT: Final = SqlType("BIGINT")
DOUBLE: Final = SqlType("DOUBLE")
STRING: Final = SqlType("STRING")
BYTES: Final = SqlType("BYTES")
DATE: Final = SqlType("DATE")
TIME: Final = SqlType("TIME")
TIMESTAMP: Final = SqlType("TIMESTAMP")
NULL: Final = SqlType("NULL")
"""The type of the literal NULL, which fits every other type."""

_RANKS: Final = {"INTEGER": 0, "BIGINT": 1, "DECIMAL": 2, "DOUBLE": 3}
_DIGITS: Final = {"INTEGER": 10, "BIGINT": 19}
_SIMPLE: Final = {
    each.name: each for each in (BOOLEAN, INTEGER, BIGINT, DOUBLE, STRING, BYTES, DATE, TIME)
} | {"TIMESTAMP": TIMESTAMP, "INT": INTEGER, "VARCHAR": STRING}
_SPARK: Final = {
    "BOOLEAN": "BooleanType",
    "INTEGER": "IntegerType",
    "BIGINT": "LongType",
    "DOUBLE": "DoubleType",
    "STRING": "StringType",
    "BYTES": "BinaryType",
    "DATE": "DateType",
    "TIME": "IntegerType",
    "TIMESTAMP": "TimestampType",
    "NULL": "NullType",
}
_FROM_SPARK: Final = {spark: name for name, spark in _SPARK.items() if name != "TIME"} | {
    "ByteType": "INTEGER",
    "ShortType": "INTEGER",
    "FloatType": "DOUBLE",
    "VarcharType": "STRING",
    "TimestampNTZType": "TIMESTAMP",
}


def decimal(precision: int, scale: int) -> SqlType:
    """Return the type DECIMAL of `precision` digits, of which `scale` are after the point."""
    return SqlType("DECIMAL", numbers=(precision, scale))


def array(element: SqlType) -> SqlType:
    """Return the type of an array."""
    return SqlType("ARRAY", (element,))


def map_of(key: SqlType, value: SqlType) -> SqlType:
    """Return the type of a map."""
    return SqlType("MAP", (key, value))


def struct(fields: Iterable[tuple[str, SqlType]]) -> SqlType:
    """Return the type of a struct."""
    return SqlType("STRUCT", fields=tuple(fields))


def resolved(written: SqlType, declared: Mapping[str, SqlType] | None = None) -> SqlType:
    """Return a type without aliases; `declared` has the types of CREATE TYPE by their names.

    Raises UnresolvedError for an unknown name, and for a DECIMAL out of its bounds.
    """
    known = declared or {}
    if written.name == "DECIMAL":
        return _decimal(written.numbers)
    if written.name == "STRUCT":
        return struct((name, resolved(kind, known)) for name, kind in written.fields)
    if written.elements:
        return SqlType(written.name, tuple(resolved(each, known) for each in written.elements))
    if written.name in known:
        return resolved(known[written.name], known)
    if written.name not in _SIMPLE:
        hint = nearest(written.name, [*known, *_SIMPLE, "DECIMAL", "ARRAY", "MAP", "STRUCT"])
        raise UnresolvedError(f"The type {written.name} is not known{hint}")
    return _SIMPLE[written.name]


def _decimal(numbers: tuple[int, ...]) -> SqlType:
    if len(numbers) != 2:
        raise UnresolvedError("A DECIMAL has a precision and a scale, as in DECIMAL(10, 2)")
    precision, scale = numbers
    if not 1 <= precision <= PRECISION_MAX:
        raise UnresolvedError(
            f"The precision of a DECIMAL is between 1 and {PRECISION_MAX}, and not {precision}"
        )
    if scale > precision:
        raise UnresolvedError(
            f"The scale of a DECIMAL is at most its precision, but {scale} > {precision}"
        )
    return decimal(precision, scale)


def as_decimal(kind: SqlType) -> SqlType:
    """Return the DECIMAL that has all values of an INTEGER, BIGINT or DECIMAL."""
    return kind if kind.name == "DECIMAL" else decimal(_DIGITS[kind.name], 0)


def wider(one: SqlType, other: SqlType) -> SqlType | None:
    """Return the type that has the values of both, None where no conversion is implicit.

    INTEGER, BIGINT, DECIMAL and DOUBLE widen in this order; NULL widens to anything.
    """
    if one == other or other == NULL:
        return one
    if one == NULL:
        return other
    if one.is_number and other.is_number:
        if "DECIMAL" in (one.name, other.name) and "DOUBLE" not in (one.name, other.name):
            return _wider_decimal(as_decimal(one), as_decimal(other))
        return max(one, other, key=lambda kind: _RANKS[kind.name])
    if one.name != other.name:
        return None
    if one.name == "STRUCT":
        return _wider_struct(one, other)
    elements = [wider(*pair) for pair in zip(one.elements, other.elements, strict=True)]
    return SqlType(one.name, tuple(each for each in elements if each)) if all(elements) else None


def _wider_decimal(one: SqlType, other: SqlType) -> SqlType:
    scale = max(one.scale, other.scale)
    digits = max(one.precision - one.scale, other.precision - other.scale)
    return decimal(min(digits + scale, PRECISION_MAX), min(scale, PRECISION_MAX))


def _wider_struct(one: SqlType, other: SqlType) -> SqlType | None:
    fields = dict(one.fields)
    for name, kind in other.fields:
        found = wider(fields.get(name, NULL), kind)
        if found is None:
            return None
        fields[name] = found
    return struct(fields.items())


def widens(kind: SqlType, to: SqlType) -> bool:
    """True when a value of the first type is taken where one of the second is needed."""
    if kind.name == "DECIMAL" and to.name == "DECIMAL":
        digits, more = kind.precision - kind.scale, to.precision - to.scale
        return digits <= more and kind.scale <= to.scale
    return wider(kind, to) == to


def to_spark(kind: SqlType) -> Any:
    """Return Spark's `DataType` of a type."""
    types: Any = importlib.import_module("pyspark.sql.types")
    if kind.name == "DECIMAL":
        return types.DecimalType(kind.precision, kind.scale)
    if kind.name == "ARRAY":
        return types.ArrayType(to_spark(kind.element))
    if kind.name == "MAP":
        return types.MapType(to_spark(kind.elements[0]), to_spark(kind.element))
    if kind.name == "STRUCT":
        return types.StructType(
            [types.StructField(name, to_spark(each)) for name, each in kind.fields]
        )
    return getattr(types, _SPARK[kind.name])()


def from_spark(data_type: Any) -> SqlType:
    """Return the type of a `DataType` of Spark. An INT is an INTEGER, also where it was a TIME.

    Raises UnresolvedError for a type that SQL does not have.
    """
    name = type(data_type).__name__
    if name == "DecimalType":
        return decimal(data_type.precision, data_type.scale)
    if name == "ArrayType":
        return array(from_spark(data_type.elementType))
    if name == "MapType":
        return map_of(from_spark(data_type.keyType), from_spark(data_type.valueType))
    if name == "StructType":
        return struct((each.name, from_spark(each.dataType)) for each in data_type.fields)
    if name not in _FROM_SPARK:
        raise UnresolvedError(f"SQL has no type for Spark's {data_type.simpleString()}")
    return SqlType(_FROM_SPARK[name])

"""The schemas of a subject whose fields have the types of columns.

A subject gets new versions while queries run. A query reads with one schema, and its columns stay
as they are: so a version whose fields have other types must not become the one that it reads with
when it starts again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.pipeline.sql.catalog.source_values import SourceColumn
    from barnabas.pipeline.sql.sql_types import SqlType
    from barnabas.pipeline.streams.serdes import DataType

_SMALL: Final = ("ByteType", "ShortType", "IntegerType")
_WHOLE: Final = (*_SMALL, "LongType")
_NESTED: Final = ("StructType", "ArrayType", "MapType")
_FITTING: Final[dict[str, Sequence[str]]] = {
    "BOOLEAN": ("BooleanType",),
    "INTEGER": _SMALL,
    "BIGINT": _WHOLE,
    "DOUBLE": (*_WHOLE, "FloatType", "DoubleType"),
    "DECIMAL": (*_WHOLE, "DecimalType"),
    "BYTES": ("BinaryType", "StringType"),
    "TIMESTAMP": ("TimestampType", "IntegerType", "LongType"),
    "DATE": ("DateType", "IntegerType"),
    "TIME": ("IntegerType", "LongType"),
}
"""The types of Spark whose values a type of SQL has. STRING takes all that are not nested."""


def fits(columns: Sequence[SourceColumn], kind: DataType, *, is_wrapped: bool) -> bool:
    """True for a schema with a field for each column, of which each value is one of the column."""
    if not is_wrapped:
        return _is_fitting(columns[0].type, kind)
    return all(_has_field(kind, each.name, each.type) for each in columns)


def _has_field(kind: DataType, name: str, wanted: SqlType) -> bool:
    types: dict[str, DataType] = {each.name: each.dataType for each in getattr(kind, "fields", ())}
    same = [each for each in types if each == name]
    same += [each for each in types if each.upper() == name.upper()]
    return bool(same) and _is_fitting(wanted, types[same[0]])


def _is_fitting(wanted: SqlType, kind: DataType) -> bool:
    name = type(kind).__name__
    if name == "NullType":
        return True
    if wanted.name == "STRUCT":
        return all(_has_field(kind, each, to) for each, to in wanted.fields)
    if wanted.name == "ARRAY":
        return name == "ArrayType" and _is_fitting(wanted.element, kind.elementType)
    if wanted.name == "MAP":
        return name == "MapType" and _is_fitting(wanted.element, kind.valueType)
    if wanted.name == "STRING":
        return name not in _NESTED
    return name in _FITTING[wanted.name]

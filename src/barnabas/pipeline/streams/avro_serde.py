"""Avro with a schema registry, and Avro's schemas as types of Spark."""

import datetime
import functools
import io
import json
import re
from typing import Any, Final, cast

import attrs

from barnabas.pipeline.data.connect_errors import DataError
from barnabas.pipeline.data.registered_schemas import RegisteredSchema
from barnabas.pipeline.delivery.driver.spark_library import pyspark
from barnabas.pipeline.streams.registry_serdes import (
    RegistrySchemaError,
    RegistrySerde,
    SubjectSerde,
)
from barnabas.pipeline.streams.serdes import DataType

_PRIMITIVES: Final = {
    "boolean": "BooleanType",
    "int": "IntegerType",
    "long": "LongType",
    "float": "FloatType",
    "double": "DoubleType",
    "bytes": "BinaryType",
    "string": "StringType",
    "fixed": "BinaryType",
    "enum": "StringType",
    "null": "NullType",
}
_TIMES: Final = {
    "timestamp-millis": "TimestampType",
    "timestamp-micros": "TimestampType",
    "date": "DateType",
}
_DEFAULT: Final = re.compile(r'"default"\s*:\s*(?!null)')


@attrs.frozen
class Avro(RegistrySerde):
    """Avro; records of other schemas are resolved to the newest, as Avro specifies."""

    schema_type = "AVRO"

    def of_subject(
        self, urls: str, subject: str, schema_id: int, schema: RegisteredSchema
    ) -> SubjectSerde:
        """Return the serde of one schema."""
        return SubjectAvro(urls, subject, schema_id, schema)


@attrs.frozen
class SubjectAvro(SubjectSerde):
    """Avro of one schema."""

    description = "Avro of a schema in the registry"

    def data_type(self) -> DataType:
        """Return the type of values in Spark. Raises RegistrySchemaError, DataError."""
        return type_of(_parsed(self.schema), {})

    def decoded(self, writer: RegisteredSchema, data: bytes) -> Any:
        """Return the value of data that a schema has written."""
        from fastavro import schemaless_reader  # pyright: ignore[reportUnknownVariableType]

        return schemaless_reader(io.BytesIO(data), _parsed(writer), _parsed(self.schema))

    def encoded(self, value: Any) -> bytes:
        """Return a value, a row where the schema is a record, as Avro data.

        A field that is null has the default of the schema where its type has no null.
        """
        from fastavro import schemaless_writer  # pyright: ignore[reportUnknownVariableType]

        stream, schema = io.BytesIO(), _parsed(self.schema)
        given = _plain(value)
        if _has_defaults(self.schema):
            given = _with_defaults(given, schema, {})
        schemaless_writer(stream, schema, given)
        return stream.getvalue()


def type_of(avro: Any, named: dict[str, DataType]) -> DataType:
    """Return the type of Spark for a parsed schema. Raises RegistrySchemaError.

    `named` has the types of the named schemas before it, and gets those of this one.
    """
    types = pyspark("sql.types")
    if isinstance(avro, list):
        return _of_union(cast("list[Any]", avro), named)
    if isinstance(avro, str):
        if avro in named:
            return named[avro]
        if avro not in _PRIMITIVES:
            raise RegistrySchemaError(f"{avro} refers to itself, which Spark has no type for")
        return getattr(types, _PRIMITIVES[avro])()
    described = cast("dict[str, Any]", avro)
    kind = described["type"]
    logical = described.get("logicalType")
    if logical in _TIMES:
        return getattr(types, _TIMES[logical])()
    if logical == "decimal":
        return types.DecimalType(described["precision"], described.get("scale", 0))
    if kind == "array":
        return types.ArrayType(type_of(described["items"], named))
    if kind == "map":
        return types.MapType(types.StringType(), type_of(described["values"], named))
    found = (
        types.StructType(
            [
                types.StructField(each["name"], type_of(each["type"], named))
                for each in described["fields"]
            ]
        )
        if kind == "record"
        else type_of(kind, named)
    )
    if "name" in described:
        named[described["name"]] = found
    return found


def _of_union(branches: list[Any], named: dict[str, DataType]) -> DataType:
    """Return the type of a union of null and one other. Raises RegistrySchemaError."""
    others = [each for each in branches if each != "null"]
    if len(others) != 1:
        raise RegistrySchemaError(f"a union of {len(others)} types has no type in Spark: {others}")
    return type_of(others[0], named)


@functools.cache
def _parsed(schema: RegisteredSchema) -> Any:
    """Return a schema as Avro's library wants it, with the logical types that Spark has."""
    from fastavro.schema import parse_schema

    named: dict[str, Any] = {}
    try:
        for _, text in schema.references:
            parse_schema(_supported(json.loads(text)), named_schemas=named, expand=False)
        return parse_schema(_supported(json.loads(schema.text)), named_schemas=named, expand=False)
    except Exception as error:  # fastavro has no common type of its errors
        raise DataError(f"the Avro schema cannot be used: {error}") from error


def _supported(avro: Any) -> Any:
    """Return a schema without the logical types that have no type in Spark."""
    if isinstance(avro, list):
        return [_supported(each) for each in cast("list[Any]", avro)]
    if not isinstance(avro, dict):
        return avro
    described = cast("dict[str, Any]", avro)
    kept = {
        name: value if name in ("default", "doc", "logicalType") else _supported(value)
        for name, value in described.items()
    }
    if kept.get("logicalType") not in (*_TIMES, "decimal"):
        kept.pop("logicalType", None)
    return kept


@functools.cache
def _has_defaults(schema: RegisteredSchema) -> bool:
    """True for a schema that may have a default other than null, or refer to one."""
    texts = (schema.text, *(text for _, text in schema.references))
    return any(map(_DEFAULT.search, texts))


def _with_defaults(value: Any, avro: Any, named: dict[str, Any]) -> Any:
    """Return a value without the fields that are null and have a default instead.

    `named` has the named schemas before it, and gets those of this one.
    """
    if isinstance(avro, list):
        others = [each for each in cast("list[Any]", avro) if each != "null"]
        return _with_defaults(value, next(iter(others), "null"), named)
    described = named.get(avro) if isinstance(avro, str) else avro
    match described, value:
        case {"type": "array", "items": inner}, list():
            return [_with_defaults(each, inner, named) for each in cast("list[Any]", value)]
        case {"type": "map", "values": inner}, dict():
            entries = cast("dict[str, Any]", value).items()
            return {name: _with_defaults(each, inner, named) for name, each in entries}
        case {"type": "record", "name": name, "fields": fields}, dict():
            named[name] = described
            given = cast("dict[str, Any]", value)
            return {
                each["name"]: _with_defaults(given.get(each["name"]), each["type"], named)
                for each in fields
                if given.get(each["name"]) is not None or not _replaces_null(each)
            }
        case _:
            return value


def _replaces_null(field: dict[str, Any]) -> bool:
    """True for a field with a default whose type has no null."""
    kind = field["type"]
    return "default" in field and "null" not in (kind if isinstance(kind, list) else [kind])


def _plain(value: Any) -> Any:
    """Return a value with dictionaries for rows, and times with their zone.

    Spark gives times without one, in the zone of the host.
    """
    if hasattr(value, "asDict"):
        return {name: _plain(each) for name, each in value.asDict().items()}
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_plain(each) for each in cast("list[Any]", value)]
    if isinstance(value, datetime.datetime) and value.tzinfo is None:
        return value.astimezone()
    return value

"""Avro with a schema registry: a zero byte, the id of the schema, and Avro's binary encoding.

The columns are those of the newest schema of the subject when the app starts. Records of other
schemas are resolved to it, as Avro specifies.
"""

import datetime
import functools
import io
import json
from typing import Any, Final, cast

import attrs

from barnabas.pipeline.connect.registry_client import RegisteredSchema, RegistryClient
from barnabas.pipeline.data.connect_errors import ConnectError, DataError
from barnabas.pipeline.delivery.spark_library import pyspark
from barnabas.pipeline.streams.python_serdes import decoder, encoder
from barnabas.pipeline.streams.serdes import Column, DataType, Serde, SerdeContext, functions

_PREFIX_BYTES: Final = 5
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


class AvroSchemaError(Exception):
    """A schema has no type in Spark, or the registry does not have it."""


@attrs.frozen
class Avro(Serde):
    """Avro; `subject` is the schema's name in the registry, by default TOPIC-value or TOPIC-key.

    `registry` is the registry's address, by default the app's. To write, the subject must have a
    schema, or `schema` is the text of the one to register.
    """

    subject: str | None = None
    registry: str | None = None
    schema: str | None = None

    def prepared(self, context: SerdeContext) -> Serde:
        """Return the serde of the subject's newest schema. Raises AvroSchemaError."""
        urls = self.registry or context.registry
        subject = self.subject or f"{context.topic}-{context.side}"
        if not urls:
            raise AvroSchemaError(
                f"Avro for subject {subject} needs a registry: App(registry='http://...')"
            )
        try:
            client = RegistryClient(urls)
            if self.schema is not None:
                schema = RegisteredSchema("AVRO", self.schema)
                schema_id = client.id_of(subject, schema, registers=True)
            else:
                schema_id, schema = client.latest(subject)
        except ConnectError as error:
            raise AvroSchemaError(f"no schema of subject {subject}: {error}") from error
        if schema.schema_type != "AVRO":
            raise AvroSchemaError(f"subject {subject} has a schema of {schema.schema_type}")
        type_of(_parsed(schema), {})  # raises for a schema that Spark has no type for
        return SubjectAvro(urls, schema_id, schema)


@attrs.frozen
class SubjectAvro(Serde):
    """Avro of one schema, into which others are resolved."""

    urls: str
    schema_id: int
    schema: RegisteredSchema
    description = "Avro of a schema in the registry"

    def parse(self, data: Column) -> Column:
        """Return a struct of the value and the reason when it does not decode."""
        types = pyspark("sql.types")
        fields = [("value", self._type()), ("error", types.StringType())]
        kind = types.StructType([types.StructField(*field) for field in fields])
        decode = functools.partial(_decoded, self.urls, self.schema)
        return functions().udf(decoder(decode), kind)(data)

    def value(self, parsed: Column) -> Column:
        """Return the value of the struct."""
        return parsed["value"]

    def error(self, data: Column, parsed: Column) -> Column:
        """Return the reason."""
        return functions().concat(functions().lit(f"is not {self.description}: "), parsed["error"])

    def encode(self, value: Column) -> Column:
        """Return the Avro of a value."""
        encode = functools.partial(_encoded, self.schema_id, self.schema)
        return functions().udf(encoder(encode), "binary")(value)

    def load(self, data: bytes) -> Any:
        """Return the value of Avro data. Raises DataError, RetriableError."""
        return _decoded(self.urls, self.schema, data)

    def dump(self, value: Any) -> bytes:
        """Return a value as Avro data."""
        return _encoded(self.schema_id, self.schema, value)

    def _type(self) -> DataType:
        return type_of(_parsed(self.schema), {})


def type_of(avro: Any, named: dict[str, DataType]) -> DataType:
    """Return the type of Spark for a parsed schema. Raises AvroSchemaError.

    `named` has the types of the named schemas before it, and gets those of this one.
    """
    types = pyspark("sql.types")
    if isinstance(avro, list):
        return _of_union(cast("list[Any]", avro), named)
    if isinstance(avro, str):
        if avro in named:
            return named[avro]
        if avro not in _PRIMITIVES:
            raise AvroSchemaError(f"{avro} refers to itself, which Spark has no type for")
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
    """Return the type of a union of null and one other. Raises AvroSchemaError."""
    others = [each for each in branches if each != "null"]
    if len(others) != 1:
        raise AvroSchemaError(f"a union of {len(others)} types has no type in Spark: {others}")
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
def _registry(urls: str) -> RegistryClient:
    """Return the client of this worker process."""
    return RegistryClient(urls)


def _decoded(urls: str, reader: RegisteredSchema, data: bytes) -> Any:
    """Return the value of Avro data. Raises DataError, RetriableError."""
    from fastavro import schemaless_reader  # pyright: ignore[reportUnknownVariableType]

    if len(data) < _PREFIX_BYTES or data[0] != 0:
        raise DataError("it has no schema id")
    writer = _registry(urls).schema_of(int.from_bytes(data[1:_PREFIX_BYTES], "big"))
    if writer.schema_type != "AVRO":
        raise DataError(f"its schema is one of {writer.schema_type}")
    stream = io.BytesIO(data[_PREFIX_BYTES:])
    return schemaless_reader(stream, _parsed(writer), _parsed(reader))


def _encoded(schema_id: int, schema: RegisteredSchema, value: Any) -> bytes:
    """Return a value, a row where the schema is a record, as Avro data."""
    from fastavro import schemaless_writer  # pyright: ignore[reportUnknownVariableType]

    stream = io.BytesIO()
    schemaless_writer(stream, _parsed(schema), _plain(value))
    return b"\x00" + schema_id.to_bytes(4, "big") + stream.getvalue()


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

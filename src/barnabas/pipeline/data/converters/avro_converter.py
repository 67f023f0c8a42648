"""Avro with a schema registry, under the name and the properties of Confluent's converter.

A value is a zero byte, the id of its schema, and Avro's binary encoding. The registry is behind
`SchemaLookup`; a schema is fetched or registered once in each process.
"""

import io
import json
from typing import Any, Final, cast

from barnabas.pipeline.data.connect_errors import DataError
from barnabas.pipeline.data.connect_schema import Schema
from barnabas.pipeline.data.converters.avro_schemas import AvroReader, avro_of, full_name
from barnabas.pipeline.data.converters.avro_values import of_avro, to_avro
from barnabas.pipeline.data.converters.converter_base import SchemaAndValue
from barnabas.pipeline.data.converters.registry_base import (
    Decoding,
    Encoding,
    RegistryConverter,
    cache_key,
    registry_definition,
)
from barnabas.pipeline.data.registered_schemas import RegisteredSchema

_CACHE_SIZE: Final = "schemas.cache.config"


def _without_logical_types(avro: Any) -> Any:
    if isinstance(avro, dict):
        described = cast("dict[str, Any]", avro)
        return {
            name: value if name in ("default", "doc") else _without_logical_types(value)
            for name, value in described.items()
            if name != "logicalType" and not name.startswith("connect.")
        }
    if isinstance(avro, list):
        return [_without_logical_types(each) for each in cast("list[Any]", avro)]
    return avro


def _parsed(avro: Any, references: tuple[tuple[str, str], ...] = ()) -> Any:
    """Return a schema as Avro's library wants it. Raises DataError."""
    from fastavro.schema import parse_schema

    named: dict[str, Any] = {}
    try:
        for _, text in references:
            parse_schema(_without_logical_types(json.loads(text)), named_schemas=named)
        return parse_schema(_without_logical_types(avro), named_schemas=named)
    except Exception as error:  # fastavro has no common type of its errors
        raise DataError(f"the Avro schema cannot be used: {error}") from error


class AvroConverter(RegistryConverter):
    """Reads and writes Avro."""

    java_class = "io.confluent.connect.avro.AvroConverter"
    schema_type = "AVRO"
    format_name = "Avro"
    cache_property = _CACHE_SIZE
    definition = registry_definition(cache_key(_CACHE_SIZE))

    def decoding_of(self, registered: RegisteredSchema) -> Decoding:
        """Return how data of a registered schema is decoded. Raises DataError."""
        from fastavro import (
            schemaless_reader,  # pyright: ignore[reportUnknownVariableType]
        )

        schema = AvroReader(dict(registered.references)).schema_of(registered.text)
        avro = _parsed(json.loads(registered.text), registered.references)
        convert = of_avro(schema)

        def decode(data: bytes) -> SchemaAndValue:
            return schema, convert(schemaless_reader(io.BytesIO(data), avro, None))

        return Decoding(decode)

    def encoding_of(self, schema: Schema) -> Encoding:
        """Return how values of a schema are encoded. Raises DataError."""
        from fastavro import (
            schemaless_writer,  # pyright: ignore[reportUnknownVariableType]
        )

        described = avro_of(schema)
        avro, convert = _parsed(described), to_avro(schema)

        def encode(value: Any) -> bytes:
            stream = io.BytesIO()
            schemaless_writer(stream, avro, convert(value))
            return stream.getvalue()

        registered = RegisteredSchema("AVRO", json.dumps(described))
        return Encoding(registered, _name_of(described), encode)


def _name_of(avro: Any) -> str | None:
    """Return the full name of a record's schema, None for any other."""
    if isinstance(avro, list):
        return next((name for each in cast("list[Any]", avro) if (name := _name_of(each))), None)
    is_named = isinstance(avro, dict) and "name" in avro
    return full_name(cast("dict[str, Any]", avro), "") if is_named else None

"""Avro with a schema registry, under the name and the properties of Confluent's converter.

A value is a zero byte, the id of its schema, and Avro's binary encoding. The registry is behind
`SchemaLookup`; a schema is fetched or registered once in each process.
"""

import io
import json
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

import attrs

from barnabas.pipeline.connect.config_def import NO_DEFAULT, ConfigDef, ConfigKey, Importance
from barnabas.pipeline.connect.config_types import ConfigType, ParsedValue, Password
from barnabas.pipeline.connect.registry_client import (
    RegisteredSchema,
    SchemaLookup,
    open_registry,
)
from barnabas.pipeline.data.connect_errors import DataError, RetriableError
from barnabas.pipeline.data.connect_schema import Schema, Type, check_value, type_of_value
from barnabas.pipeline.data.converters.avro_schemas import AvroReader, avro_of
from barnabas.pipeline.data.converters.avro_values import Conversion, of_avro, to_avro
from barnabas.pipeline.data.converters.converter_base import (
    CONVERTER_TYPE,
    BaseConverter,
    SchemaAndValue,
)

_PREFIX_BYTES: Final = 5


def _key(
    name: str, kind: ConfigType, default: Any, importance: Importance, documentation: str
) -> ConfigKey:
    return ConfigKey(name, kind, default, importance, documentation, display_name=name)


@attrs.frozen
class _Readable:
    schema: Schema
    avro: Any
    convert: Conversion


@attrs.frozen
class _Writable:
    prefix: bytes
    avro: Any
    convert: Conversion


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


class AvroConverter(BaseConverter):
    """Reads and writes Avro."""

    java_class = "io.confluent.connect.avro.AvroConverter"
    definition = ConfigDef(
        [
            CONVERTER_TYPE,
            _key(
                "schema.registry.url",
                ConfigType.STRING,
                NO_DEFAULT,
                Importance.HIGH,
                "The addresses of the schema registry.",
            ),
            _key(
                "basic.auth.user.info",
                ConfigType.PASSWORD,
                None,
                Importance.MEDIUM,
                "User and password for the registry, as user:password.",
            ),
            _key(
                "auto.register.schemas",
                ConfigType.BOOLEAN,
                True,
                Importance.MEDIUM,
                "True when unknown schemas are registered.",
            ),
        ]
    )
    open_lookup: Callable[[Mapping[str, str]], SchemaLookup] = staticmethod(open_registry)

    def accept(self, values: Mapping[str, ParsedValue]) -> None:
        """Take the parsed properties; the registry is called with the first value."""
        user_info = values["basic.auth.user.info"]
        self._side = str(values["converter.type"])
        self._registers = values["auto.register.schemas"] is True
        self._registry = self.open_lookup(
            {
                "schema.registry.url": str(values["schema.registry.url"]),
                "basic.auth.user.info": user_info.value if isinstance(user_info, Password) else "",
            }
        )
        self._readable: dict[int, _Readable] = {}
        self._writable: dict[tuple[str, Schema], _Writable] = {}

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        """Return the schema and the value of Avro data. Raises DataError, RetriableError."""
        if data is None:
            return None, None
        failure = f"Failed to deserialize data for topic {topic} to Avro: "
        if len(data) < _PREFIX_BYTES or data[0] != 0:
            raise DataError(f"{failure}Unknown magic byte!")
        readable = self._readable_of(int.from_bytes(data[1:_PREFIX_BYTES], "big"), failure)
        from fastavro import (
            schemaless_reader,  # pyright: ignore[reportUnknownVariableType]
        )

        try:
            value = schemaless_reader(io.BytesIO(data[_PREFIX_BYTES:]), readable.avro, None)
            return readable.schema, readable.convert(value)
        except Exception as error:  # fastavro has no common type of its errors
            raise DataError(f"{failure}{error}") from error

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return the Avro data of a value. Raises DataError, RetriableError."""
        if value is None and (schema is None or schema.optional):
            return None
        known = _inferred(value) if schema is None else schema
        failure = f"Failed to serialize Avro data from topic {topic} : "
        check_value(known, value)
        writable = self._writable_of(topic, known, failure)
        from fastavro import (
            schemaless_writer,  # pyright: ignore[reportUnknownVariableType]
        )

        stream = io.BytesIO()
        try:
            schemaless_writer(stream, writable.avro, writable.convert(value))
        except Exception as error:  # fastavro has no common type of its errors
            raise DataError(f"{failure}{error}") from error
        return writable.prefix + stream.getvalue()

    def _readable_of(self, schema_id: int, failure: str) -> _Readable:
        found = self._readable.get(schema_id)
        if found is None:
            try:
                registered = self._registry.schema_of(schema_id)
            except RetriableError:
                raise
            except DataError as error:
                raise DataError(f"{failure}schema {schema_id}: {error}") from error
            if registered.schema_type != "AVRO":
                raise DataError(f"{failure}schema {schema_id} is {registered.schema_type}")
            schema = AvroReader(dict(registered.references)).schema_of(registered.text)
            avro = _parsed(json.loads(registered.text), registered.references)
            found = self._readable[schema_id] = _Readable(schema, avro, of_avro(schema))
        return found

    def _writable_of(self, topic: str, schema: Schema, failure: str) -> _Writable:
        found = self._writable.get((topic, schema))
        if found is None:
            avro = avro_of(schema)
            registered = RegisteredSchema("AVRO", json.dumps(avro))
            subject = f"{topic}-{self._side}"
            try:
                schema_id = self._registry.id_of(subject, registered, registers=self._registers)
            except RetriableError:
                raise
            except DataError as error:
                raise DataError(f"{failure}{error}") from error
            prefix = b"\x00" + schema_id.to_bytes(4, "big")
            found = _Writable(prefix, _parsed(avro), to_avro(schema))
            self._writable[topic, schema] = found
        return found


def _inferred(value: Any) -> Schema:
    """Return the schema of a primitive value. Raises DataError for any other."""
    kind = type_of_value(value)
    if kind is None or kind in (Type.ARRAY, Type.MAP, Type.STRUCT):
        raise DataError("AvroConverter needs a schema for values other than primitive ones")
    return Schema(kind)

"""Protobuf with a schema registry, under the name and the properties of Confluent's converter.

The path of the message's type in its file is between the id of the schema and the message.
Primitive values are messages of Protobuf's wrappers.
"""

from collections.abc import Mapping
from typing import Any, Final

from barnabas.pipeline.data.connect_errors import DataError
from barnabas.pipeline.data.connect_schema import Schema, Type
from barnabas.pipeline.data.converters.converter_base import SchemaAndValue
from barnabas.pipeline.data.converters.protobuf_files import types_of_text, types_of_tree
from barnabas.pipeline.data.converters.protobuf_schemas import ProtobufStyle, SchemaReader
from barnabas.pipeline.data.converters.protobuf_trees import (
    WRAPPERS,
    file_of_struct,
    scrubbed,
    wrapper_of,
    wrappers_file,
)
from barnabas.pipeline.data.converters.protobuf_values import ValueReader, ValueWriter
from barnabas.pipeline.data.converters.registry_base import (
    Decoding,
    Encoding,
    RegistryConverter,
    cache_key,
    refused_key,
    registry_definition,
    registry_key,
)
from barnabas.pipeline.data.registered_schemas import RegisteredSchema
from barnabas.pipeline.definitions.config_def import Importance
from barnabas.pipeline.definitions.config_types import ConfigType, ParsedValue
from barnabas.registry.formats.protobuf.proto_printer import print_proto
from barnabas.registry.payloads.wire_framing import decode_indexes, encode_indexes

_CACHE_SIZE: Final = "schemas.cache.config"
_STYLE: Final = (
    (
        "enhanced.protobuf.schema.support",
        False,
        "True when names of schemas keep the package.",
    ),
    (
        "scrub.invalid.names",
        False,
        "True when characters that Protobuf does not allow in names are replaced.",
    ),
    ("int.for.enums", False, "True when enums are read as their numbers."),
    (
        "optional.for.nullables",
        False,
        "True when fields that may be null are marked optional in Protobuf.",
    ),
    ("optional.for.proto2", True, "True when fields of proto2 that are not set are read as null."),
    (
        "wrapper.for.nullables",
        False,
        "True when primitive fields that may be null are messages of Protobuf's wrappers.",
    ),
    (
        "wrapper.for.raw.primitives",
        True,
        "True when a message of Protobuf's wrappers is read as the value in it.",
    ),
    ("generate.index.for.unions", True, "True when names of oneofs end with their number."),
)


class ProtobufConverter(RegistryConverter):
    """Reads and writes Protobuf."""

    java_class = "io.confluent.connect.protobuf.ProtobufConverter"
    schema_type = "PROTOBUF"
    format_name = "Protobuf"
    cache_property = _CACHE_SIZE
    definition = registry_definition(
        *(
            registry_key(name, ConfigType.BOOLEAN, default, Importance.MEDIUM, text)
            for name, default, text in _STYLE
        ),
        cache_key(_CACHE_SIZE),
        refused_key("generalized.sum.type.support", "false"),
        refused_key("generate.struct.for.nulls", "false"),
        refused_key("flatten.unions", "false"),
    )

    def accept(self, values: Mapping[str, ParsedValue]) -> None:
        """Take the parsed properties."""
        super().accept(values)
        self._style = ProtobufStyle(*(values[name] is True for name, _, _ in _STYLE))

    def decoding_of(self, registered: RegisteredSchema) -> Decoding:
        """Return how data of a registered schema is decoded. Raises DataError."""
        types = types_of_text(registered.text, registered.references)
        schemas, values = SchemaReader(types, self._style), ValueReader(types, self._style)
        classes = ValueWriter(types, str)
        known: dict[tuple[int, ...], tuple[Any, Schema, Any]] = {}

        def decode(data: bytes) -> SchemaAndValue:
            path, content = decode_indexes(data)
            found = known.get(path)
            if found is None:
                name = types.name_at(path)
                schema = schemas.root(name)
                found = (classes.message_class(name), schema, values.root(schema, name))
                known[path] = found
            message_class, schema, read = found
            message = message_class()
            message.ParseFromString(content)
            return schema, read(message)

        return Decoding(decode)

    def encoding_of(self, schema: Schema) -> Encoding:
        """Return how values of a schema are encoded. Raises DataError."""
        if schema.type is Type.STRUCT:
            return self._of_struct(schema)
        if schema.type in (Type.ARRAY, Type.MAP) or schema.name is not None:
            raise DataError(
                f"a value of {schema} is not a message; wrap it, for example with HoistField"
            )
        tree = wrappers_file()
        name = wrapper_of(schema.type)
        full_name = f"{tree.package}.{name}"
        message_class = ValueWriter(types_of_tree(tree), str).message_class(full_name)
        path = encode_indexes([WRAPPERS.index(name)])

        def encode(value: Any) -> bytes:
            return path + message_class(value=value).SerializeToString()

        registered = RegisteredSchema(self.schema_type, print_proto(tree))
        return Encoding(registered, full_name, encode)

    def _of_struct(self, schema: Schema) -> Encoding:
        tree = file_of_struct(schema, self._style)
        types = types_of_tree(tree)
        writer = ValueWriter(types, scrubbed if self._style.scrubs_names else str)
        name = types.name_at([0])
        message_class, fill = writer.message_class(name), writer.struct(schema, name)
        path = encode_indexes([0])

        def encode(value: Any) -> bytes:
            message = message_class()
            fill(message, value)
            return path + message.SerializeToString()

        return Encoding(RegisteredSchema(self.schema_type, print_proto(tree)), name, encode)

"""Converters of strings, bytes, booleans and numbers, as Kafka's serializers write them."""

import struct
from collections.abc import Mapping
from typing import Any, ClassVar

from barnabas.pipeline.data import connect_schema as schemas
from barnabas.pipeline.data.connect_errors import DataError
from barnabas.pipeline.data.connect_schema import Schema, Type, class_name, type_of_value
from barnabas.pipeline.data.converters.converter_base import (
    CONVERTER_TYPE,
    BaseConverter,
    SchemaAndValue,
)
from barnabas.pipeline.data.java_text import plain_text
from barnabas.pipeline.data.java_values import Float32
from barnabas.pipeline.definitions.config_def import ConfigDef, ConfigKey, Importance, Width
from barnabas.pipeline.definitions.config_types import ConfigType, ParsedValue


class StringConverter(BaseConverter):
    """Texts; a value of any other type is written as Java's `toString` shows it."""

    java_class = "org.apache.kafka.connect.storage.StringConverter"
    definition = ConfigDef(
        [
            CONVERTER_TYPE,
            ConfigKey(
                "converter.encoding",
                ConfigType.STRING,
                "UTF-8",
                Importance.HIGH,
                "The character set of the texts, by its name in Java.",
                width=Width.MEDIUM,
                display_name="Encoding",
            ),
        ]
    )
    _encoding: str = "UTF-8"

    def accept(self, values: Mapping[str, ParsedValue]) -> None:
        """Take the encoding."""
        self._encoding = str(values["converter.encoding"])

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        """Return the text; malformed bytes become U+FFFD, as in Java."""
        if data is None:
            return schemas.OPTIONAL_STRING, None
        try:
            return schemas.OPTIONAL_STRING, data.decode(self._encoding, "replace")
        except LookupError as error:
            raise DataError("Failed to deserialize string: ") from error

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return the text of a value; what the encoding lacks becomes a question mark."""
        if value is None:
            return None
        text = value if type(value) is str else plain_text(value)
        try:
            return text.encode(self._encoding, "replace")
        except LookupError as error:
            raise DataError("Failed to serialize to a string: ") from error


class ByteArrayConverter(BaseConverter):
    """Bytes as they are."""

    java_class = "org.apache.kafka.connect.converters.ByteArrayConverter"

    def configure(self, props: Mapping[str, Any], *, is_key: bool) -> None:
        """Take nothing: the converter has no properties."""

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        """Return the bytes."""
        return schemas.OPTIONAL_BYTES, data

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return the bytes. Raises DataError for another type."""
        if schema is not None and schema.type is not Type.BYTES:
            raise DataError(f"Invalid schema type for ByteArrayConverter: {schema.type}")
        if value is not None and not isinstance(value, bytes):
            raise DataError(
                "ByteArrayConverter is not compatible with objects of type "
                f"class {class_name(value, schema)}"
            )
        return value


class BooleanConverter(BaseConverter):
    """Booleans: a byte of 0 or 1."""

    java_class = "org.apache.kafka.connect.converters.BooleanConverter"

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        """Return the boolean. Raises DataError."""
        if data is None:
            return schemas.OPTIONAL_BOOLEAN, None
        if data not in (b"\x00", b"\x01"):
            raise DataError("Failed to deserialize boolean: ")
        return schemas.OPTIONAL_BOOLEAN, data == b"\x01"

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return the byte. Raises DataError for another type."""
        if schema is not None and schema.type is not Type.BOOLEAN:
            raise DataError(f"Invalid schema type for BooleanConverter: {schema.type}")
        if value is None:
            return None
        if not isinstance(value, bool):
            raise DataError(
                "BooleanConverter is not compatible with objects of type "
                f"class {class_name(value, schema)}"
            )
        return b"\x01" if value else b"\x00"


class _NumberConverter(BaseConverter):
    """Numbers in the order of the network."""

    type_name: ClassVar[str]
    schema: ClassVar[Schema]
    packing: ClassVar[struct.Struct]

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        """Return the number. Raises DataError when the size is wrong."""
        if data is None:
            return self.schema, None
        if len(data) != self.packing.size:
            raise DataError(f"Failed to deserialize {self.type_name}: ")
        return self.schema, self.packing.unpack(data)[0]

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return the data of a number. Raises DataError for any other type."""
        if value is None:
            return None
        is_plain = schema is not None and type_of_value(value) in (Type.INT64, Type.FLOAT64)
        kind = schema.type if schema is not None and is_plain else type_of_value(value)
        if kind is not self.schema.type:
            raise DataError(
                f"Failed to serialize to {self.type_name} (was class {class_name(value, schema)}): "
            )
        return self.packing.pack(value)


class ShortConverter(_NumberConverter):
    """Numbers of 16 bits."""

    java_class = "org.apache.kafka.connect.converters.ShortConverter"
    type_name = "short"
    schema = schemas.OPTIONAL_INT16
    packing = struct.Struct(">h")


class IntegerConverter(_NumberConverter):
    """Numbers of 32 bits."""

    java_class = "org.apache.kafka.connect.converters.IntegerConverter"
    type_name = "integer"
    schema = schemas.OPTIONAL_INT32
    packing = struct.Struct(">i")


class LongConverter(_NumberConverter):
    """Numbers of 64 bits."""

    java_class = "org.apache.kafka.connect.converters.LongConverter"
    type_name = "long"
    schema = schemas.OPTIONAL_INT64
    packing = struct.Struct(">q")


class FloatConverter(_NumberConverter):
    """Numbers in single precision."""

    java_class = "org.apache.kafka.connect.converters.FloatConverter"
    type_name = "float"
    schema = schemas.OPTIONAL_FLOAT32
    packing = struct.Struct(">f")

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        """Return the number. Raises DataError when the size is wrong."""
        schema, number = super().to_connect(topic, data)
        return schema, None if number is None else Float32(number)


class DoubleConverter(_NumberConverter):
    """Numbers in double precision."""

    java_class = "org.apache.kafka.connect.converters.DoubleConverter"
    type_name = "double"
    schema = schemas.OPTIONAL_FLOAT64
    packing = struct.Struct(">d")

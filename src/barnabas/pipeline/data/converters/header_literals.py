"""Headers as literals, Connect's default for headers: the text `5` is the number 5."""

from collections.abc import Mapping
from typing import Any

from barnabas.pipeline.data import connect_schema as schemas
from barnabas.pipeline.data.connect_schema import Schema
from barnabas.pipeline.data.converters.converter_base import SchemaAndValue
from barnabas.pipeline.data.java_text import connect_text
from barnabas.pipeline.data.value_parsing import parse_string
from barnabas.pipeline.definitions.config_def import ConfigDef


class SimpleHeaderConverter:
    """Reads and writes headers as literals."""

    java_class = "org.apache.kafka.connect.storage.SimpleHeaderConverter"

    def config(self) -> ConfigDef:
        """Return the definition of no properties."""
        return ConfigDef()

    def configure_headers(self, props: Mapping[str, Any]) -> None:
        """Take nothing: the converter has no properties."""

    def to_connect_header(self, topic: str, name: str, data: bytes | None) -> SchemaAndValue:
        """Return the value of a literal; bytes that nest too deep stay bytes."""
        if data is None:
            return None, None
        try:
            return parse_string(data.decode("utf-8", "replace"))
        except RecursionError:
            return schemas.BYTES, data

    def from_connect_header(
        self, topic: str, name: str, schema: Schema | None, value: Any
    ) -> bytes | None:
        """Return the literal of a value. Raises DataError."""
        return None if value is None else connect_text(value).encode("utf-8", "replace")

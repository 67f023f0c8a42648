"""The base of all converters: the property `converter.type`, and headers like values."""

from collections.abc import Mapping
from typing import Any, ClassVar, Final, TypeAlias

from barnabas.pipeline.data.connect_schema import Schema
from barnabas.pipeline.definitions.config_def import NO_DEFAULT, ConfigDef, ConfigKey, Importance
from barnabas.pipeline.definitions.config_types import ConfigType, ParsedValue
from barnabas.pipeline.definitions.config_validators import OneOf

SchemaAndValue: TypeAlias = tuple[Schema | None, Any]

CONVERTER_TYPE: Final = ConfigKey(
    "converter.type",
    ConfigType.STRING,
    NO_DEFAULT,
    Importance.LOW,
    "The part of a record that the converter is for: key, value or header.",
    validator=OneOf(("key", "value", "header")),
    display_name="converter.type",
)


class BaseConverter:
    """A converter of keys, values and headers."""

    java_class: ClassVar[str]
    definition: ClassVar[ConfigDef] = ConfigDef([CONVERTER_TYPE])

    def config(self) -> ConfigDef:
        """Return the definition of the converter's properties."""
        return self.definition

    def configure(self, props: Mapping[str, Any], *, is_key: bool) -> None:
        """Take the properties. Raises ConfigValueError."""
        kind = "key" if is_key else "value"
        self.accept(self.definition.parse({**props, CONVERTER_TYPE.name: kind}))

    def configure_headers(self, props: Mapping[str, Any]) -> None:
        """Take the properties of a converter of headers. Raises ConfigValueError."""
        self.accept(self.definition.parse({**props, CONVERTER_TYPE.name: "header"}))

    def accept(self, values: Mapping[str, ParsedValue]) -> None:
        """Take the parsed properties; most converters have none that matter."""

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        """Return the schema and the value of the data. Raises DataError."""
        raise NotImplementedError

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return the data of a value. Raises DataError."""
        raise NotImplementedError

    def to_connect_header(self, topic: str, name: str, data: bytes | None) -> SchemaAndValue:
        """Return the schema and the value of a header's data. Raises DataError."""
        return self.to_connect(topic, data)

    def from_connect_header(
        self, topic: str, name: str, schema: Schema | None, value: Any
    ) -> bytes | None:
        """Return the data of a header's value. Raises DataError."""
        return self.from_connect(topic, schema, value)

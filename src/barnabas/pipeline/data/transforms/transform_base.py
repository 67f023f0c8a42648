"""The base of transformations: configuration, the side of a record, and derived schemas."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, TypeAlias, cast

from barnabas.pipeline.data.connect_errors import DataError
from barnabas.pipeline.data.connect_schema import Field, Schema, Struct, Type, class_name
from barnabas.pipeline.data.java_regex import JavaRegexError, compile_java_regex
from barnabas.pipeline.data.records import ConnectRecord, ConnectValue
from barnabas.pipeline.definitions.config_def import (
    NO_DEFAULT,
    ConfigDef,
    ConfigKey,
    Importance,
    Validator,
)
from barnabas.pipeline.definitions.config_types import ConfigType, ConfigValueError, ParsedValue
from barnabas.pipeline.definitions.config_validators import distinct_items

Changed: TypeAlias = tuple[Schema | None, ConnectValue]

_SCHEMAS_MAX: Final = 64
REPLACE_NULL: Final = "replace.null.with.default"


def property_of(
    name: str,
    kind: ConfigType,
    importance: Importance,
    documentation: str,
    *,
    default: Any = NO_DEFAULT,
    validator: Validator | None = None,
) -> ConfigKey:
    """Return the definition of a transformation's property."""
    return ConfigKey(
        name, kind, default, importance, documentation, validator=validator, display_name=name
    )


REPLACE_NULL_KEY: Final = property_of(
    REPLACE_NULL,
    ConfigType.BOOLEAN,
    Importance.MEDIUM,
    "True when null is replaced by the default of its field.",
    default=True,
)


class ConfiguredTransform:
    """A transformation with a definition of its properties."""

    java_class: ClassVar[str]
    definition: ClassVar[ConfigDef] = ConfigDef()

    def config(self) -> ConfigDef:
        """Return the definition of the transformation's properties."""
        return self.definition

    def configure(self, props: Mapping[str, Any]) -> None:
        """Take the properties, lists without repeated items. Raises ConfigValueError."""
        distinct = {
            key.name: _without_repetitions(props[key.name])
            for key in self.definition.keys.values()
            if key.validator in (distinct_items, non_empty_items) and props.get(key.name)
        }
        self.accept(self.definition.parse({**props, **distinct}))

    def accept(self, values: Mapping[str, ParsedValue]) -> None:
        """Take the parsed properties. Raises ConfigValueError."""


class KeyOrValueTransform(ConfiguredTransform):
    """A transformation of the key or of the value of a record."""

    is_of_key: ClassVar[bool]

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        """Return the record with its key or value changed. Raises ConnectError."""
        if self.is_of_key:
            schema, value = record.key_schema, record.key
            changed = self.changed(record, schema, value)
            return record if changed is None else record.with_key(*changed)
        changed = self.changed(record, record.value_schema, record.value)
        return record if changed is None else record.with_value(*changed)

    @abstractmethod
    def changed(
        self, record: ConnectRecord, schema: Schema | None, value: ConnectValue
    ) -> Changed | None:
        """Return the new schema and value, None when the record stays as it is."""


class FieldsTransform(KeyOrValueTransform):
    """A transformation of the fields of a struct, or of a map without a schema; null stays.

    `purpose` is what errors call it.
    """

    purpose: ClassVar[str]

    def changed(
        self, record: ConnectRecord, schema: Schema | None, value: ConnectValue
    ) -> Changed | None:
        """Return the new schema and value; None for null. Raises ConnectError."""
        if value is None:
            return None
        if schema is None:
            return None, self.changed_map(record, require_map(value, self.purpose))
        return self.changed_struct(record, schema, require_struct(value, self.purpose, schema))

    @abstractmethod
    def changed_map(self, record: ConnectRecord, value: dict[str, Any]) -> ConnectValue:
        """Return the new value of a map, which stays as it is."""

    @abstractmethod
    def changed_struct(self, record: ConnectRecord, schema: Schema, struct: Struct) -> Changed:
        """Return the new schema and value of a struct."""


class DerivedSchemas:
    """A cache of what a transformation derives from each schema."""

    def __init__(self, derive: Callable[[Schema], Any]) -> None:
        self._derive = derive
        self._known: dict[Schema, Any] = {}

    def of(self, schema: Schema) -> Any:
        """Return the value derived from a schema."""
        found = self._known.get(schema)
        if found is None:
            found = self._derive(schema)
            if len(self._known) >= _SCHEMAS_MAX:
                self._known.clear()
            self._known[schema] = found
        return found


def _without_repetitions(text: str) -> str:
    return ",".join(dict.fromkeys(item.strip() for item in text.split(",")))


def require_map(value: ConnectValue, purpose: str) -> dict[str, Any]:
    """Return a value that must be a map. Raises DataError."""
    if isinstance(value, dict):
        return cast("dict[str, Any]", value)
    raise DataError(
        f"Only Map objects supported in absence of schema for [{purpose}], "
        f"found: {class_name(value)}"
    )


def require_struct(value: ConnectValue, purpose: str, schema: Schema | None = None) -> Struct:
    """Return a value that must be a struct. Raises DataError."""
    if isinstance(value, Struct):
        return value
    raise DataError(
        f"Only Struct objects supported for [{purpose}], found: {class_name(value, schema)}"
    )


def field_value(struct: Struct, field: Field, *, replaces_null: bool) -> ConnectValue:
    """Return a field's value, its default in place of null if `replaces_null`."""
    value = struct.values[field.index]
    return field.schema.default if value is None and replaces_null else value


def fields_of(schema: Schema) -> tuple[Field, ...]:
    """Return the fields of a struct's schema. Raises DataError for another schema."""
    if schema.type is not Type.STRUCT:
        raise DataError("Cannot list fields on non-struct type")
    return schema.fields


def non_empty_items(name: str, value: ParsedValue) -> None:
    """Raise ConfigValueError for a list that is empty or repeats an item."""
    if value == []:
        raise ConfigValueError(
            f"Configuration '{name}' must not be empty. Valid values include: any non-empty value"
        )
    distinct_items(name, value)


def java_regex(name: str, value: ParsedValue) -> None:
    """Raise ConfigValueError for a text that is not a regular expression of Java."""
    try:
        compile_java_regex(str(value))
    except JavaRegexError as error:
        raise ConfigValueError.of(name, value, f"Invalid regex: {error}") from None


def java_split(text: str, separator: str) -> list[str]:
    """Return the parts of a text without empty ones at its end, as Java splits."""
    parts = text.split(separator)
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return parts


def text_or_none(values: Mapping[str, ParsedValue], name: str) -> str | None:
    """Return a property of type STRING."""
    value = values[name]
    return None if value is None else str(value)


def items(values: Mapping[str, ParsedValue], name: str) -> list[str]:
    """Return a property of type LIST."""
    value = values[name]
    return value if isinstance(value, list) else []

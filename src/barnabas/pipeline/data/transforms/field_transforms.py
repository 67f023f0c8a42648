"""ExtractField, HoistField, ValueToKey: one field out of a value, around a value, into the key."""

from collections.abc import Mapping
from typing import Any, Final

from barnabas.pipeline.data.connect_errors import DataError, UnknownFieldError
from barnabas.pipeline.data.connect_schema import Schema, Struct, check_value, struct_schema
from barnabas.pipeline.data.records import ConnectRecord, ConnectValue
from barnabas.pipeline.data.transforms.field_paths import FieldPath
from barnabas.pipeline.data.transforms.transform_base import (
    REPLACE_NULL,
    REPLACE_NULL_KEY,
    Changed,
    ConfiguredTransform,
    DerivedSchemas,
    KeyOrValueTransform,
    field_value,
    items,
    non_empty_items,
    property_of,
    require_map,
    require_struct,
)
from barnabas.pipeline.definitions.config_def import ConfigDef, Importance
from barnabas.pipeline.definitions.config_types import ConfigType, ParsedValue
from barnabas.pipeline.definitions.config_validators import OneOf

_EXTRACTION: Final = "field extraction"
_COPYING: Final = "copying fields from value to key"


class ExtractField(KeyOrValueTransform):
    """Replaces a struct or a map by one of its fields."""

    definition = ConfigDef(
        [
            property_of("field", ConfigType.STRING, Importance.MEDIUM, "The field to extract."),
            REPLACE_NULL_KEY,
            property_of(
                "field.syntax.version",
                ConfigType.STRING,
                Importance.HIGH,
                "V1: the field is a name. V2: names joined by dots name a nested field, and "
                "backticks enclose a name with dots.",
                default="V1",
                validator=OneOf(("V1", "V2"), ignores_case=True),
            ),
        ]
    )

    def accept(self, values: Mapping[str, ParsedValue]) -> None:
        """Take the parsed properties. Raises ConfigValueError."""
        self._name = str(values["field"])
        is_nested = str(values["field.syntax.version"]).upper() == "V2"
        self._path = FieldPath(self._name, is_nested=is_nested)
        self._replaces_null = values[REPLACE_NULL] is True

    def changed(
        self, record: ConnectRecord, schema: Schema | None, value: ConnectValue
    ) -> Changed | None:
        """Return the field; null stays null."""
        if schema is None:
            if value is None:
                return None, None
            return None, self._path.of_map(require_map(value, _EXTRACTION))
        struct = None if value is None else require_struct(value, _EXTRACTION, schema)
        field = self._path.field_of(schema)
        if field is None:
            raise UnknownFieldError(f"Unknown field: {self._name}")
        if struct is None:
            return field.schema, None
        return field.schema, self._path.of_struct(struct, replaces_null=self._replaces_null)


class ExtractFieldKey(ExtractField):
    """Extracts a field of the key."""

    java_class = "org.apache.kafka.connect.transforms.ExtractField$Key"
    is_of_key = True


class ExtractFieldValue(ExtractField):
    """Extracts a field of the value."""

    java_class = "org.apache.kafka.connect.transforms.ExtractField$Value"
    is_of_key = False


class HoistField(KeyOrValueTransform):
    """Wraps a value in a struct or a map with one field."""

    definition = ConfigDef(
        [
            property_of(
                "field",
                ConfigType.STRING,
                Importance.MEDIUM,
                "The name of the only field of the resulting struct or map.",
            )
        ]
    )

    def accept(self, values: Mapping[str, ParsedValue]) -> None:
        """Take the parsed properties."""
        self._name = str(values["field"])
        self._schemas = DerivedSchemas(lambda schema: struct_schema([(self._name, schema)]))

    def changed(
        self, record: ConnectRecord, schema: Schema | None, value: ConnectValue
    ) -> Changed | None:
        """Return the wrapped value; null is wrapped too, if its schema is optional."""
        if schema is None:
            return None, {self._name: value}
        updated: Schema = self._schemas.of(schema)
        if value is None:
            check_value(schema, None, f'field: "{self._name}"')
        return updated, Struct(updated, [value])


class HoistFieldKey(HoistField):
    """Wraps the key."""

    java_class = "org.apache.kafka.connect.transforms.HoistField$Key"
    is_of_key = True


class HoistFieldValue(HoistField):
    """Wraps the value."""

    java_class = "org.apache.kafka.connect.transforms.HoistField$Value"
    is_of_key = False


class ValueToKey(ConfiguredTransform):
    """Makes the key of fields of the value."""

    java_class = "org.apache.kafka.connect.transforms.ValueToKey"
    definition = ConfigDef(
        [
            property_of(
                "fields",
                ConfigType.LIST,
                Importance.HIGH,
                "The fields of the value that make the key.",
                validator=non_empty_items,
            ),
            REPLACE_NULL_KEY,
        ]
    )

    def accept(self, values: Mapping[str, ParsedValue]) -> None:
        """Take the parsed properties."""
        self._fields = items(values, "fields")
        self._replaces_null = values[REPLACE_NULL] is True
        self._schemas = DerivedSchemas(self._derived)

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        """Return the record with the new key. Raises DataError."""
        if record.value_schema is None:
            value = require_map(record.value, _COPYING)
            return record.with_key(None, {name: value.get(name) for name in self._fields})
        struct = require_struct(record.value, _COPYING, record.value_schema)
        schema, fields = self._schemas.of(struct.schema)
        values: list[Any] = [
            field_value(struct, field, replaces_null=self._replaces_null) for field in fields
        ]
        return record.with_key(schema, Struct(schema, values))

    def _derived(self, schema: Schema) -> Any:
        fields = [schema.field(name) for name in self._fields]
        for name, field in zip(self._fields, fields, strict=True):
            if field is None:
                raise DataError(f"Field does not exist: {name}")
        found = [field for field in fields if field is not None]
        return struct_schema([(field.name, field.schema) for field in found]), found

"""SetSchemaMetadata: the name and the version of a schema."""

from collections.abc import Mapping
from typing import Any

import attrs

from barnabas.pipeline.data.connect_errors import DataError
from barnabas.pipeline.data.connect_schema import Schema, Struct
from barnabas.pipeline.data.records import ConnectRecord, ConnectValue
from barnabas.pipeline.data.transforms.transform_base import (
    REPLACE_NULL,
    REPLACE_NULL_KEY,
    Changed,
    DerivedSchemas,
    KeyOrValueTransform,
    field_value,
    fields_of,
    property_of,
    text_or_none,
)
from barnabas.pipeline.definitions.config_def import ConfigDef, Importance
from barnabas.pipeline.definitions.config_types import ConfigType, ConfigValueError, ParsedValue


class SetSchemaMetadata(KeyOrValueTransform):
    """Sets the schema's name, version or both."""

    definition = ConfigDef(
        [
            property_of(
                "schema.name",
                ConfigType.STRING,
                Importance.HIGH,
                "The name of the schema.",
                default=None,
            ),
            property_of(
                "schema.version",
                ConfigType.INT,
                Importance.HIGH,
                "The version of the schema.",
                default=None,
            ),
            REPLACE_NULL_KEY,
        ]
    )

    def accept(self, values: Mapping[str, ParsedValue]) -> None:
        """Take the parsed properties. Raises ConfigValueError."""
        self._changes: dict[str, Any] = {}
        if (name := text_or_none(values, "schema.name")) is not None:
            self._changes["name"] = name
        if (version := values["schema.version"]) is not None:
            self._changes["version"] = version
        self._replaces_null = values[REPLACE_NULL] is True
        if not self._changes:
            raise ConfigValueError("Neither schema name nor version configured")
        self._schemas = DerivedSchemas(
            lambda schema: attrs.evolve(schema, fields=fields_of(schema), **self._changes)
        )

    def changed(
        self, record: ConnectRecord, schema: Schema | None, value: ConnectValue
    ) -> Changed | None:
        """Return the value with its schema changed. Raises DataError unless it is a struct's."""
        if schema is None:
            if value is None:
                return None
            raise DataError("Schema required for [updating schema metadata]")
        updated: Schema = self._schemas.of(schema)
        if not isinstance(value, Struct):
            return updated, value
        values = [
            field_value(value, field, replaces_null=self._replaces_null)
            for field in value.schema.fields
        ]
        return updated, Struct(updated, values)


class SetSchemaMetadataKey(SetSchemaMetadata):
    """Describes the key's schema."""

    java_class = "org.apache.kafka.connect.transforms.SetSchemaMetadata$Key"
    is_of_key = True


class SetSchemaMetadataValue(SetSchemaMetadata):
    """Describes the value's schema."""

    java_class = "org.apache.kafka.connect.transforms.SetSchemaMetadata$Value"
    is_of_key = False

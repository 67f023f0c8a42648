"""Flatten: nested structs or maps become one level, with names joined by a delimiter."""

from collections.abc import Mapping
from typing import Any

import attrs

from barnabas.pipeline.data.connect_errors import DataError, SchemaBuilderError
from barnabas.pipeline.data.connect_schema import (
    Schema,
    Struct,
    Type,
    class_name,
    struct_schema,
    type_of_value,
    with_default,
)
from barnabas.pipeline.data.records import ConnectRecord, ConnectValue
from barnabas.pipeline.data.transforms.transform_base import (
    Changed,
    DerivedSchemas,
    FieldsTransform,
    property_of,
    require_map,
)
from barnabas.pipeline.definitions.config_def import ConfigDef, Importance
from barnabas.pipeline.definitions.config_types import ConfigType, ParsedValue


class Flatten(FieldsTransform):
    """Flattens structs with a schema and maps without; arrays stay as they are."""

    purpose = "flattening"
    definition = ConfigDef(
        [
            property_of(
                "delimiter",
                ConfigType.STRING,
                Importance.MEDIUM,
                "The text between the names of an outer and an inner field.",
                default=".",
            )
        ]
    )

    def accept(self, values: Mapping[str, ParsedValue]) -> None:
        """Take the parsed properties."""
        self._delimiter = str(values["delimiter"])
        self._schemas = DerivedSchemas(self._derived)

    def changed_map(self, record: ConnectRecord, value: dict[str, Any]) -> ConnectValue:
        """Return the flat map."""
        flat: dict[str, Any] = {}
        self._flatten_map(value, "", flat)
        return flat

    def changed_struct(self, record: ConnectRecord, schema: Schema, struct: Struct) -> Changed:
        """Return the flat struct."""
        updated: Schema = self._schemas.of(schema)
        values: list[Any] = []
        _collect(struct, struct.schema, values)
        return updated, Struct(updated, values)

    def _name(self, prefix: str, name: str) -> str:
        return f"{prefix}{self._delimiter}{name}" if prefix else name

    def _flatten_map(self, value: dict[str, Any], prefix: str, flat: dict[str, Any]) -> None:
        for key, each in value.items():
            name = self._name(prefix, key)
            if isinstance(each, dict):
                self._flatten_map(require_map(each, self.purpose), name, flat)
                continue
            kind = None if each is None else type_of_value(each)
            if each is not None and kind is None:
                raise DataError(
                    f"Flatten transformation was passed a value of type class {class_name(each)} "
                    "which is not supported by Connect's data API"
                )
            if kind is Type.STRUCT:
                raise DataError(
                    f"Flatten transformation does not support class {class_name(each)} for record "
                    f"without schemas (for field {name})."
                )
            flat[name] = each

    def _derived(self, schema: Schema) -> Schema:
        fields: dict[str, Schema] = {}
        is_optional, default = schema.optional, schema.default
        self._flatten_schema(schema, "", fields, is_optional=is_optional, default=default)
        return struct_schema(list(fields.items()), like=schema)

    def _flatten_schema(
        self,
        schema: Schema,
        prefix: str,
        fields: dict[str, Schema],
        *,
        is_optional: bool,
        default: Struct | None,
    ) -> None:
        """Add the flat fields of a schema; `default` is the default of the whole struct."""
        for field in schema.fields:
            name = self._name(prefix, field.name)
            optional = is_optional or field.schema.optional
            found = field.schema.default
            if found is None and default is not None:
                found = default.value_of(field)
            if field.schema.type is Type.STRUCT:
                self._flatten_schema(
                    field.schema, name, fields, is_optional=optional, default=found
                )
            elif field.schema.type is Type.MAP:
                raise DataError(
                    "Flatten transformation does not support MAP for record with schemas "
                    f"(for field {name})."
                )
            elif name in fields:
                raise SchemaBuilderError(
                    f"Cannot create field because of field name duplication {name}"
                )
            else:
                fields[name] = _field_schema(field.schema, found, is_optional=optional)


def _field_schema(schema: Schema, default: ConnectValue, *, is_optional: bool) -> Schema:
    bare = attrs.evolve(
        schema, optional=is_optional, default=None, parameters=schema.parameters or None
    )
    return bare if default is None else with_default(bare, default)


def _collect(struct: Struct | None, schema: Schema, values: list[Any]) -> None:
    """Add the values of the flat fields; those of a null struct are null."""
    for field in schema.fields:
        if field.schema.type is Type.STRUCT:
            inner = None if struct is None else struct.values[field.index]
            _collect(inner, field.schema, values)
        else:
            values.append(None if struct is None else struct.value_of(field))


class FlattenKey(Flatten):
    """Flattens the key."""

    java_class = "org.apache.kafka.connect.transforms.Flatten$Key"
    is_of_key = True


class FlattenValue(Flatten):
    """Flattens the value."""

    java_class = "org.apache.kafka.connect.transforms.Flatten$Value"
    is_of_key = False

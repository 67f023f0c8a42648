"""ReplaceField: fields filtered and renamed."""

from collections.abc import Mapping
from typing import Any

from barnabas.pipeline.data.connect_errors import DataError
from barnabas.pipeline.data.connect_schema import (
    Field,
    Schema,
    Struct,
    check_value,
    struct_schema,
)
from barnabas.pipeline.data.java_values import hash_order
from barnabas.pipeline.data.records import ConnectRecord, ConnectValue
from barnabas.pipeline.data.transforms.transform_base import (
    REPLACE_NULL,
    REPLACE_NULL_KEY,
    Changed,
    DerivedSchemas,
    FieldsTransform,
    field_value,
    items,
    java_split,
    property_of,
)
from barnabas.pipeline.definitions.config_def import ConfigDef, Importance
from barnabas.pipeline.definitions.config_types import ConfigType, ConfigValueError, ParsedValue
from barnabas.pipeline.definitions.config_validators import distinct_items


def _parse_renames(mappings: list[str]) -> dict[str, str]:
    renames: dict[str, str] = {}
    for mapping in mappings:
        parts = java_split(mapping, ":")
        if len(parts) != 2:
            raise ConfigValueError.of("renames", mappings, f"Invalid rename mapping: {mapping}")
        renames[parts[0]] = parts[1]
    return renames


def _renames(name: str, value: ParsedValue) -> None:
    if isinstance(value, list):
        _parse_renames(value)


class ReplaceField(FieldsTransform):
    """Keeps some fields, or all except some, and renames fields."""

    purpose = "field replacement"
    definition = ConfigDef(
        [
            property_of(
                "exclude",
                ConfigType.LIST,
                Importance.MEDIUM,
                "The fields to remove; a field of both lists is removed.",
                default=[],
                validator=distinct_items,
            ),
            property_of(
                "include",
                ConfigType.LIST,
                Importance.MEDIUM,
                "The fields to keep; all when empty.",
                default=[],
                validator=distinct_items,
            ),
            property_of(
                "renames",
                ConfigType.LIST,
                Importance.MEDIUM,
                "New names of fields, as old1:new1,old2:new2.",
                default=[],
                validator=_renames,
            ),
            REPLACE_NULL_KEY,
        ]
    )

    def accept(self, values: Mapping[str, ParsedValue]) -> None:
        """Take the parsed properties."""
        self._exclude = frozenset(items(values, "exclude"))
        self._include = frozenset(items(values, "include"))
        self._renames = _parse_renames(items(values, "renames"))
        # Of two renames to one name, the last in the order of Java's HashMap counts.
        self._old_names = {self._renames[old]: old for old in hash_order(self._renames)}
        self._replaces_null = values[REPLACE_NULL] is True
        self._schemas = DerivedSchemas(self._derived)

    def changed_map(self, record: ConnectRecord, value: dict[str, Any]) -> ConnectValue:
        """Return the map with its entries filtered and renamed."""
        return {
            self._renames.get(name, name): each
            for name, each in value.items()
            if self._is_kept(name)
        }

    def changed_struct(self, record: ConnectRecord, schema: Schema, struct: Struct) -> Changed:
        """Return the struct with its fields filtered and renamed."""
        updated, sources = self._schemas.of(struct.schema)
        values: list[Any] = []
        for field, source in zip(updated.fields, sources, strict=True):
            value = field_value(struct, source, replaces_null=self._replaces_null)
            if field.schema is not source.schema:
                check_value(field.schema, value, f'field: "{field.name}"')
            values.append(value)
        return updated, Struct(updated, values)

    def _is_kept(self, name: str) -> bool:
        return name not in self._exclude and (not self._include or name in self._include)

    def _derived(self, schema: Schema) -> tuple[Schema, list[Field]]:
        kept = [field for field in schema.fields if self._is_kept(field.name)]
        updated = struct_schema(
            [(self._renames.get(field.name, field.name), field.schema) for field in kept],
            like=schema,
        )
        return updated, [self._source(schema, field) for field in updated.fields]

    def _source(self, schema: Schema, field: Field) -> Field:
        """Return the field whose value a new field gets. Raises DataError.

        As in Java, the target of a rename means the old name of that rename, also when the record
        had a field of that name before.
        """
        name = self._old_names.get(field.name, field.name)
        source = schema.field(name)
        if source is None:
            raise DataError(f"{name} is not a valid field name")
        return source


class ReplaceFieldKey(ReplaceField):
    """Filters and renames fields of the key."""

    java_class = "org.apache.kafka.connect.transforms.ReplaceField$Key"
    is_of_key = True


class ReplaceFieldValue(ReplaceField):
    """Filters and renames fields of the value."""

    java_class = "org.apache.kafka.connect.transforms.ReplaceField$Value"
    is_of_key = False

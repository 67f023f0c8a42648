"""DropHeaders, HeaderFrom, InsertHeader: remove headers, and make them of fields or literals."""

from collections.abc import Mapping
from typing import Any

from barnabas.pipeline.data.connect_errors import DataError
from barnabas.pipeline.data.connect_schema import Field, Schema, Struct, struct_schema
from barnabas.pipeline.data.records import ConnectRecord, ConnectValue, Header
from barnabas.pipeline.data.transforms.transform_base import (
    REPLACE_NULL,
    REPLACE_NULL_KEY,
    Changed,
    ConfiguredTransform,
    DerivedSchemas,
    KeyOrValueTransform,
    field_value,
    fields_of,
    items,
    non_empty_items,
    property_of,
    require_map,
    require_struct,
)
from barnabas.pipeline.data.value_parsing import parse_string
from barnabas.pipeline.definitions.config_def import ConfigDef, Importance
from barnabas.pipeline.definitions.config_types import ConfigType, ConfigValueError, ParsedValue
from barnabas.pipeline.definitions.config_validators import OneOf, non_null


class DropHeaders(ConfiguredTransform):
    """Removes all headers of some names."""

    java_class = "org.apache.kafka.connect.transforms.DropHeaders"
    definition = ConfigDef(
        [
            property_of(
                "headers",
                ConfigType.LIST,
                Importance.HIGH,
                "The names of the headers to remove.",
                validator=non_empty_items,
            )
        ]
    )

    def accept(self, values: Mapping[str, ParsedValue]) -> None:
        """Take the parsed properties."""
        self._names = frozenset(items(values, "headers"))

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        """Return the record without the headers."""
        kept = tuple(header for header in record.headers if header.name not in self._names)
        return record if len(kept) == len(record.headers) else record.with_headers(kept)


class InsertHeader(ConfiguredTransform):
    """Adds a header with a fixed value."""

    java_class = "org.apache.kafka.connect.transforms.InsertHeader"
    definition = ConfigDef(
        [
            property_of(
                "header",
                ConfigType.STRING,
                Importance.HIGH,
                "The name of the header.",
                validator=non_null,
            ),
            property_of(
                "value.literal",
                ConfigType.STRING,
                Importance.HIGH,
                "The value of the header, as a literal: 5 is a number.",
                validator=non_null,
            ),
        ]
    )

    def accept(self, values: Mapping[str, ParsedValue]) -> None:
        """Take the parsed properties."""
        schema, value = parse_string(str(values["value.literal"]))
        self._header = Header(str(values["header"]), schema, value)

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        """Return the record with the header after its other headers."""
        return record.with_headers((*record.headers, self._header))


def _non_empty(name: str, value: ParsedValue) -> None:
    if not value:
        raise ConfigValueError.of(name, value, "Empty list")


class HeaderFrom(KeyOrValueTransform):
    """Copies or moves fields to headers."""

    definition = ConfigDef(
        [
            property_of(
                "fields",
                ConfigType.LIST,
                Importance.HIGH,
                "The fields to copy or to move.",
                validator=_non_empty,
            ),
            property_of(
                "headers",
                ConfigType.LIST,
                Importance.HIGH,
                "The names of the headers, in the order of the fields.",
                validator=_non_empty,
            ),
            property_of(
                "operation",
                ConfigType.STRING,
                Importance.HIGH,
                "move removes the fields from the record, copy keeps them.",
                validator=OneOf(("move", "copy")),
            ),
            REPLACE_NULL_KEY,
        ]
    )

    def accept(self, values: Mapping[str, ParsedValue]) -> None:
        """Take the parsed properties. Raises ConfigValueError."""
        self._fields, self._names = items(values, "fields"), items(values, "headers")
        if len(self._fields) != len(self._names):
            raise ConfigValueError(
                "'fields' config must have the same number of elements as 'headers' config."
            )
        self._is_move = values["operation"] == "move"
        self._purpose = f"header {values['operation']}"
        self._replaces_null = values[REPLACE_NULL] is True
        self._schemas = DerivedSchemas(self._derived)

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        """Return the record with the headers after its other headers. Raises DataError."""
        if self.is_of_key:
            schema, value = record.key_schema, record.key
        else:
            schema, value = record.value_schema, record.value
        added = self._headers(schema, value)
        changed = super().apply(record)
        return changed and changed.with_headers(record.headers + added)

    def changed(
        self, record: ConnectRecord, schema: Schema | None, value: ConnectValue
    ) -> Changed | None:
        """Return the value without the fields that move."""
        if not self._is_move:
            return None
        if schema is None:
            left = dict(require_map(value, self._purpose))
            for name in self._fields:
                left.pop(name, None)
            return None, left
        struct = require_struct(value, self._purpose, schema)
        updated, kept = self._schemas.of(schema)
        values: list[Any] = [
            field_value(struct, field, replaces_null=self._replaces_null) for field in kept
        ]
        return updated, Struct(updated, values)

    def _derived(self, schema: Schema) -> tuple[Schema, list[Field]]:
        kept = [field for field in fields_of(schema) if field.name not in self._fields]
        return struct_schema([(field.name, field.schema) for field in kept], like=schema), kept

    def _headers(self, schema: Schema | None, value: ConnectValue) -> tuple[Header, ...]:
        names = zip(self._names, self._fields, strict=True)
        if schema is None:
            found = require_map(value, self._purpose)
            return tuple(Header(name, None, found.get(field)) for name, field in names)
        struct = require_struct(value, self._purpose, schema)
        return tuple(self._header(name, struct, field) for name, field in names)

    def _header(self, name: str, struct: Struct, field_name: str) -> Header:
        field = struct.schema.field(field_name)
        if field is None:
            raise DataError(f"Field does not exist: {field_name}")
        value = field_value(struct, field, replaces_null=self._replaces_null)
        if value is None and not field.schema.optional:
            raise DataError(f"A null value requires an optional schema but was {field.schema}")
        return Header(name, field.schema, value)


class HeaderFromKey(HeaderFrom):
    """Makes headers of fields of the key."""

    java_class = "org.apache.kafka.connect.transforms.HeaderFrom$Key"
    is_of_key = True


class HeaderFromValue(HeaderFrom):
    """Makes headers of fields of the value."""

    java_class = "org.apache.kafka.connect.transforms.HeaderFrom$Value"
    is_of_key = False

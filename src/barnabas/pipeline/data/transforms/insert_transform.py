"""InsertField: where a record is from, when it is from, or a fixed text, as fields."""

from collections.abc import Mapping
from typing import Any, Final

import attrs

from barnabas.pipeline.data import connect_schema as schemas
from barnabas.pipeline.data.connect_errors import DataError
from barnabas.pipeline.data.connect_schema import Schema, Struct, struct_schema
from barnabas.pipeline.data.java_values import EpochMillis, Int32
from barnabas.pipeline.data.records import ConnectRecord, ConnectValue, SinkRecord
from barnabas.pipeline.data.transforms.transform_base import (
    REPLACE_NULL,
    REPLACE_NULL_KEY,
    Changed,
    DerivedSchemas,
    FieldsTransform,
    field_value,
    property_of,
    text_or_none,
)
from barnabas.pipeline.definitions.config_def import ConfigDef, Importance
from barnabas.pipeline.definitions.config_types import ConfigType, ConfigValueError, ParsedValue

_SCHEMAS: Final = {
    "topic.field": (schemas.STRING, schemas.OPTIONAL_STRING),
    "partition.field": (schemas.INT32, schemas.OPTIONAL_INT32),
    "offset.field": (schemas.INT64, schemas.OPTIONAL_INT64),
    "timestamp.field": (schemas.TIMESTAMP, schemas.OPTIONAL_TIMESTAMP),
    "static.field": (schemas.STRING, schemas.OPTIONAL_STRING),
}
_DOCUMENTATION: Final = {
    "topic.field": "The field for the topic.",
    "partition.field": "The field for the partition.",
    "offset.field": "The field for the offset; for sinks only.",
    "timestamp.field": "The field for the timestamp.",
    "static.field": "The field for a fixed text.",
}
_SUFFIXES: Final = " A name that ends in ! is a required field, one that ends in ? an optional one."


@attrs.frozen
class _Insertion:
    source: str
    name: str
    schema: Schema


def _insertion(source: str, text: str) -> _Insertion:
    required, optional = _SCHEMAS[source]
    if text.endswith("!"):
        return _Insertion(source, text[:-1], required)
    return _Insertion(source, text.removesuffix("?"), optional)


class InsertField(FieldsTransform):
    """Adds fields."""

    purpose = "field insertion"
    definition = ConfigDef(
        [
            *(
                property_of(
                    name, ConfigType.STRING, Importance.MEDIUM, text + _SUFFIXES, default=None
                )
                for name, text in _DOCUMENTATION.items()
            ),
            property_of(
                "static.value",
                ConfigType.STRING,
                Importance.MEDIUM,
                "The fixed text.",
                default=None,
            ),
            REPLACE_NULL_KEY,
        ]
    )

    def accept(self, values: Mapping[str, ParsedValue]) -> None:
        """Take the parsed properties. Raises ConfigValueError."""
        names = {source: text_or_none(values, source) for source in _SCHEMAS}
        self._insertions = [
            _insertion(source, name) for source, name in names.items() if name is not None
        ]
        self._static_value = text_or_none(values, "static.value")
        self._replaces_null = values[REPLACE_NULL] is True
        if not self._insertions:
            raise ConfigValueError("No field insertion configured")
        if names["static.field"] is not None and self._static_value is None:
            reason = f"No value specified for static field: {names['static.field']}"
            raise ConfigValueError.of("static.value", None, reason)
        self._schemas = DerivedSchemas(self._derived)

    def changed_map(self, record: ConnectRecord, value: dict[str, Any]) -> ConnectValue:
        """Return the map with the fields that are known."""
        updated = dict(value)
        for insertion in self._insertions:
            inserted = self._inserted(insertion.source, record, has_schema=False)
            if inserted is not None:
                updated[insertion.name] = inserted
        return updated

    def changed_struct(self, record: ConnectRecord, schema: Schema, struct: Struct) -> Changed:
        """Return the struct with the fields."""
        values: list[Any] = [
            field_value(struct, field, replaces_null=self._replaces_null)
            for field in struct.schema.fields
        ]
        updated_schema: Schema = self._schemas.of(struct.schema)
        values += [
            self._inserted(each.source, record, has_schema=True) for each in self._insertions
        ]
        return updated_schema, Struct(updated_schema, values)

    def _inserted(self, source: str, record: ConnectRecord, *, has_schema: bool) -> ConnectValue:
        match source:
            case "topic.field":
                return record.topic
            case "partition.field":
                partition = record.partition
                return partition if has_schema or partition is None else Int32(partition)
            case "offset.field":
                if isinstance(record, SinkRecord):
                    return record.offset
                raise DataError(
                    f"Only SinkRecord supported for [{self.purpose}], "
                    "found: org.apache.kafka.connect.source.SourceRecord"
                )
            case "timestamp.field":
                moment = record.timestamp_ms
                return moment if moment is None or not has_schema else EpochMillis(moment)
            case _:
                return self._static_value

    def _derived(self, schema: Schema) -> Schema:
        fields = [(field.name, field.schema) for field in schema.fields]
        fields += [(each.name, each.schema) for each in self._insertions]
        return struct_schema(fields, like=schema)


class InsertFieldKey(InsertField):
    """Adds fields to the key."""

    java_class = "org.apache.kafka.connect.transforms.InsertField$Key"
    is_of_key = True


class InsertFieldValue(InsertField):
    """Adds fields to the value."""

    java_class = "org.apache.kafka.connect.transforms.InsertField$Value"
    is_of_key = False

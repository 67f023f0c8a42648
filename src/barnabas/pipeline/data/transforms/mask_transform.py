"""MaskField: fields replaced by an empty value of their type, or by a configured one."""

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final

from barnabas.pipeline.data import connect_schema as schemas
from barnabas.pipeline.data.connect_errors import DataError, NumberTextError
from barnabas.pipeline.data.connect_schema import (
    Schema,
    Struct,
    Type,
    class_name,
    type_of_value,
)
from barnabas.pipeline.data.java_values import EpochMillis, Int8, Int16, Int32, hash_order
from barnabas.pipeline.data.records import ConnectRecord, ConnectValue
from barnabas.pipeline.data.transforms.transform_base import (
    REPLACE_NULL,
    REPLACE_NULL_KEY,
    Changed,
    KeyOrValueTransform,
    field_value,
    items,
    non_empty_items,
    property_of,
    require_map,
    require_struct,
    text_or_none,
)
from barnabas.pipeline.data.value_conversion import convert, decimal_of
from barnabas.pipeline.definitions.config_def import ConfigDef, Importance
from barnabas.pipeline.definitions.config_types import ConfigType, ParsedValue
from barnabas.pipeline.definitions.config_validators import non_empty

_PURPOSE: Final = "mask fields"
_NARROW: Final[Mapping[Type, Callable[[Any], Any]]] = {
    Type.INT8: Int8,
    Type.INT16: Int16,
    Type.INT32: Int32,
}
_TARGETS: Final[Mapping[Type, Schema]] = {
    Type.INT8: schemas.INT8,
    Type.INT16: schemas.INT16,
    Type.INT32: schemas.INT32,
    Type.INT64: schemas.INT64,
    Type.FLOAT32: schemas.FLOAT32,
    Type.FLOAT64: schemas.FLOAT64,
    Type.STRING: schemas.STRING,
}


def _empty(value: ConnectValue, schema: Schema | None) -> ConnectValue:
    match value:
        case bool():
            return False
        case int():
            return type(value)(0)
        case float():
            return type(value)(0.0)
        case str():
            return ""
        case Decimal():
            return Decimal(0)
        case EpochMillis():
            return EpochMillis(0)
        case list():
            return []
        case dict():
            return {}
        case _:
            raise DataError(f"Cannot mask value of type: class {class_name(value, schema)}")


class MaskField(KeyOrValueTransform):
    """Masks fields; null stays null."""

    definition = ConfigDef(
        [
            property_of(
                "fields",
                ConfigType.LIST,
                Importance.HIGH,
                "The fields to mask.",
                validator=non_empty_items,
            ),
            property_of(
                "replacement",
                ConfigType.STRING,
                Importance.LOW,
                "The value of all masked fields, which must be numbers or texts.",
                default=None,
                validator=non_empty,
            ),
            REPLACE_NULL_KEY,
        ]
    )

    def accept(self, values: Mapping[str, ParsedValue]) -> None:
        """Take the parsed properties."""
        self._fields = hash_order(items(values, "fields"))
        self._replacement = text_or_none(values, "replacement")
        self._replaces_null = values[REPLACE_NULL] is True

    def changed(
        self, record: ConnectRecord, schema: Schema | None, value: ConnectValue
    ) -> Changed | None:
        """Return the value with masked fields."""
        if schema is None:
            updated = dict(require_map(value, _PURPOSE))
            for name in self._fields:
                updated[name] = self._masked(updated.get(name), None)
            return None, updated
        struct = require_struct(value, _PURPOSE, schema)
        values: list[Any] = []
        for field in struct.schema.fields:
            found = field_value(struct, field, replaces_null=self._replaces_null)
            values.append(
                self._masked(found, field.schema) if field.name in self._fields else found
            )
        return schema, Struct(struct.schema, values)

    def _masked(self, value: ConnectValue, schema: Schema | None) -> ConnectValue:
        if value is None:
            return None
        if self._replacement is None:
            return _empty(value, schema)
        kind = None if isinstance(value, EpochMillis | Decimal) else type_of_value(value)
        if kind is Type.INT64 and schema is not None:
            kind = schema.type
        try:
            if isinstance(value, Decimal):
                return decimal_of(self._replacement)
            target = None if kind is None else _TARGETS.get(kind)
            if target is None or kind is None:
                raise DataError(
                    f"Cannot mask value of type class {class_name(value, schema)} "
                    "with custom replacement."
                )
            if kind is Type.STRING:
                return self._replacement
            found = convert(target, self._replacement)
            narrow = None if schema is not None else _NARROW.get(kind)
            return found if narrow is None else narrow(found)
        except NumberTextError as error:
            raise DataError(
                f"Unable to convert {self._replacement} (class java.lang.String) to number"
            ) from error


class MaskFieldKey(MaskField):
    """Masks fields of the key."""

    java_class = "org.apache.kafka.connect.transforms.MaskField$Key"
    is_of_key = True


class MaskFieldValue(MaskField):
    """Masks fields of the value."""

    java_class = "org.apache.kafka.connect.transforms.MaskField$Value"
    is_of_key = False

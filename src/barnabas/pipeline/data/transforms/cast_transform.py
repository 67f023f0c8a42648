"""Cast: fields, or the whole key or value, to another primitive type."""

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final

from barnabas.pipeline.data import logical_types
from barnabas.pipeline.data.connect_errors import DataError, NumberTextError
from barnabas.pipeline.data.connect_schema import (
    Schema,
    Struct,
    Type,
    class_name,
    struct_schema,
    type_of_value,
    with_default,
)
from barnabas.pipeline.data.java_text import connect_text, plain_text
from barnabas.pipeline.data.java_values import (
    INT32_MAX,
    INT32_MIN,
    EpochMillis,
    Float32,
    Int8,
    Int16,
    Int32,
    hash_order,
    wrapped,
)
from barnabas.pipeline.data.records import ConnectRecord, ConnectValue
from barnabas.pipeline.data.transforms.transform_base import (
    REPLACE_NULL,
    REPLACE_NULL_KEY,
    Changed,
    DerivedSchemas,
    FieldsTransform,
    field_value,
    fields_of,
    items,
    java_split,
    property_of,
)
from barnabas.pipeline.data.value_conversion import double_of, long_of_decimal, long_of_float
from barnabas.pipeline.definitions.config_def import ConfigDef, Importance
from barnabas.pipeline.definitions.config_types import ConfigType, ConfigValueError, ParsedValue

_COMPOSITE: Final = (Type.BYTES, Type.ARRAY, Type.MAP, Type.STRUCT)
_OUTPUTS: Final = tuple(kind for kind in Type if kind not in _COMPOSITE)
_INPUTS: Final = (*_OUTPUTS, Type.BYTES)
_NUMBERS: Final = int | float | Decimal
_INTEGER: Final = re.compile(r"[+-]?\d+")
_FLOAT: Final = re.compile(r"([+-]?(?:NaN|Infinity|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?))[fFdD]?")
_BLANKS: Final = "".join(map(chr, range(33)))


def _listed(kinds: tuple[Type, ...]) -> str:
    return f"[{', '.join(kinds)}]"


def _output_type(text: str) -> Type:
    try:
        kind = Type(text.strip().upper())
    except ValueError:
        reason = (
            "java.lang.IllegalArgumentException: No enum constant "
            f"org.apache.kafka.connect.data.Schema.Type.{text.strip().upper()}"
        )
        name = f"Invalid type found in casting spec: {text.strip()}"
        raise ConfigValueError.of(name, reason) from None
    if kind not in _OUTPUTS:
        raise ConfigValueError(
            f"Cast transformation does not support casting to {kind}; "
            f"supported types are {_listed(_OUTPUTS)}"
        )
    return kind


def _parse_spec(spec: list[str]) -> dict[str | None, Type]:
    """Return the type of each field; the key None stands for the whole value."""
    casts: dict[str | None, Type] = {}
    for mapping in spec:
        parts = java_split(mapping, ":")
        if len(parts) > 2:
            raise ConfigValueError.of("renames", spec, f"Invalid rename mapping: {mapping}")
        name = None if len(parts) == 1 else parts[0].strip()
        casts[name] = _output_type(parts[-1])
    if None in casts and len(spec) > 1:
        raise ConfigValueError(
            "Cast transformations that specify a type to cast the entire value to "
            "may only specify a single cast in their spec"
        )
    return casts


def _spec(name: str, value: ParsedValue) -> None:
    if not isinstance(value, list) or not value:
        raise ConfigValueError("Must specify at least one field to cast.")
    _parse_spec(value)


def _integer_of(value: ConnectValue, bits: int) -> int:
    """Return a number cut to a width, or a text that is a number of it."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, str):
        number = int(value) if _INTEGER.fullmatch(value) else None
        if number is None or not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
            raise NumberTextError(value)
        return number
    if isinstance(value, float):
        if bits == 64:
            return long_of_float(double_of(value))
        return wrapped(long_of_float(double_of(value), INT32_MIN, INT32_MAX), bits)
    if isinstance(value, Decimal):
        return wrapped(long_of_decimal(value), bits)
    return wrapped(value, bits)


def _float_of(value: ConnectValue) -> float:
    if isinstance(value, str):
        found = _FLOAT.fullmatch(value.strip(_BLANKS))
        if found is None:
            raise NumberTextError(value)
        return float(found[1])
    return double_of(value)


def _boolean_of(value: ConnectValue) -> bool:
    if isinstance(value, str):
        return value.lower() == "true"
    return _integer_of(value, 64) != 0


def _text_of(value: ConnectValue) -> str:
    if isinstance(value, EpochMillis | bytes):
        return connect_text(value)
    return plain_text(value)


_CASTS: Final[Mapping[Type, Callable[[ConnectValue], ConnectValue]]] = {
    Type.INT8: lambda value: Int8(_integer_of(value, 8)),
    Type.INT16: lambda value: Int16(_integer_of(value, 16)),
    Type.INT32: lambda value: Int32(_integer_of(value, 32)),
    Type.INT64: lambda value: _integer_of(value, 64),
    Type.FLOAT32: lambda value: Float32(_float_of(value)),
    Type.FLOAT64: _float_of,
    Type.BOOLEAN: _boolean_of,
    Type.STRING: _text_of,
}


def cast_value(schema: Schema | None, value: ConnectValue, target: Type) -> ConnectValue:
    """Return a value cast to a type. Raises DataError."""
    if value is None:
        return None
    kind = type_of_value(value) if schema is None else schema.type
    if kind is None:
        raise DataError(
            f"Cast transformation was passed a value of type class {class_name(value)} "
            "which is not supported by Connect's data API"
        )
    if kind not in _INPUTS:
        raise DataError(
            f"Cast transformation does not support casting from {kind}; "
            f"supported types are {_listed(_INPUTS)}"
        )
    encoded = value
    if schema is not None and isinstance(value, EpochMillis) and target is not Type.STRING:
        encoded = logical_types.long_of(schema, value)
    if target is not Type.STRING and not isinstance(encoded, _NUMBERS | str):
        raise DataError(
            f"Unexpected type in Cast transformation: class {class_name(value, schema)}"
        )
    try:
        result = _CASTS[target](encoded)
    except NumberTextError as error:
        raise DataError(
            f"Value ({plain_text(value)}) was out of range for requested data type"
        ) from error
    is_narrow = isinstance(result, Int8 | Int16 | Int32)
    return int(result) if schema is not None and is_narrow else result


class Cast(FieldsTransform):
    """Casts fields or the whole."""

    purpose = "cast types"
    definition = ConfigDef(
        [
            property_of(
                "spec",
                ConfigType.LIST,
                Importance.HIGH,
                "Fields and their types, as field1:type,field2:type, or one type for the whole: "
                "int8, int16, int32, int64, float32, float64, boolean, string.",
                validator=_spec,
            ),
            REPLACE_NULL_KEY,
        ]
    )

    def accept(self, values: Mapping[str, ParsedValue]) -> None:
        """Take the parsed properties."""
        casts = _parse_spec(items(values, "spec"))
        self._casts = {name: casts[name] for name in hash_order(casts)}
        self._whole = self._casts.get(None)
        self._replaces_null = values[REPLACE_NULL] is True
        self._schemas = DerivedSchemas(self._derived)

    def changed(
        self, record: ConnectRecord, schema: Schema | None, value: ConnectValue
    ) -> Changed | None:
        """Return the cast value; null stays. As in Java, the schema is checked before the value."""
        updated = None if schema is None or value is None else self._schemas.of(schema)
        if self._whole is None or value is None:
            return super().changed(record, schema, value)
        return updated, cast_value(schema, value, self._whole)

    def changed_map(self, record: ConnectRecord, value: dict[str, Any]) -> ConnectValue:
        """Return the map with cast values."""
        updated = dict(value)
        for name, target in self._casts.items():
            if name is not None:
                updated[name] = cast_value(None, updated.get(name), target)
        return updated

    def changed_struct(self, record: ConnectRecord, schema: Schema, struct: Struct) -> Changed:
        """Return the struct with cast fields."""
        updated: Schema = self._schemas.of(schema)
        values: list[ConnectValue] = []
        for field in struct.schema.fields:
            found = field_value(struct, field, replaces_null=self._replaces_null)
            target = self._casts.get(field.name)
            values.append(found if target is None else cast_value(field.schema, found, target))
        return updated, Struct(updated, values)

    def _derived(self, schema: Schema) -> Schema:
        if self._whole is not None:
            built = Schema(
                self._whole,
                schema.optional,
                name=schema.name,
                version=schema.version,
                doc=schema.doc,
                parameters=schema.parameters or None,
            )
        else:
            fields = [
                (field.name, self._cast_schema(field.name, field.schema))
                for field in fields_of(schema)
            ]
            built = struct_schema(fields, like=schema, optional=schema.optional)
        if schema.default is None:
            return built
        return with_default(built, cast_value(schema, schema.default, built.type))

    def _cast_schema(self, name: str, schema: Schema) -> Schema:
        target = self._casts.get(name)
        if target is None:
            return schema
        built = Schema(target, schema.optional)
        if schema.default is None:
            return built
        return with_default(built, cast_value(schema, schema.default, target))


class CastKey(Cast):
    """Casts the key."""

    java_class = "org.apache.kafka.connect.transforms.Cast$Key"
    is_of_key = True


class CastValue(Cast):
    """Casts the value."""

    java_class = "org.apache.kafka.connect.transforms.Cast$Value"
    is_of_key = False

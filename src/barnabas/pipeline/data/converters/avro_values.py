"""Connect's values as Avro's and back, by Connect's schema.

Avro's library works without logical types here: dates are numbers and decimals are bytes, as
Connect's logical types define them.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from barnabas.pipeline.data import logical_types
from barnabas.pipeline.data.connect_errors import DataError
from barnabas.pipeline.data.connect_schema import (
    DATE_NAME,
    DECIMAL_NAME,
    TIME_NAME,
    TIMESTAMP_NAME,
    Schema,
    Struct,
    Type,
    check_value,
)
from barnabas.pipeline.data.converters.avro_schemas import UNION_NAME
from barnabas.pipeline.data.java_values import EpochMillis, Float32

Conversion = Callable[[Any], Any]

_TO_NUMBER: Final[Mapping[str | None, Callable[[EpochMillis], int]]] = {
    DATE_NAME: logical_types.day_of,
    TIME_NAME: logical_types.milliseconds_of_day,
    TIMESTAMP_NAME: lambda moment: moment.ms,
}
_OF_NUMBER: Final[Mapping[str | None, Callable[[int], EpochMillis]]] = {
    DATE_NAME: logical_types.date_of_day,
    TIME_NAME: logical_types.time_of,
    TIMESTAMP_NAME: EpochMillis,
}


def _same(value: Any) -> Any:
    return value


def _optional(convert: Conversion) -> Conversion:
    return lambda value: None if value is None else convert(value)


def _part(schema: Schema | None) -> Schema:
    if schema is None:
        raise DataError("an array or a map without the schema of its elements has no Avro schema")
    return schema


def _has_string_keys(schema: Schema) -> bool:
    keys = _part(schema.key_schema)
    return keys.type is Type.STRING and not keys.optional


def to_avro(schema: Schema) -> Conversion:
    """Return the conversion of checked values to Avro's."""
    convert = _to_avro(schema)
    return _optional(convert) if schema.optional else convert


def _to_avro(schema: Schema) -> Conversion:
    if schema.name in _TO_NUMBER:
        return _TO_NUMBER[schema.name]
    if schema.name == DECIMAL_NAME:
        return lambda value: logical_types.bytes_of_decimal(schema, value)
    if schema.type is Type.ARRAY:
        element = to_avro(_part(schema.value_schema))
        return lambda value: [element(each) for each in value]
    if schema.type is Type.MAP:
        key, each_value = to_avro(_part(schema.key_schema)), to_avro(_part(schema.value_schema))
        if _has_string_keys(schema):
            return lambda value: {name: each_value(each) for name, each in value.items()}
        return lambda value: [
            {"key": key(name), "value": each_value(each)} for name, each in value.items()
        ]
    if schema.type is Type.STRUCT:
        fields = [(field, to_avro(field.schema)) for field in schema.fields]

        def struct_to_avro(value: Struct) -> dict[str, Any]:
            return {field.name: convert(value.value_of(field)) for field, convert in fields}

        return struct_to_avro
    return _same


def of_avro(schema: Schema) -> Conversion:
    """Return the conversion of Avro's values."""
    convert = _of_avro(schema)
    return _optional(convert) if schema.optional and convert is not _same else convert


def _of_avro(schema: Schema) -> Conversion:
    if schema.name in _OF_NUMBER:
        return _OF_NUMBER[schema.name]
    if schema.name == DECIMAL_NAME:
        return lambda value: logical_types.decimal_of_bytes(schema, value)
    if schema.type is Type.FLOAT32:
        return Float32
    if schema.type is Type.ARRAY:
        element = of_avro(_part(schema.value_schema))
        return lambda value: [element(each) for each in value]
    if schema.type is Type.MAP:
        key, each_value = of_avro(_part(schema.key_schema)), of_avro(_part(schema.value_schema))
        if _has_string_keys(schema):
            return lambda value: {name: each_value(each) for name, each in value.items()}
        return lambda value: {key(entry["key"]): each_value(entry["value"]) for entry in value}
    if schema.type is Type.STRUCT:
        return _of_union(schema) if schema.name == UNION_NAME else _of_record(schema)
    return _same


def _of_record(schema: Schema) -> Conversion:
    fields = [(field.name, of_avro(field.schema)) for field in schema.fields]

    def record(value: Any) -> Struct:
        found = cast("dict[str, Any]", value)
        return Struct(schema, [convert(found[name]) for name, convert in fields])

    return record


def _of_union(schema: Schema) -> Conversion:
    """Return the conversion of a union's value: the first branch that it fits is set."""
    fields = [(field, of_avro(field.schema)) for field in schema.fields]

    def union(value: Any) -> Struct:
        struct = Struct(schema)
        for field, convert in fields:
            try:
                found = convert(value)
                check_value(field.schema, found)
            except (DataError, KeyError, TypeError, AttributeError, ValueError):
                continue
            struct.values[field.index] = found
            return struct
        raise DataError(f"{value!r} fits no branch of the union")

    return union


def avro_default(schema: Schema) -> Any:
    """Return the default of a field as Avro's JSON writes it."""
    found = _to_avro(schema)(schema.default)
    return found.decode("latin-1") if isinstance(found, bytes) else found


def connect_default(schema: Schema, default: Any) -> Any:
    """Return a default of Avro's JSON as a value, None when it does not fit the schema."""
    is_bytes = schema.type is Type.BYTES and isinstance(default, str)
    found = default.encode("latin-1") if is_bytes else default
    if schema.type is Type.FLOAT64 and type(found) is int:
        found = float(found)
    try:
        value = of_avro(schema)(found)
        check_value(schema, value)
    except (DataError, KeyError, TypeError, AttributeError, ValueError):
        return None
    return value

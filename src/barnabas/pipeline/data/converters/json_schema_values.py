"""JSON values to data and back, by schemas that came from JSON Schema.

Maps without text keys are arrays of objects with `key` and `value`. A value of the wrong JSON type
is refused.
"""

import binascii
import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Any, Final, cast

import attrs

from barnabas.pipeline.data import logical_types
from barnabas.pipeline.data.connect_errors import DataError
from barnabas.pipeline.data.connect_schema import (
    DATE_NAME,
    DECIMAL_NAME,
    TIME_NAME,
    TIMESTAMP_NAME,
    Field,
    Schema,
    Struct,
    Type,
)
from barnabas.pipeline.data.converters.json_readers import node_type
from barnabas.pipeline.data.converters.json_writers import float_text
from barnabas.pipeline.data.java_values import EpochMillis, Float32

ReadValue = Callable[[Any], Any]
WriteValue = Callable[[Any], str]

_ONE_OF: Final = "io.confluent.connect.json.OneOf"
_BITS: Final = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}
_NOT_FINITE: Final = {"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf"}


@attrs.frozen
class JsonSchemaStyle:
    """Settings that change schemas and values: properties of the converter, and those of serdes."""

    allows_additional: bool = True
    optional_unless_required: bool = False
    has_numeric_decimals: bool = False
    omits_nulls: bool = False
    """True when a field that is null is left out, unless its schema is optional."""


def value_reader(schema: Schema, style: JsonSchemaStyle) -> ReadValue:
    """Return the reading of JSON values as values of a schema."""
    read = _logical_reader(schema) or _plain_reader(schema, style)

    def read_or_null(value: Any) -> Any:
        if value is not None:
            return read(value)
        if schema.default is None and not schema.optional:
            raise DataError(f"Invalid null value for required {schema.type} field")
        return schema.default

    return read_or_null


def _refuse(value: Any, schema: Schema) -> DataError:
    shown = json.dumps(value, default=str)[:100]
    return DataError(f"{shown} of type {node_type(value)} does not fit {schema}")


def _plain_reader(schema: Schema, style: JsonSchemaStyle) -> ReadValue:
    match schema.type:
        case Type.INT8 | Type.INT16 | Type.INT32 | Type.INT64:
            return _integer_reader(schema)
        case Type.FLOAT32 | Type.FLOAT64:
            return _float_reader(schema)
        case Type.BOOLEAN:
            return _of_type(bool, schema)
        case Type.STRING:
            return _of_type(str, schema)
        case Type.BYTES:
            return _bytes_reader(schema)
        case Type.ARRAY:
            element = value_reader(_part(schema.value_schema), style)
            check = _of_type(list, schema)
            return lambda value: [element(each) for each in check(value)]
        case Type.MAP:
            return _map_reader(schema, style)
        case Type.STRUCT:
            is_choice = schema.name == _ONE_OF
            return (_choice_reader if is_choice else _struct_reader)(schema, style)


def _part(schema: Schema | None) -> Schema:
    if schema is None:
        raise DataError("an array or a map has no schema of its elements")
    return schema


def _of_type(kind: type, schema: Schema) -> ReadValue:
    def read(value: Any) -> Any:
        if type(value) is not kind:
            raise _refuse(value, schema)
        return value

    return read


def _integer_reader(schema: Schema) -> ReadValue:
    half = 1 << (_BITS[schema.type] - 1)

    def read(value: Any) -> int:
        found = value
        if isinstance(value, float | Decimal) and value == value and value % 1 == 0:
            found = int(value)
        if type(found) is not int or not -half <= found < half:
            raise _refuse(value, schema)
        return found

    return read


def _float_reader(schema: Schema) -> ReadValue:
    make = Float32 if schema.type is Type.FLOAT32 else float

    def read(value: Any) -> float:
        if isinstance(value, str) and value in _NOT_FINITE:
            return make(float(_NOT_FINITE[value]))
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
            raise _refuse(value, schema)
        return make(float(value))

    return read


def _bytes_reader(schema: Schema) -> ReadValue:
    def read(value: Any) -> bytes:
        try:
            return b64decode(value, validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise _refuse(value, schema) from None

    return read


def _map_reader(schema: Schema, style: JsonSchemaStyle) -> ReadValue:
    keys = _part(schema.key_schema)
    read_key = value_reader(keys, style)
    read_value = value_reader(_part(schema.value_schema), style)
    check_object, check_array = _of_type(dict, schema), _of_type(list, schema)
    if keys.type is Type.STRING and not keys.optional:
        return lambda value: {name: read_value(each) for name, each in check_object(value).items()}

    def read(value: Any) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for entry in check_array(value):
            if not isinstance(entry, dict):
                raise _refuse(entry, schema)
            pair = cast("dict[str, Any]", entry)
            found[read_key(pair.get("key"))] = read_value(pair.get("value"))
        return found

    return read


def _struct_reader(schema: Schema, style: JsonSchemaStyle) -> ReadValue:
    fields = [(field.name, _field_reader(field, style)) for field in schema.fields]
    check = _of_type(dict, schema)

    def read(value: Any) -> Struct:
        get = check(value).get
        return Struct(schema, [reader(get(name)) for name, reader in fields])

    return read


def _field_reader(field: Field, style: JsonSchemaStyle) -> ReadValue:
    read = value_reader(field.schema, style)

    def read_field(value: Any) -> Any:
        try:
            return read(value)
        except DataError as error:
            raise DataError(f"field {field.name}: {error}") from error

    return read_field


def _choice_reader(schema: Schema, style: JsonSchemaStyle) -> ReadValue:
    """Return the reading of a value of one of several schemas: the first that it fits."""
    branches = [(field, value_reader(field.schema, style)) for field in schema.fields]

    def read(value: Any) -> Struct:
        for field, reader in branches:
            if not _has_only_fields(field.schema, value):
                continue
            try:
                found = reader(value)
            except DataError:
                continue
            struct = Struct(schema)
            struct.values[field.index] = found
            return struct
        raise DataError(f"Did not find matching oneof field for data: {value!r}"[:200])

    return read


def _has_only_fields(schema: Schema, value: Any) -> bool:
    """True unless a value is an object with names that a struct does not have."""
    if schema.type is not Type.STRUCT or schema.name == _ONE_OF or not isinstance(value, dict):
        return True
    return all(schema.field(name) is not None for name in cast("dict[str, Any]", value))


def _logical_reader(schema: Schema) -> ReadValue | None:
    if schema.name == DECIMAL_NAME:
        return lambda value: _decimal(schema, value)
    of_number = _OF_NUMBER.get(schema.name or "")
    if of_number is None:
        return None
    integer = _integer_reader(schema)
    return lambda value: of_number(integer(value))


_OF_NUMBER: Final[Mapping[str, Callable[[int], EpochMillis]]] = {
    DATE_NAME: logical_types.date_of_day,
    TIME_NAME: logical_types.time_of,
    TIMESTAMP_NAME: EpochMillis,
}


def _decimal(schema: Schema, value: Any) -> Decimal:
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        return Decimal(value)
    return logical_types.decimal_of_bytes(schema, _bytes_reader(schema)(value))


def value_writer(schema: Schema, style: JsonSchemaStyle) -> WriteValue:
    """Return the writing of a schema's checked values as JSON text."""
    write = _logical_writer(schema, style) or _plain_writer(schema, style)

    def written(value: Any) -> str:
        found = schema.default if value is None else value
        return "null" if found is None else write(found)

    return written


_TO_NUMBER: Final[Mapping[str, Callable[[EpochMillis], int]]] = {
    DATE_NAME: logical_types.day_of,
    TIME_NAME: logical_types.milliseconds_of_day,
    TIMESTAMP_NAME: lambda moment: moment.ms,
}


def _logical_writer(schema: Schema, style: JsonSchemaStyle) -> WriteValue | None:
    if schema.name == DECIMAL_NAME:
        if style.has_numeric_decimals:
            return str
        return lambda value: _base64(logical_types.bytes_of_decimal(schema, value))
    to_number = _TO_NUMBER.get(schema.name or "")
    return None if to_number is None else lambda value: str(to_number(value))


def _base64(data: bytes) -> str:
    return f'"{b64encode(data).decode()}"'


def _plain_writer(schema: Schema, style: JsonSchemaStyle) -> WriteValue:
    match schema.type:
        case Type.INT8 | Type.INT16 | Type.INT32 | Type.INT64:
            return int.__repr__
        case Type.FLOAT32 | Type.FLOAT64:
            return float_text
        case Type.BOOLEAN:
            return lambda value: "true" if value else "false"
        case Type.STRING:
            return encode_basestring
        case Type.BYTES:
            return _base64
        case Type.ARRAY:
            element = value_writer(_part(schema.value_schema), style)
            return lambda value: f"[{','.join(map(element, value))}]"
        case Type.MAP:
            return _map_writer(schema, style)
        case Type.STRUCT:
            is_choice = schema.name == _ONE_OF
            return (_choice_writer if is_choice else _struct_writer)(schema, style)


def _map_writer(schema: Schema, style: JsonSchemaStyle) -> WriteValue:
    keys = _part(schema.key_schema)
    key, each_value = value_writer(keys, style), value_writer(_part(schema.value_schema), style)

    def write_object(value: dict[Any, Any]) -> str:
        entries = (f"{encode_basestring(name)}:{each_value(it)}" for name, it in value.items())
        return f"{{{','.join(entries)}}}"

    def write_array(value: dict[Any, Any]) -> str:
        entries = (f'{{"key":{key(k)},"value":{each_value(v)}}}' for k, v in value.items())
        return f"[{','.join(entries)}]"

    return write_object if keys.type is Type.STRING and not keys.optional else write_array


def _struct_writer(schema: Schema, style: JsonSchemaStyle) -> WriteValue:
    fields = [
        (
            f"{encode_basestring(field.name)}:",
            value_writer(field.schema, style),
            style.omits_nulls and not field.schema.optional and field.schema.default is None,
        )
        for field in schema.fields
    ]

    def write(value: Struct) -> str:
        parts = (
            name + each(held)
            for (name, each, omits_null), held in zip(fields, value.values, strict=True)
            if held is not None or not omits_null
        )
        return f"{{{','.join(parts)}}}"

    return write


def _choice_writer(schema: Schema, style: JsonSchemaStyle) -> WriteValue:
    writers = [value_writer(field.schema, style) for field in schema.fields]

    def write(value: Struct) -> str:
        for writer, held in zip(writers, value.values, strict=True):
            if held is not None:
                return writer(held)
        return "null"

    return write

"""Data to JSON text, by schema.

A writer is compiled once for a schema. It writes text, not objects for `json.dumps`, since JSON
numbers of any precision cannot be given to `json`.
"""

from base64 import b64encode
from collections.abc import Callable, Mapping
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Any, Final

import attrs

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
)
from barnabas.pipeline.data.java_values import EpochMillis, Float32, java_class_name

Writer = Callable[[Any], str]

_INFINITY: Final = float("inf")


@attrs.frozen
class JsonStyle:
    """The properties of a JSON converter that change what it writes."""

    replaces_null: bool = True
    has_numeric_decimals: bool = False


def writer_of(schema: Schema, style: JsonStyle) -> Writer:
    """Return the writer of a schema's values."""
    write = _logical(schema, style) or _plain(schema, style)
    on_null = _null_text(schema, style)

    def written(value: Any) -> str:
        if value is not None:
            return write(value)
        if on_null is None:
            raise DataError(
                "Conversion error: null value for field that is required and has no default value"
            )
        return on_null

    return written


def _null_text(schema: Schema, style: JsonStyle) -> str | None:
    """Return the text of null: the default's, or None when null is not valid."""
    if schema.default is not None and style.replaces_null:
        write = _logical(schema, style) or _plain(schema, style)
        return write(schema.default)
    return "null" if schema.optional else None


def _logical(schema: Schema, style: JsonStyle) -> Writer | None:
    if schema.name == DECIMAL_NAME:
        return _decimal(schema, style)
    if schema.name is None or schema.name not in _MOMENTS:
        return None
    name = schema.name.rpartition(".")[2]
    number_of = _MOMENTS[schema.name]

    def write(value: Any) -> str:
        if not isinstance(value, EpochMillis):
            raise DataError(
                f"Invalid type for {name}, expected Date but was class {java_class_name(value)}"
            )
        return str(number_of(value))

    return write


_MOMENTS: Final[Mapping[str, Callable[[EpochMillis], int]]] = {
    DATE_NAME: logical_types.day_of,
    TIME_NAME: logical_types.milliseconds_of_day,
    TIMESTAMP_NAME: lambda moment: moment.ms,
}


def _decimal(schema: Schema, style: JsonStyle) -> Writer:
    def write(value: Any) -> str:
        if not isinstance(value, Decimal):
            raise DataError(
                "Invalid type for Decimal, expected BigDecimal but was "
                f"class {java_class_name(value)}"
            )
        if style.has_numeric_decimals:
            return str(value)
        return _base64(logical_types.bytes_of_decimal(schema, value))

    return write


def _base64(data: bytes) -> str:
    return f'"{b64encode(data).decode()}"'


def float_text(value: float) -> str:
    """Return a number as JSON; NaN and infinities are texts, as in Java."""
    if value != value or value in (_INFINITY, -_INFINITY):
        return '"NaN"' if value != value else '"Infinity"' if value > 0 else '"-Infinity"'
    return float.__repr__(value)


def _of_class(kinds: tuple[type, ...], write: Writer, schema: Schema) -> Writer:
    def checked(value: Any) -> str:
        if type(value) not in kinds:
            raise DataError(f"Invalid type for {schema.type}: class {java_class_name(value)}")
        return write(value)

    return checked


def _integer(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int):
        raise DataError(f"Invalid type for an integer: class {java_class_name(value)}")
    return int.__repr__(value)


def _plain(schema: Schema, style: JsonStyle) -> Writer:
    match schema.type:
        case Type.INT8 | Type.INT16 | Type.INT32 | Type.INT64:
            return _integer
        case Type.FLOAT32:
            return _of_class((Float32,), float_text, schema)
        case Type.FLOAT64:
            return _of_class((float,), float_text, schema)
        case Type.BOOLEAN:
            return _of_class((bool,), lambda value: "true" if value else "false", schema)
        case Type.STRING:
            return _of_class((str,), encode_basestring, schema)
        case Type.BYTES:
            return _of_class((bytes,), _base64, schema)
        case Type.ARRAY:
            return _of_class((list,), _array(schema, style), schema)
        case Type.MAP:
            return _of_class((dict,), _map(schema, style), schema)
        case Type.STRUCT:
            return _of_class((Struct,), _struct(schema, style), schema)


def _array(schema: Schema, style: JsonStyle) -> Writer:
    write = element_writer(schema.value_schema, style)
    return lambda value: f"[{','.join(map(write, value))}]"


def _map(schema: Schema, style: JsonStyle) -> Writer:
    write_key = element_writer(schema.key_schema, style)
    write_value = element_writer(schema.value_schema, style)

    def write_object(value: dict[Any, Any]) -> str:
        entries = (f"{write_key(key)}:{write_value(each)}" for key, each in value.items())
        return f"{{{','.join(entries)}}}"

    def write_pairs(value: dict[Any, Any]) -> str:
        entries = (f"[{write_key(key)},{write_value(each)}]" for key, each in value.items())
        return f"[{','.join(entries)}]"

    is_object = schema.key_schema is not None and schema.key_schema.type is Type.STRING
    return write_object if is_object else write_pairs


def _struct(schema: Schema, style: JsonStyle) -> Writer:
    fields = [
        (f"{encode_basestring(field.name)}:", writer_of(field.schema, style))
        for field in schema.fields
    ]

    def write(value: Struct) -> str:
        if value.schema is not schema and value.schema != schema:
            raise DataError("Mismatching schema.")
        parts = [
            name + writer(each) for (name, writer), each in zip(fields, value.values, strict=True)
        ]
        return f"{{{','.join(parts)}}}"

    return write


def element_writer(schema: Schema | None, style: JsonStyle) -> Writer:
    """Return the writer of the elements of an array or a map, which may lack a schema."""
    if schema is not None:
        return writer_of(schema, style)
    from barnabas.pipeline.data.converters.json_converter import schemaless_text

    return schemaless_text

"""JSON values to data, by schema.

A reader is compiled once for a schema and then applied to each value. A value of the wrong JSON
type is read as Java's converter reads it: a text in place of a number is 0, for example.
"""

import binascii
import re
from base64 import b64decode
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final, cast

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
    check_value,
)
from barnabas.pipeline.data.java_values import INT32_MAX, INT32_MIN, EpochMillis, Float32, wrapped
from barnabas.pipeline.data.value_conversion import long_of_decimal

Reader = Callable[[Any], Any]

_BASE64: Final = re.compile(r"[A-Za-z0-9+/]*={0,2}")


def node_type(value: Any) -> str:
    """Return the name of a JSON value's type, as Java's errors show it."""
    match value:
        case bool():
            return "BOOLEAN"
        case int() | float() | Decimal():
            return "NUMBER"
        case str():
            return "STRING"
        case list():
            return "ARRAY"
        case dict():
            return "OBJECT"
        case _:
            return "NULL"


def reader_of(schema: Schema, *, replaces_null: bool) -> Reader:
    """Return the reader of a schema's values. Null is the default if `replaces_null`."""
    read = _logical(schema) or _plain(schema, replaces_null=replaces_null)
    default = schema.default if replaces_null else None
    if default is None and not schema.optional:
        failure = f"Invalid null value for required {schema.type} field"

        def required(value: Any) -> Any:
            if value is None:
                raise DataError(failure)
            return read(value)

        return required

    def optional(value: Any) -> Any:
        return default if value is None else read(value)

    return optional


def _logical(schema: Schema) -> Reader | None:
    make = _LOGICAL.get(schema.name) if schema.name is not None else None
    return None if make is None else make(schema)


def _decimal(schema: Schema) -> Reader:
    def read(value: Any) -> Decimal:
        if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
            return Decimal(value) if not isinstance(value, float) else Decimal(repr(value))
        if not isinstance(value, str):
            raise DataError(
                "Invalid type for Decimal, underlying representation should be numeric or bytes "
                f"but was {node_type(value)}"
            )
        try:
            return logical_types.decimal_of_bytes(schema, _decoded(value))
        except DataError as error:
            raise DataError("Invalid bytes for Decimal field") from error

    return read


def _day(value: Any, name: str) -> int:
    if type(value) is not int or not INT32_MIN <= value <= INT32_MAX:
        raise DataError(
            f"Invalid type for {name}, underlying representation should be integer "
            f"but was {node_type(value)}"
        )
    return value


def _timestamp(value: Any) -> EpochMillis:
    if type(value) is not int:
        raise DataError(
            "Invalid type for Timestamp, underlying representation should be integral "
            f"but was {node_type(value)}"
        )
    return EpochMillis(wrapped(value, 64))


_LOGICAL: Final[Mapping[str, Callable[[Schema], Reader]]] = {
    DECIMAL_NAME: _decimal,
    DATE_NAME: lambda _: lambda value: logical_types.date_of_day(_day(value, "Date")),
    TIME_NAME: lambda _: lambda value: logical_types.time_of(_day(value, "Time")),
    TIMESTAMP_NAME: lambda _: _timestamp,
}


def _decoded(text: str) -> bytes:
    """Return the bytes of base64. Raises DataError."""
    try:
        if _BASE64.fullmatch(text) is None:
            raise binascii.Error("a character is not of base64")
        return b64decode(text)
    except binascii.Error as error:
        raise DataError("Invalid bytes field") from error


def _plain(schema: Schema, *, replaces_null: bool) -> Reader:
    simple = _SIMPLE.get(schema.type)
    if simple is not None:
        return simple
    if schema.type is Type.ARRAY:
        return _array(schema, replaces_null=replaces_null)
    if schema.type is Type.MAP:
        return _map(schema, replaces_null=replaces_null)
    return _struct(schema, replaces_null=replaces_null)


def _integer(bits: int) -> Reader:
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1

    def read(value: Any) -> int:
        if type(value) is int:
            return value if low <= value <= high else wrapped(value, bits)
        if isinstance(value, float):
            return wrapped(long_of_decimal(Decimal(value)), bits)
        if isinstance(value, Decimal):
            return wrapped(long_of_decimal(value), bits)
        return 0

    return read


def _double(value: Any) -> float:
    if isinstance(value, float):
        return value
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            return float("inf") if value > 0 else float("-inf")
    return 0.0


_SIMPLE: Final[Mapping[Type, Reader]] = {
    Type.BOOLEAN: lambda value: value is True,
    Type.INT8: _integer(8),
    Type.INT16: _integer(16),
    Type.INT32: _integer(32),
    Type.INT64: _integer(64),
    Type.FLOAT32: lambda value: Float32(_double(value)),
    Type.FLOAT64: _double,
    Type.STRING: lambda value: value if type(value) is str else None,
    Type.BYTES: lambda value: _decoded(value) if type(value) is str else None,
}


def _array(schema: Schema, *, replaces_null: bool) -> Reader:
    if schema.value_schema is None:
        raise DataError("Array schema did not specify the element type")
    read = reader_of(schema.value_schema, replaces_null=replaces_null)

    def read_array(value: Any) -> list[Any]:
        if isinstance(value, list):
            return [read(element) for element in cast("list[Any]", value)]
        if isinstance(value, dict):
            return [read(element) for element in cast("dict[str, Any]", value).values()]
        return []

    return read_array


def _map(schema: Schema, *, replaces_null: bool) -> Reader:
    if schema.key_schema is None or schema.value_schema is None:
        raise DataError("Map schema did not specify the key or value type")
    read_key = reader_of(schema.key_schema, replaces_null=replaces_null)
    read_value = reader_of(schema.value_schema, replaces_null=replaces_null)

    def read_object(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise DataError(
                "Maps with string fields should be encoded as JSON objects, "
                f"but found {node_type(value)}"
            )
        entries = cast("dict[str, Any]", value)
        return {key: read_value(each) for key, each in entries.items()}

    def read_pairs(value: Any) -> dict[Any, Any]:
        if not isinstance(value, list):
            raise DataError(
                "Maps with non-string fields should be encoded as JSON array of tuples, "
                f"but found {node_type(value)}"
            )
        found: dict[Any, Any] = {}
        for pair in cast("list[Any]", value):
            if not isinstance(pair, list):
                raise DataError(
                    f"Found invalid map entry instead of array tuple: {node_type(pair)}"
                )
            entry = cast("list[Any]", pair)
            if len(entry) != 2:
                raise DataError(
                    f"Found invalid map entry, expected length 2 but found :{len(entry)}"
                )
            found[read_key(entry[0])] = read_value(entry[1])
        return found

    return read_object if schema.key_schema.type is Type.STRING else read_pairs


def _struct(schema: Schema, *, replaces_null: bool) -> Reader:
    fields = [
        (field.name, _field_reader(field, replaces_null=replaces_null)) for field in schema.fields
    ]

    def read(value: Any) -> Struct:
        if not isinstance(value, dict):
            raise DataError(
                f"Structs should be encoded as JSON objects, but found {node_type(value)}"
            )
        get = cast("dict[str, Any]", value).get
        return Struct(schema, [reader(get(name)) for name, reader in fields])

    return read


def _field_reader(field: Field, *, replaces_null: bool) -> Reader:
    """Return a reader that refuses null where a JSON value of a wrong type gave it."""
    read = reader_of(field.schema, replaces_null=replaces_null)
    if not _may_be_null(field.schema):
        return read
    location = f'field: "{field.name}"'

    def checked(value: Any) -> Any:
        found = read(value)
        check_value(field.schema, found, location)
        return found

    return checked


def _may_be_null(schema: Schema) -> bool:
    """True when a text or bytes that must not be null can be read as null."""
    if schema.type in (Type.STRING, Type.BYTES):
        return schema.name != DECIMAL_NAME and not schema.optional
    parts = (schema.key_schema, schema.value_schema)
    return any(part is not None and _may_be_null(part) for part in parts)


def needs_exact_decimals(schema: Schema) -> bool:
    """True when numbers with a point must be read as decimals, not as doubles."""
    if schema.name == DECIMAL_NAME:
        return True
    parts = [field.schema for field in schema.fields]
    parts += [each for each in (schema.key_schema, schema.value_schema) if each is not None]
    return any(map(needs_exact_decimals, parts))

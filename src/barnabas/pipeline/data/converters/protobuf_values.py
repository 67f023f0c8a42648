"""Protobuf's messages as Connect's values and back, by a Connect schema and a message type.

Reading and writing are compiled once for a schema. A field that is not set is null where Protobuf
knows that (messages, `optional`, oneofs), else it is the zero of its type.
"""

import datetime
from collections.abc import Callable, Mapping
from decimal import Decimal
from importlib import import_module
from typing import Any, Final

from barnabas.pipeline.data import logical_types
from barnabas.pipeline.data.connect_errors import DataError
from barnabas.pipeline.data.connect_schema import DECIMAL_NAME, Schema, Struct, Type
from barnabas.pipeline.data.converters.protobuf_files import ProtobufTypes
from barnabas.pipeline.data.converters.protobuf_schemas import (
    DATE_TYPE,
    DECIMAL_TYPE,
    TIME_TYPE,
    TIMESTAMP_TYPE,
    WRAPPED,
    FieldShape,
    MessageShape,
    ProtobufStyle,
    shape_of,
    union_name,
)
from barnabas.pipeline.data.java_values import EpochMillis, Float32, wrapped

Read = Callable[[Any], Any]
Fill = Callable[[Any, Any], None]
"""Takes a message of the library and a value, and sets the message's fields."""

_EPOCH: Final = datetime.date(1970, 1, 1).toordinal()
_DAY: Final = logical_types.MILLIS_PER_DAY
_NANOS_PER_MS: Final = 1_000_000
_UNSIGNED: Final = {"uint64": 64, "fixed64": 64, "uint32": 32, "fixed32": 32}


class ValueReader:
    """Compiles the reading of messages."""

    def __init__(self, types: ProtobufTypes, style: ProtobufStyle) -> None:
        self._types = types
        self._style = style

    def root(self, schema: Schema, name: str) -> Read:
        """Return the reading of messages of a type as values of the schema."""
        if schema.type is not Type.STRUCT:
            convert = _of_scalar(self._shape(name).fields[0].kind)
            return lambda message: convert(message.value)
        return self._struct(schema, name)

    def _shape(self, name: str) -> MessageShape:
        return shape_of(self._types.descriptor(name))

    def _struct(self, schema: Schema, name: str) -> Read:
        shape = self._shape(name)
        by_name = {field.name: field for field in shape.fields if field.oneof is None}
        unions = {union_name(shape, i, self._style): i for i in range(len(shape.oneofs))}
        reads = [
            self._union(field.schema, shape, unions[field.name])
            if field.name in unions and field.index < len(unions)
            else self._field(field.schema, by_name[field.name])
            for field in schema.fields
        ]
        return lambda message: Struct(schema, [read(message) for read in reads])

    def _union(self, schema: Schema, shape: MessageShape, index: int) -> Read:
        oneof = shape.oneofs[index]
        members = {field.name: field for field in shape.fields if field.oneof == index}
        reads = {
            field.name: (field.index, self._single(field.schema, members[field.name]))
            for field in schema.fields
        }

        def read(message: Any) -> Struct | None:
            name = message.WhichOneof(oneof)
            if name is None:
                return None
            struct = Struct(schema)
            place, convert = reads[name]
            struct.values[place] = convert(getattr(message, name))
            return struct

        return read

    def _field(self, schema: Schema, field: FieldShape) -> Read:
        name = field.name
        if schema.type is Type.MAP:
            return self._map(schema, field)
        if field.is_repeated:
            element = self._single(_part(schema.value_schema), field)
            return lambda message: [element(each) for each in getattr(message, name)]
        convert = self._single(schema, field)
        tells_null = field.is_proto3_optional or (
            field.has_keyword and self._style.optional_in_proto2
        )
        if field.kind != "message" and not tells_null:
            return lambda message: convert(getattr(message, name))
        return lambda message: convert(getattr(message, name)) if message.HasField(name) else None

    def _map(self, schema: Schema, field: FieldShape) -> Read:
        entry = self._shape(field.type_name)
        key_schema, value_schema = _part(schema.key_schema), _part(schema.value_schema)
        name = field.name
        if self._types.descriptor(field.type_name).GetOptions().map_entry:
            key = self._single(key_schema, entry.fields[0])
            value = self._single(value_schema, entry.fields[1])
            return lambda message: {
                key(each): value(held) for each, held in getattr(message, name).items()
            }
        key = self._field(key_schema, entry.fields[0])
        value = self._field(value_schema, entry.fields[1])
        return lambda message: {key(each): value(each) for each in getattr(message, name)}

    def _single(self, schema: Schema, field: FieldShape) -> Read:
        if field.kind == "enum":
            return self._enum(schema, field)
        if field.kind != "message":
            return _of_scalar(field.kind)
        if field.type_name in _OF_LOGICAL:
            return _OF_LOGICAL[field.type_name]
        if schema.type is not Type.STRUCT:
            convert = _of_scalar(self._shape(field.type_name).fields[0].kind)
            return lambda message: convert(message.value)
        return self._struct(schema, field.type_name)

    def _enum(self, schema: Schema, field: FieldShape) -> Read:
        if schema.type is Type.INT32:
            return int
        descriptor = self._types.pool.FindEnumTypeByName(field.type_name)
        names = {each.number: str(each.name) for each in descriptor.values}
        unknown = f"UNKNOWN_ENUM_VALUE_{descriptor.name}_"
        return lambda number: names.get(number) or f"{unknown}{number}"


def _part(schema: Schema | None) -> Schema:
    if schema is None:
        raise DataError("an array or a map has no schema of its elements")
    return schema


def _of_scalar(kind: str) -> Read:
    if kind == "float":
        return Float32
    if kind in ("uint64", "fixed64"):
        return lambda number: wrapped(number, 64)
    return _same


def _same(value: Any) -> Any:
    return value


def _of_decimal(message: Any) -> Decimal:
    if not message.value:
        raise DataError("a decimal has no digits")
    number = Decimal(int.from_bytes(message.value, "big", signed=True))
    sign, digits, _ = number.as_tuple()
    return Decimal((sign, digits, -message.scale))


def _of_date(message: Any) -> EpochMillis:
    try:
        day = datetime.date(message.year, message.month, message.day)
    except ValueError as error:
        shown = f"{message.year}-{message.month}-{message.day}"
        raise DataError(f"{shown} is not a date: {error}") from error
    return EpochMillis((day.toordinal() - _EPOCH) * _DAY)


def _of_time(message: Any) -> EpochMillis:
    hours, minutes, seconds, nanos = message.hours, message.minutes, message.seconds, message.nanos
    fits = (0 <= hours < 24, 0 <= minutes < 60, 0 <= seconds < 60, 0 <= nanos < 1_000_000_000)
    if not all(fits):
        raise DataError(f"{hours}:{minutes}:{seconds} and {nanos} ns is not a time of day")
    return EpochMillis(((hours * 60 + minutes) * 60 + seconds) * 1000 + nanos // _NANOS_PER_MS)


def _of_timestamp(message: Any) -> EpochMillis:
    return EpochMillis(message.seconds * 1000 + message.nanos // _NANOS_PER_MS)


_OF_LOGICAL: Final[Mapping[str, Read]] = {
    DECIMAL_TYPE: _of_decimal,
    DATE_TYPE: _of_date,
    TIME_TYPE: _of_time,
    TIMESTAMP_TYPE: _of_timestamp,
}


class ValueWriter:
    """Compiles the writing of values into messages.

    The types are those of a file that was made of the values' schema, or those that the schema was
    made of.
    """

    def __init__(self, types: ProtobufTypes, names: Callable[[str], str]) -> None:
        """Take the types, and the function from names in Connect to names in Protobuf."""
        self._types = types
        self._names = names

    def message_class(self, name: str) -> Any:
        """Return the library's class of a message."""
        factory: Any = import_module("google.protobuf.message_factory")
        return factory.GetMessageClass(self._types.descriptor(name))

    def struct(self, schema: Schema, name: str) -> Fill:
        """Return the function that fills a message of a type from a struct."""
        shape = shape_of(self._types.descriptor(name))
        by_name = {field.name: field for field in shape.fields}
        sets: list[tuple[int, Fill]] = []
        for field in schema.fields:
            found = by_name.get(self._names(field.name))
            if field.schema.type is Type.STRUCT and (found is None or found.oneof is not None):
                members = [
                    (each.index, self._field(each.schema, by_name[self._names(each.name)]))
                    for each in field.schema.fields
                ]
                sets.append((field.index, _filling(members)))
            elif found is not None:
                sets.append((field.index, self._field(field.schema, found)))
        return _filling(sets)

    def _field(self, schema: Schema, field: FieldShape) -> Fill:
        name = field.name
        if schema.type is Type.MAP:
            return self._map(schema, field)
        if field.is_repeated:
            return self._repeated(_part(schema.value_schema), field)
        if field.kind == "message":
            fill = self._message(schema, field)

            def fill_message(message: Any, value: Any) -> None:
                inner = getattr(message, name)
                inner.SetInParent()
                fill(inner, value)

            return fill_message
        convert = self._scalar(schema, field)
        return lambda message, value: setattr(message, name, convert(value))

    def _repeated(self, schema: Schema, field: FieldShape) -> Fill:
        name = field.name
        if field.kind == "message":
            fill = self._message(schema, field)

            def add_messages(message: Any, values: Any) -> None:
                container = getattr(message, name)
                for value in values:
                    fill(container.add(), _element(value, name))

            return add_messages
        convert = self._scalar(schema, field)

        def extend(message: Any, values: Any) -> None:
            getattr(message, name).extend(convert(_element(value, name)) for value in values)

        return extend

    def _map(self, schema: Schema, field: FieldShape) -> Fill:
        descriptor = self._types.descriptor(field.type_name)
        entry = shape_of(descriptor)
        if descriptor.GetOptions().map_entry:
            return self._true_map(schema, field.name, entry)
        fill_key = self._field(_part(schema.key_schema), entry.fields[0])
        fill_value = self._field(_part(schema.value_schema), entry.fields[1])
        name = field.name

        def fill(message: Any, values: Any) -> None:
            container = getattr(message, name)
            for key, value in values.items():
                added = container.add()
                if key is not None:
                    fill_key(added, key)
                if value is not None:
                    fill_value(added, value)

        return fill

    def _true_map(self, schema: Schema, name: str, entry: MessageShape) -> Fill:
        """Return the function that fills a field that Protobuf declares as a map."""
        key_field, value_field = entry.fields
        key = self._scalar(_part(schema.key_schema), key_field)
        value_schema = _part(schema.value_schema)
        if value_field.kind == "message":
            fill = self._message(value_schema, value_field)

            def fill_messages(message: Any, values: Any) -> None:
                container = getattr(message, name)
                for each, held in values.items():
                    fill(container[key(each)], _element(held, name))

            return fill_messages
        convert = self._scalar(value_schema, value_field)

        def fill_scalars(message: Any, values: Any) -> None:
            container = getattr(message, name)
            for each, held in values.items():
                container[key(each)] = convert(_element(held, name))

        return fill_scalars

    def _message(self, schema: Schema, field: FieldShape) -> Fill:
        if field.type_name in _TO_LOGICAL:
            fill = _TO_LOGICAL[field.type_name]
            return lambda message, value: fill(schema, message, value)
        if field.type_name in WRAPPED and schema.type is not Type.STRUCT:
            kind = shape_of(self._types.descriptor(field.type_name)).fields[0]
            convert = self._scalar(schema, kind)
            return lambda message, value: setattr(message, "value", convert(value))
        return self.struct(schema, field.type_name)

    def _scalar(self, schema: Schema, field: FieldShape) -> Read:
        if field.kind == "enum" and schema.type is Type.STRING:
            descriptor = self._types.pool.FindEnumTypeByName(field.type_name)
            numbers = {str(each.name): int(each.number) for each in descriptor.values}

            def number_of(symbol: str) -> int:
                if symbol not in numbers:
                    raise DataError(f"the enum {descriptor.name} has no symbol {symbol}")
                return numbers[symbol]

            return number_of
        bits = _UNSIGNED.get(field.kind)
        if bits == 64:
            return lambda number: number & 0xFFFF_FFFF_FFFF_FFFF
        return _same


def _filling(sets: list[tuple[int, Fill]]) -> Fill:
    """Return the function that sets a message's fields from the values of a struct."""

    def fill(message: Any, value: Struct) -> None:
        for place, set_field in sets:
            each = value.values[place]
            if each is None:
                each = value.schema.fields[place].schema.default
            if each is not None:
                set_field(message, each)

    return fill


def _element(value: Any, name: str) -> Any:
    if value is None:
        raise DataError(f"the field {name} has a null in it, which Protobuf cannot express")
    return value


def _to_decimal(schema: Schema, message: Any, value: Decimal) -> None:
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise DataError(f"{value} is not a number")
    exact = {"scale": str(-exponent)}
    bare = Schema(Type.BYTES, name=DECIMAL_NAME, parameters=exact)
    message.value = logical_types.bytes_of_decimal(bare, value)
    message.precision = max(1, len(digits))
    message.scale = -exponent


def _to_date(schema: Schema, message: Any, value: EpochMillis) -> None:
    day = logical_types.day_of(value)
    try:
        found = datetime.date.fromordinal(day + _EPOCH)
    except (ValueError, OverflowError) as error:
        raise DataError(f"day {day} is outside of the years 1 to 9999") from error
    message.year, message.month, message.day = found.year, found.month, found.day


def _to_time(schema: Schema, message: Any, value: EpochMillis) -> None:
    seconds, ms = divmod(logical_types.milliseconds_of_day(value), 1000)
    message.hours, rest = divmod(seconds, 3600)
    message.minutes, message.seconds = divmod(rest, 60)
    message.nanos = ms * _NANOS_PER_MS


def _to_timestamp(schema: Schema, message: Any, value: EpochMillis) -> None:
    message.seconds, ms = divmod(value.ms, 1000)
    message.nanos = ms * _NANOS_PER_MS


_TO_LOGICAL: Final[Mapping[str, Callable[[Schema, Any, Any], None]]] = {
    DECIMAL_TYPE: _to_decimal,
    DATE_TYPE: _to_date,
    TIME_TYPE: _to_time,
    TIMESTAMP_TYPE: _to_timestamp,
}

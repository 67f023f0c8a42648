"""Connect's schemas as Protobuf files: one file for a schema, with all its messages.

Messages of nested structs and entries of maps are declared inside the message that uses them. A
field takes its number from the parameter `io.confluent.connect.protobuf.Tag`, else the next free
one. Protobuf has no defaults of the kind that Connect has, so those are left out.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final
from urllib.parse import quote_plus

import attrs

from barnabas.pipeline.data.connect_errors import DataError
from barnabas.pipeline.data.connect_schema import (
    DATE_NAME,
    DECIMAL_NAME,
    SCALE_PARAMETER,
    TIME_NAME,
    TIMESTAMP_NAME,
    Schema,
    Type,
)
from barnabas.pipeline.data.converters.protobuf_files import META_OPTION, META_PATH, WRAPPERS_PATH
from barnabas.pipeline.data.converters.protobuf_schemas import (
    CONNECT_TYPE,
    DATE_TYPE,
    DECIMAL_TYPE,
    ENTRY,
    ENUM,
    PRECISION,
    SCALARS,
    TAG,
    TIME_TYPE,
    TIMESTAMP_TYPE,
    TYPE,
    UNION_PREFIX,
    ProtobufStyle,
)
from barnabas.registry.formats.protobuf.proto_types import (
    EnumConstant,
    EnumType,
    Field,
    Import,
    Message,
    Oneof,
    Option,
    OptionValue,
    ProtoFile,
)

_DEFAULT_NAME: Final = "ConnectDefault"
_LOGICAL: Final[Mapping[str, tuple[str, str]]] = {
    DECIMAL_NAME: (DECIMAL_TYPE, "confluent/type/decimal.proto"),
    DATE_NAME: (DATE_TYPE, "google/type/date.proto"),
    TIME_NAME: (TIME_TYPE, "google/type/timeofday.proto"),
    TIMESTAMP_NAME: (TIMESTAMP_TYPE, "google/protobuf/timestamp.proto"),
}
_SCALAR_OF: Final[Mapping[Type, str]] = {
    Type.INT8: "int32",
    Type.INT16: "int32",
    Type.INT32: "int32",
    Type.INT64: "int64",
    Type.FLOAT32: "float",
    Type.FLOAT64: "double",
    Type.BOOLEAN: "bool",
    Type.STRING: "string",
    Type.BYTES: "bytes",
}
_WRAPPER_OF: Final[Mapping[str, str]] = {
    "double": "DoubleValue",
    "float": "FloatValue",
    "int64": "Int64Value",
    "uint64": "UInt64Value",
    "fixed64": "UInt64Value",
    "int32": "Int32Value",
    "uint32": "UInt32Value",
    "fixed32": "UInt32Value",
    "bool": "BoolValue",
    "string": "StringValue",
    "bytes": "BytesValue",
}
WRAPPERS: Final = (
    *("DoubleValue", "FloatValue", "Int64Value", "UInt64Value", "Int32Value"),
    *("UInt32Value", "BoolValue", "StringValue", "BytesValue"),
)
"""The messages of Protobuf's file of wrappers, in its order."""
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLAIN_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


def is_union(schema: Schema) -> bool:
    """True when a struct is a oneof."""
    return schema.name is not None and schema.name.startswith(UNION_PREFIX)


def wrappers_file() -> ProtoFile:
    """Return the file whose messages hold a single primitive value."""
    messages = [Message(name, (Field("value", 1, _wrapped(name)),)) for name in WRAPPERS]
    return ProtoFile("proto3", "google.protobuf", messages=tuple(messages))


def _wrapped(wrapper: str) -> str:
    return wrapper.removesuffix("Value").lower()


def wrapper_of(kind: Type) -> str:
    """Return the wrapper of a primitive type."""
    return _WRAPPER_OF[_SCALAR_OF[kind]]


@attrs.define
class _Parts:
    """The declarations of one message while it is built."""

    name: str
    fields: list[Field] = attrs.Factory(list[Field])
    oneofs: list[Oneof] = attrs.Factory(list[Oneof])
    messages: dict[str, tuple[Schema, Message]] = attrs.Factory(dict[str, tuple[Schema, Message]])
    enums: dict[str, EnumType] = attrs.Factory(dict[str, EnumType])
    numbers: set[int] = attrs.Factory(set[int])

    def message(self) -> Message:
        """Return the finished message."""
        nested = tuple(message for _, message in self.messages.values())
        fields, oneofs = tuple(self.fields), tuple(self.oneofs)
        return Message(self.name, fields, oneofs, messages=nested, enums=tuple(self.enums.values()))


def file_of_struct(schema: Schema, style: ProtobufStyle) -> ProtoFile:
    """Return the file whose first message is the struct. Raises DataError."""
    return _FileBuilder(style).file(schema)


class _FileBuilder:
    def __init__(self, style: ProtobufStyle) -> None:
        self._style = style
        self._imports: dict[str, Import] = {}
        self._unnamed = 0

    def file(self, schema: Schema) -> ProtoFile:
        """Return the file of a struct."""
        package, _, name = self._named(schema.name).rpartition(".")
        for part in package.split(".") if package else ():
            _check_name(part)
        message = self._message(self._scrubbed(name), schema)
        imports = tuple(self._imports.values())
        return ProtoFile("proto3", package, imports, messages=(message,))

    def _named(self, name: str | None) -> str:
        if name:
            return name
        self._unnamed += 1
        return f"{_DEFAULT_NAME}{self._unnamed}"

    def _type_name(self, name: str | None) -> str:
        return self._scrubbed(self._named(name).rpartition(".")[2])

    def _scrubbed(self, name: str) -> str:
        found = scrubbed(name) if self._style.scrubs_names else name
        _check_name(found)
        return found

    def _message(self, name: str, schema: Schema) -> Message:
        parts = _Parts(name)
        taken = {int(tag) for each in _flat(schema) if (tag := _tag(each))}
        free = (number for number in range(1, 1 << 29) if number not in taken)
        for field in schema.fields:
            if is_union(field.schema):
                members = [
                    _member(self._field(parts, each.schema, each.name, _tag(each.schema), free))
                    for each in field.schema.fields
                ]
                union = self._type_name((field.schema.name or "").removeprefix(UNION_PREFIX))
                parts.oneofs.append(Oneof(union, tuple(members)))
            else:
                tag = _tag(field.schema)
                parts.fields.append(self._field(parts, field.schema, field.name, tag, free))
        return parts.message()

    def _field(
        self, parts: _Parts, schema: Schema, name: str, tag: str | None, free: Iterator[int]
    ) -> Field:
        name = self._scrubbed(name)
        number = next(free) if tag is None else int(tag)
        if number in parts.numbers:
            raise DataError(f"the field {name} of {parts.name} has the number {number} of another")
        parts.numbers.add(number)
        label, single = "", schema
        if schema.type is Type.ARRAY:
            label, single = "repeated", _element(schema)
        elif schema.type is Type.MAP:
            label = "repeated"
        elif self._style.uses_optional and schema.optional:
            label = "optional"
        kind = self._kind(parts, single, name)
        return Field(name, number, kind, label, self._options(single))

    def _kind(self, parts: _Parts, schema: Schema, field: str) -> str:
        """Return the type of a field's single values; declare it where it is a new one."""
        if schema.name in _LOGICAL:
            kind, path = _LOGICAL[schema.name]
            self._imports.setdefault(path, Import(path))
            return f".{kind}"
        parameters = schema.parameters or {}
        if schema.type in (Type.STRING, Type.INT32) and ENUM in parameters:
            return self._enum(parts, schema.name or parameters[ENUM], parameters)
        if schema.type is Type.STRUCT:
            return self._struct(parts, schema, field)
        if schema.type is Type.MAP:
            return self._map(parts, schema)
        if schema.type is Type.ARRAY:
            raise DataError(f"the field {field} is an array of arrays, which Protobuf lacks")
        kind = _SCALAR_OF[schema.type]
        own = parameters.get(TYPE)
        if own is not None and SCALARS.get(own) is schema.type:
            kind = own
        if self._style.uses_wrappers and schema.optional:
            self._imports.setdefault(WRAPPERS_PATH, Import(WRAPPERS_PATH))
            usual = _WRAPPER_OF.get(kind) or _WRAPPER_OF[_SCALAR_OF[schema.type]]
            return f".google.protobuf.{usual}"
        return kind

    def _options(self, schema: Schema) -> tuple[Option, ...]:
        """Return the parameters that a reader needs for the same schema."""
        params: dict[str, str] = {}
        parameters = schema.parameters or {}
        if schema.name == DECIMAL_NAME:
            found = {"precision": parameters.get(PRECISION), "scale": parameters[SCALE_PARAMETER]}
            params = {name: value for name, value in found.items() if value is not None}
        elif schema.type in (Type.INT8, Type.INT16) and schema.name not in _LOGICAL:
            params = {CONNECT_TYPE: schema.type.lower()}
        if not params:
            return ()
        self._imports.setdefault(META_PATH, Import(META_PATH))
        items = tuple(
            OptionValue("map", entries=(("key", _text(name)), ("value", _text(value))))
            for name, value in params.items()
        )
        value = OptionValue("map", entries=(("params", OptionValue("list", items=items)),))
        return (Option(META_OPTION, value),)

    def _struct(self, parts: _Parts, schema: Schema, field: str) -> str:
        if is_union(schema):
            raise DataError(f"the oneof {field} is in an array, which Protobuf lacks")
        name = self._type_name(schema.name)
        if name == field:
            name += "Message"
        bare = attrs.evolve(schema, optional=False, default=None, parameters=None)
        return self._declare(parts, name, bare, lambda: self._message(name, schema))

    def _map(self, parts: _Parts, schema: Schema) -> str:
        name = _entry_name(self._type_name(schema.name))
        keys, values = schema.key_schema, schema.value_schema
        if keys is None or values is None:
            raise DataError("a map without the schemas of its keys and values has no Protobuf type")
        if Type.ARRAY in (keys.type, values.type) or Type.MAP in (keys.type, values.type):
            raise DataError("a map of arrays or of maps has no Protobuf type")
        bare = Schema(Type.MAP, key_schema=keys, value_schema=values)

        def entry() -> Message:
            inside = _Parts(name)
            inside.fields.append(self._field(inside, keys, "key", "1", iter(())))
            inside.fields.append(self._field(inside, values, "value", "2", iter(())))
            return inside.message()

        return self._declare(parts, name, bare, entry)

    def _declare(
        self, parts: _Parts, name: str, schema: Schema, make: Callable[[], Message]
    ) -> str:
        """Declare a message in another one, unless it is declared already."""
        known = parts.messages.get(name)
        if known is None:
            parts.messages[name] = (schema, make())
        elif known[0] != schema:
            raise DataError(f"{parts.name} has two different types with the name {name}")
        return name

    def _enum(self, parts: _Parts, name: str, parameters: Mapping[str, str]) -> str:
        name = self._type_name(name)
        prefix = f"{ENUM}."
        constants = tuple(
            EnumConstant(symbol.removeprefix(prefix), _number(symbol, text))
            for symbol, text in parameters.items()
            if symbol.startswith(prefix)
        )
        if not constants or constants[0].number != 0:
            raise DataError(f"the first symbol of the enum {name} must have the number 0")
        parts.enums[name] = EnumType(name, constants)
        return name


def _text(value: str) -> OptionValue:
    return OptionValue("string", value)


def _number(symbol: str, text: str) -> int:
    if not text.removeprefix("-").isdecimal():
        raise DataError(f"the enum's parameter {symbol} is not a number: {text}")
    return int(text)


def _tag(schema: Schema) -> str | None:
    tag = (schema.parameters or {}).get(TAG)
    if tag is not None and not tag.isdecimal():
        raise DataError(f"the parameter {TAG} is not a number: {tag}")
    return tag


def _flat(schema: Schema) -> Iterator[Schema]:
    """Return the schemas of a message's fields, those of its oneofs included."""
    for field in schema.fields:
        if is_union(field.schema):
            yield from (member.schema for member in field.schema.fields)
        else:
            yield field.schema


def _member(field: Field) -> Field:
    """Return a field as a member of a oneof, whose fields have no label. Raises DataError."""
    if field.label == "repeated":
        raise DataError(f"the oneof's field {field.name} is an array or a map, which it may not be")
    return attrs.evolve(field, label="")


def _element(schema: Schema) -> Schema:
    found = schema.value_schema
    if found is None:
        raise DataError("an array without the schema of its elements has no Protobuf type")
    if found.type is Type.MAP:
        raise DataError("an array of maps has no Protobuf type")
    return found


def _entry_name(name: str) -> str:
    if "_" in name:
        name = "".join(part[:1].upper() + part[1:] for part in name.split("_"))
    return name + ENTRY


def _check_name(name: str) -> None:
    if _IDENTIFIER.fullmatch(name) is None:
        raise DataError(
            f"{name!r} is not a name in Protobuf; scrub.invalid.names=true replaces such names"
        )


def scrubbed(name: str) -> str:
    """Return a name with other characters in place of those that Protobuf does not allow."""
    if not name or _PLAIN_NAME.fullmatch(name) is not None:
        return name
    encoded = quote_plus(name)
    if encoded[0].isdecimal() or encoded[0] == "_":
        encoded = f"x{encoded}"
    return re.sub("[^A-Za-z0-9_]", "_", encoded)

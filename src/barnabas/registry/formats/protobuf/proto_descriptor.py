"""Serialized schemas: a tree as a FileDescriptorProto in base64, and back.

Clients in Python and .NET register and read descriptors instead of text. The bytes are those of
the Java registry: names of types as written, the file always named ``default``, labels only where
they say something, groups and custom options left out. The library of Protobuf is imported when a
descriptor is first needed.
"""

import base64
import binascii
from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib import import_module
from typing import Any

from barnabas.registry.formats.protobuf.proto_names import Names
from barnabas.registry.formats.protobuf.proto_types import (
    EDITIONS_REFUSED,
    SCALARS,
    EnumConstant,
    EnumType,
    Extend,
    Extensions,
    Field,
    Import,
    MapType,
    Message,
    Oneof,
    Option,
    OptionValue,
    ProtoFile,
    Range,
    Reserved,
    Rpc,
    Service,
)
from barnabas.registry.formats.schema_format import SchemaError

_LABELS = {"optional": 1, "required": 2, "repeated": 3}
_SPECIAL_OPTIONS = ("default", "json_name")


def descriptor_text(file: ProtoFile, names: Names) -> str:
    """Return the FileDescriptorProto of a file, in base64."""
    library: Any = import_module("google.protobuf.descriptor_pb2")
    descriptor = library.FileDescriptorProto(name="default")
    _Encoder(file, names).fill(descriptor)
    return base64.b64encode(descriptor.SerializeToString()).decode()


def file_of_descriptor(text: str) -> ProtoFile | None:
    """Return the file that a FileDescriptorProto in base64 describes, None when it is not one.

    Raises SchemaError for a file of an edition.
    """
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    library: Any = import_module("google.protobuf.descriptor_pb2")
    errors: Any = import_module("google.protobuf.message")
    try:
        descriptor = library.FileDescriptorProto.FromString(data)
    except errors.DecodeError:
        return None
    if descriptor.syntax == "editions":
        raise SchemaError(EDITIONS_REFUSED)
    return _decoded(descriptor) if descriptor.ByteSize() else None


class _Encoder:
    """Fills a descriptor from a tree."""

    def __init__(self, file: ProtoFile, names: Names) -> None:
        self._file = file
        self._names = names
        self._has_synthetic_oneofs = file.syntax == "proto3"

    def fill(self, descriptor: Any) -> None:
        file = self._file
        if file.package:
            descriptor.package = file.package
        for index, imported in enumerate(file.imports):
            descriptor.dependency.append(imported.path)
            if imported.kind == "public":
                descriptor.public_dependency.append(index)
            elif imported.kind == "weak":
                descriptor.weak_dependency.append(index)
        for message in file.messages:
            self._message(descriptor.message_type.add(), message, file.package)
        for enum in file.enums:
            _fill_enum(descriptor.enum_type.add(), enum)
        for extend in file.extends:
            for field in extend.fields:
                extension = descriptor.extension.add()
                self._field(extension, field, file.package)
                extension.extendee = extend.name
        for service in file.services:
            _fill_service(descriptor.service.add(), service)
        _fill_options(descriptor, file.options)
        if file.syntax:
            descriptor.syntax = file.syntax

    def _message(self, descriptor: Any, message: Message, scope: str) -> None:
        scope = f"{scope}.{message.name}" if scope else message.name
        descriptor.name = message.name
        for index, oneof in enumerate(message.oneofs):
            _fill_oneof(descriptor.oneof_decl.add(), oneof)
            for field in oneof.fields:
                target = descriptor.field.add()
                self._field(target, field, scope)
                target.label = _LABELS["optional"]
                target.oneof_index = index
        for field in message.fields:
            target = descriptor.field.add()
            self._field(target, field, scope)
            if field.label == "optional" and self._has_synthetic_oneofs:
                target.oneof_index = len(descriptor.oneof_decl)
                target.proto3_optional = True
                _fill_oneof(descriptor.oneof_decl.add(), Oneof(f"_{field.name}", ()))
        for nested in message.messages:
            self._message(descriptor.nested_type.add(), nested, scope)
        for field in message.fields:
            if isinstance(field.type, MapType):
                self._entry(descriptor.nested_type.add(), field, field.type, scope)
        for enum in message.enums:
            _fill_enum(descriptor.enum_type.add(), enum)
        for extensions in message.extensions:
            for numbers in extensions.ranges:
                target = descriptor.extension_range.add(start=numbers.first, end=numbers.last + 1)
                target.options.SetInParent()
        for item in (item for statement in message.reserved for item in statement.items):
            if isinstance(item, str):
                descriptor.reserved_name.append(item)
            else:
                descriptor.reserved_range.add(start=item.first, end=item.last + 1)
        _fill_options(descriptor, message.options)

    def _entry(self, descriptor: Any, field: Field, map_type: MapType, scope: str) -> None:
        descriptor.name = _entry_name(field.name)
        self._field(descriptor.field.add(), Field("key", 1, map_type.key), scope)
        self._field(descriptor.field.add(), Field("value", 2, map_type.value), scope)
        descriptor.options.map_entry = True

    def _field(self, descriptor: Any, field: Field, scope: str) -> None:
        descriptor.name = field.name
        descriptor.number = field.number
        if field.label:
            descriptor.label = _LABELS[field.label]
        if isinstance(field.type, MapType):
            descriptor.label = _LABELS["repeated"]
            descriptor.type_name = _entry_name(field.name)
        elif field.type in SCALARS:
            descriptor.type = descriptor.Type.Value(f"TYPE_{field.type.upper()}")
        else:
            kind = self._names.resolve(field.type, scope).kind
            descriptor.type = descriptor.Type.Value(f"TYPE_{kind.upper()}")
            descriptor.type_name = field.type
        for option in field.options:
            if option.name == "default":
                descriptor.default_value = option.value.text
            elif option.name == "json_name":
                descriptor.json_name = option.value.text
        _fill_options(descriptor, field.options)


def _entry_name(field_name: str) -> str:
    if "_" in field_name:
        field_name = "".join(part[:1].upper() + part[1:] for part in field_name.split("_"))
    return f"{field_name}Entry"


def _fill_oneof(descriptor: Any, oneof: Oneof) -> None:
    descriptor.name = oneof.name
    descriptor.options.SetInParent()
    _fill_options(descriptor, oneof.options)


def _fill_enum(descriptor: Any, enum: EnumType) -> None:
    descriptor.name = enum.name
    for constant in enum.constants:
        value = descriptor.value.add(name=constant.name, number=constant.number)
        _fill_options(value, constant.options)
    for item in (item for statement in enum.reserved for item in statement.items):
        if isinstance(item, str):
            descriptor.reserved_name.append(item)
        else:
            descriptor.reserved_range.add(start=item.first, end=item.last)
    _fill_options(descriptor, enum.options)


def _fill_service(descriptor: Any, service: Service) -> None:
    descriptor.name = service.name
    for rpc in service.rpcs:
        method = descriptor.method.add(
            name=rpc.name,
            input_type=rpc.request,
            output_type=rpc.response,
            client_streaming=rpc.request_stream,
            server_streaming=rpc.response_stream,
        )
        _fill_options(method, rpc.options)
    _fill_options(descriptor, service.options)


def _fill_options(descriptor: Any, options: Iterable[Option]) -> None:
    """Set the options that the descriptor knows; one with a value that does not fit is left out."""
    known = descriptor.options.DESCRIPTOR.fields_by_name
    for option in options:
        if option.name not in known or option.name in _SPECIAL_OPTIONS:
            continue
        value = option.value
        with suppress(TypeError, ValueError, AttributeError):
            if value.kind == "string":
                setattr(descriptor.options, option.name, value.text)
            elif value.text in ("true", "false"):
                setattr(descriptor.options, option.name, value.text == "true")
            elif known[option.name].enum_type is not None:
                number = known[option.name].enum_type.values_by_name[value.text].number
                setattr(descriptor.options, option.name, number)
            elif value.kind == "word":
                setattr(descriptor.options, option.name, int(value.text))


def _decoded(descriptor: Any) -> ProtoFile:
    public, weak = set(descriptor.public_dependency), set(descriptor.weak_dependency)
    syntax = descriptor.syntax or "proto2"
    return ProtoFile(
        syntax,
        descriptor.package,
        tuple(
            Import(path, "public" if index in public else "weak" if index in weak else "")
            for index, path in enumerate(descriptor.dependency)
        ),
        _decoded_options(descriptor.options),
        tuple(_decoded_message(message, syntax) for message in descriptor.message_type),
        tuple(map(_decoded_enum, descriptor.enum_type)),
        tuple(_decoded_extends(descriptor.extension, syntax)),
        tuple(map(_decoded_service, descriptor.service)),
    )


def _decoded_message(descriptor: Any, syntax: str) -> Message:
    entries = {e.name: e for e in descriptor.nested_type if e.options.map_entry}
    in_oneofs: dict[int, list[Field]] = {}
    fields: list[Field] = []
    for source in descriptor.field:
        field = _decoded_field(source, syntax, entries)
        if source.HasField("oneof_index") and not source.proto3_optional:
            in_oneofs.setdefault(source.oneof_index, []).append(_without_label(field))
        else:
            fields.append(field)
    ranges = (Extensions((Range(r.start, r.end - 1),)) for r in descriptor.extension_range)
    reserved: list[Reserved] = []
    if descriptor.reserved_range:
        numbers = (Range(r.start, r.end - 1) for r in descriptor.reserved_range)
        reserved.append(Reserved(tuple(numbers)))
    if descriptor.reserved_name:
        reserved.append(Reserved(tuple(descriptor.reserved_name)))
    return Message(
        descriptor.name,
        tuple(fields),
        tuple(
            Oneof(oneof.name, tuple(in_oneofs[index]), _decoded_options(oneof.options))
            for index, oneof in enumerate(descriptor.oneof_decl)
            if index in in_oneofs
        ),
        (),
        tuple(_decoded_message(m, syntax) for m in descriptor.nested_type if m.name not in entries),
        tuple(map(_decoded_enum, descriptor.enum_type)),
        tuple(_decoded_extends(descriptor.extension, syntax)),
        tuple(ranges),
        tuple(reserved),
        _decoded_options(descriptor.options),
    )


def _without_label(field: Field) -> Field:
    return Field(field.name, field.number, field.type, "", field.options)


def _decoded_field(source: Any, syntax: str, entries: dict[str, Any]) -> Field:
    entry = entries.get(source.type_name.rpartition(".")[2])
    options = list(_decoded_options(source.options))
    if source.HasField("default_value"):
        is_text = source.type in (source.TYPE_STRING, source.TYPE_BYTES)
        kind = "string" if is_text else "word"
        options.append(Option("default", OptionValue(kind, source.default_value)))
    if source.HasField("json_name"):
        options.append(Option("json_name", OptionValue("string", source.json_name)))
    if entry is not None:
        key, value = (_type_name(field) for field in entry.field)
        return Field(source.name, source.number, MapType(key, value), "", tuple(options))
    label = {2: "required", 3: "repeated"}.get(source.label, "")
    if not label and (syntax == "proto2" or source.proto3_optional):
        label = "optional"
    return Field(source.name, source.number, _type_name(source), label, tuple(options))


def _type_name(source: Any) -> str:
    return source.type_name or source.Type.Name(source.type).removeprefix("TYPE_").lower()


def _decoded_enum(descriptor: Any) -> EnumType:
    constants = (
        EnumConstant(value.name, value.number, _decoded_options(value.options))
        for value in descriptor.value
    )
    reserved: list[Reserved] = []
    if descriptor.reserved_range:
        numbers = (Range(r.start, r.end) for r in descriptor.reserved_range)
        reserved.append(Reserved(tuple(numbers)))
    if descriptor.reserved_name:
        reserved.append(Reserved(tuple(descriptor.reserved_name)))
    return EnumType(
        descriptor.name, tuple(constants), _decoded_options(descriptor.options), tuple(reserved)
    )


def _decoded_extends(extensions: Iterable[Any], syntax: str) -> Iterator[Extend]:
    by_name: dict[str, list[Field]] = {}
    for extension in extensions:
        by_name.setdefault(extension.extendee, []).append(_decoded_field(extension, syntax, {}))
    for name, fields in by_name.items():
        yield Extend(name, tuple(fields))


def _decoded_service(descriptor: Any) -> Service:
    rpcs = (
        Rpc(
            method.name,
            method.input_type,
            method.output_type,
            method.client_streaming,
            method.server_streaming,
            _decoded_options(method.options),
        )
        for method in descriptor.method
    )
    return Service(descriptor.name, tuple(rpcs), _decoded_options(descriptor.options))


def _decoded_options(options: Any) -> tuple[Option, ...]:
    found: list[Option] = []
    for field, value in options.ListFields():
        if field.is_extension or field.message_type is not None or field.name == "map_entry":
            continue
        if field.enum_type is not None and isinstance(value, int):
            value = field.enum_type.values_by_number[value].name
            found.append(Option(field.name, OptionValue("word", value)))
        elif isinstance(value, str):
            found.append(Option(field.name, OptionValue("string", value)))
        elif isinstance(value, bool | int):
            found.append(Option(field.name, OptionValue("word", str(value).lower())))
    return tuple(found)

"""Protobuf schemas as descriptors: from the registry's text, with references, to message types.

The registry's own parser reads the text. Descriptors leave out custom options, so the parameters
that Confluent's converters keep in `confluent.field_meta` are read from the parsed text.
"""

import base64
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, Final

import attrs

from barnabas.pipeline.data.connect_errors import DataError
from barnabas.registry.formats.protobuf.proto_descriptor import (
    descriptor_text,
    file_of_descriptor,
)
from barnabas.registry.formats.protobuf.proto_names import WELL_KNOWN_TYPES, names_of
from barnabas.registry.formats.protobuf.proto_parser import parse_proto
from barnabas.registry.formats.protobuf.proto_types import Field, Message, OptionValue, ProtoFile
from barnabas.registry.formats.schema_format import SchemaError

META_PATH: Final = "confluent/meta.proto"
META_OPTION: Final = "(confluent.field_meta)"
WRAPPERS_PATH: Final = "google/protobuf/wrappers.proto"

# Files that schemas import and that the library of Protobuf does not have.
_OWN_FILES: Final = {
    META_PATH: (
        'syntax = "proto3"; package confluent; message Meta { string doc = 1; '
        "map<string, string> params = 2; repeated string tags = 3; }"
    ),
    "confluent/type/decimal.proto": (
        'syntax = "proto3"; package confluent.type; message Decimal { bytes value = 1; '
        "uint32 precision = 2; int32 scale = 3; }"
    ),
    "google/type/date.proto": (
        'syntax = "proto3"; package google.type; message Date { int32 year = 1; int32 month = 2; '
        "int32 day = 3; }"
    ),
    "google/type/timeofday.proto": (
        'syntax = "proto3"; package google.type; message TimeOfDay { int32 hours = 1; '
        "int32 minutes = 2; int32 seconds = 3; int32 nanos = 4; }"
    ),
}


@attrs.frozen
class ProtobufTypes:
    """The message types of one schema."""

    tree: ProtoFile
    pool: Any
    """The library's pool with the schema and all that it imports."""
    params: Mapping[str, Mapping[str, str]]
    """The parameters of fields in `confluent.field_meta`, by the field's full name."""

    def name_at(self, path: Sequence[int]) -> str:
        """Return the full name of the message at a path of indexes. Raises DataError."""
        messages, scope = self.tree.messages, self.tree.package
        for index in path:
            if not 0 <= index < len(messages):
                raise DataError(f"the schema has no message at {list(path)}")
            scope = f"{scope}.{messages[index].name}" if scope else messages[index].name
            messages = messages[index].messages
        return scope

    def path_of(self, name: str) -> list[int]:
        """Return the path of indexes of a message by its full name. Raises DataError."""
        paths = {self.name_at(path): path for path in _paths(self.tree.messages)}
        if name not in paths:
            shown = ", ".join(paths) or "none"
            raise DataError(f"the schema has no message {name}; its messages: {shown}")
        return paths[name]

    def descriptor(self, name: str) -> Any:
        """Return the descriptor of a message. Raises DataError."""
        try:
            return self.pool.FindMessageTypeByName(name)
        except KeyError:
            raise DataError(f"the schema has no message {name}") from None


def _paths(messages: Sequence[Message]) -> Iterator[list[int]]:
    for index, message in enumerate(messages):
        yield [index]
        yield from ([index, *inner] for inner in _paths(message.messages))


def types_of_text(text: str, references: Sequence[tuple[str, str]] = ()) -> ProtobufTypes:
    """Return the types of a schema and of its references (name, text). Raises DataError."""
    try:
        return types_of_tree(_tree(text), {name: _tree(other) for name, other in references})
    except SchemaError as error:
        raise DataError(f"the Protobuf schema cannot be used: {error}") from error


def types_of_tree(
    tree: ProtoFile, references: Mapping[str, ProtoFile] | None = None
) -> ProtobufTypes:
    """Return the types of a parsed schema. Raises DataError, SchemaError."""
    builder = _PoolBuilder(references or {})
    builder.add("default", tree)
    params: dict[str, Mapping[str, str]] = {}
    for file in (*builder.references.values(), tree):
        for message in file.messages:
            params.update(_params_of_fields(message, file.package))
    return ProtobufTypes(tree, builder.pool, params)


def _tree(text: str) -> ProtoFile:
    try:
        return parse_proto(text)
    except SchemaError:
        file = file_of_descriptor(text)
        if file is None:
            raise
        return file


class _PoolBuilder:
    """Adds files to a pool, each after its imports."""

    def __init__(self, references: Mapping[str, ProtoFile]) -> None:
        self.references = references
        descriptor_pool: Any = import_module("google.protobuf.descriptor_pool")
        self._messages: Any = import_module("google.protobuf.descriptor_pb2")
        self.pool: Any = descriptor_pool.DescriptorPool()
        self._known: set[str] = set()

    def add(self, path: str, tree: ProtoFile) -> None:
        """Add a parsed file under a path. Raises DataError."""
        self._known.add(path)
        for message in tree.messages:
            _refuse_groups(message)
        for imported in tree.imports:
            self._import(imported.path)
        text = descriptor_text(tree, names_of(tree, self.references))
        file = self._messages.FileDescriptorProto.FromString(base64.b64decode(text))
        self._add(path, file)

    def _add(self, path: str, file: Any) -> None:
        file.name = path
        try:
            self.pool.Add(file)
        except TypeError as error:
            raise DataError(f"the Protobuf schema cannot be used: {error}") from error

    def _import(self, path: str) -> None:
        if path in self._known:
            return
        if path in self.references:
            self.add(path, self.references[path])
        elif path in _OWN_FILES:
            self.add(path, parse_proto(_OWN_FILES[path]))
        else:
            self._known.add(path)
            self._add(path, self._of_library(path))

    def _of_library(self, path: str) -> Any:
        """Return a file of Protobuf's own, whose imports are added. Raises DataError."""
        if path not in WELL_KNOWN_TYPES:
            raise DataError(f"the schema imports {path}, which is not a reference of it")
        module = path.removesuffix(".proto").replace("/", ".") + "_pb2"
        try:
            found: Any = import_module(module).DESCRIPTOR
        except (ImportError, AttributeError):
            raise DataError(
                f"the schema imports {path}, which is missing here: "
                "pip install googleapis-common-protos"
            ) from None
        file = self._messages.FileDescriptorProto()
        found.CopyToProto(file)
        for dependency in file.dependency:
            self._import(dependency)
        return file


def _refuse_groups(message: Message) -> None:
    if message.groups:
        raise DataError(f"the message {message.name} has a group, which is not supported")
    for nested in message.messages:
        _refuse_groups(nested)


def _params_of_fields(message: Message, scope: str) -> Iterator[tuple[str, Mapping[str, str]]]:
    full = f"{scope}.{message.name}" if scope else message.name
    for field in (*message.fields, *(each for oneof in message.oneofs for each in oneof.fields)):
        if params := _params_of(field):
            yield f"{full}.{field.name}", params
    for nested in message.messages:
        yield from _params_of_fields(nested, full)


def _params_of(field: Field) -> dict[str, str]:
    """Return the parameters in the options of a field."""
    found: dict[str, str] = {}
    for option in field.options:
        if option.name == f"{META_OPTION}.params":
            _collect(option.value, found)
        elif option.name == META_OPTION:
            for name, value in option.value.entries:
                if name == "params":
                    _collect(value, found)
    return found


def _collect(value: OptionValue, found: dict[str, str]) -> None:
    for entry in value.items if value.kind == "list" else (value,):
        pair = dict(entry.entries)
        if "key" in pair and "value" in pair:
            found[pair["key"].text] = pair["value"].text

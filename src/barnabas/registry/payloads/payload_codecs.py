"""Codecs of values: JSON values to bytes of a schema and back.

Logical types are shown as the numbers and texts that carry them; bytes of Avro as text of one
character a byte, as Avro's JSON does.
"""

import io
import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from importlib import import_module
from typing import Any, cast

import attrs

from barnabas.registry.payloads.wire_framing import decode_indexes, encode_indexes


class PayloadError(ValueError):
    """A value does not fit its schema."""


class PayloadLibraryError(PayloadError):
    """The library of a schema type is not installed."""


@attrs.frozen
class PayloadSchema:
    """A schema as a codec needs it. References are (name, text), dependencies first.

    Texts of Protobuf are serialized descriptors in base64.
    """

    schema_type: str
    text: str
    references: tuple[tuple[str, str], ...] = ()


class PayloadCodec(ABC):
    """Encodes and decodes values of one schema."""

    @abstractmethod
    def decode(self, data: bytes) -> Any:
        """Return the JSON value of the data. Raises PayloadError."""

    @abstractmethod
    def encode(self, value: Any) -> bytes:
        """Return the data of a JSON value. Raises PayloadError."""

    @abstractmethod
    def decode_written(self, data: bytes, writer: "PayloadCodec") -> Any:
        """Return the JSON value that this schema reads from data of another one.

        Raises PayloadError when it cannot be read.
        """


def codec_of(schema: PayloadSchema, message: str | None = None) -> PayloadCodec:
    """Return the codec of a schema; `message` names the message of a Protobuf schema."""
    try:
        match schema.schema_type:
            case "AVRO":
                return AvroCodec(schema)
            case "JSON":
                return JsonSchemaCodec(schema)
            case "PROTOBUF":
                return ProtobufCodec(schema, message)
            case other:
                raise PayloadError(f"unknown schema type {other}")
    except PayloadError:
        raise
    except ImportError as error:
        missing = f"{error.name} is missing: pip install 'barnabas[registry]'"
        raise PayloadLibraryError(missing) from None
    except Exception as error:  # the libraries have no common type of their errors
        raise PayloadError(f"the schema cannot be used: {_reason(error)}") from None


class AvroCodec(PayloadCodec):
    """Avro's binary encoding."""

    def __init__(self, schema: PayloadSchema) -> None:
        from fastavro.schema import parse_schema

        self._named: dict[str, Any] = {}
        for _, text in schema.references:
            parse_schema(_without_logical_types(json.loads(text)), named_schemas=self._named)
        written = _without_logical_types(json.loads(schema.text))
        self._schema: Any = parse_schema(written, named_schemas=self._named)

    def decode(self, data: bytes) -> Any:
        """Return the JSON value of the data. Raises PayloadError."""
        return self.decode_written(data, self)

    def decode_written(self, data: bytes, writer: PayloadCodec) -> Any:
        """Return what this schema reads from data of another one. Raises PayloadError."""
        from fastavro import (
            schemaless_reader,  # pyright: ignore[reportUnknownVariableType]
        )

        if not isinstance(writer, AvroCodec):
            raise PayloadError("the value was not written with an Avro schema")
        try:
            stream = io.BytesIO(data)
            reader = None if writer is self else self._schema
            found = schemaless_reader(stream, writer._schema, reader)
        except Exception as error:  # fastavro has no common type of its errors
            raise PayloadError(f"the data does not match the schema: {_reason(error)}") from None
        if stream.read(1):
            raise PayloadError("there are bytes after the value")
        return _as_json(found)

    def encode(self, value: Any) -> bytes:
        """Return the data of a JSON value. Raises PayloadError."""
        from fastavro import (
            schemaless_writer,  # pyright: ignore[reportUnknownVariableType]
        )

        stream = io.BytesIO()
        try:
            schemaless_writer(stream, self._schema, self._prepared(value, self._schema))
        except Exception as error:  # fastavro has no common type of its errors
            raise PayloadError(f"the value does not match the schema: {_reason(error)}") from None
        return stream.getvalue()

    def _prepared(self, value: Any, schema: Any) -> Any:
        """Return a value with bytes where the schema has bytes."""
        if isinstance(schema, list):
            return self._of_union(value, cast("list[Any]", schema))
        if not isinstance(schema, dict):
            if schema == "bytes" and isinstance(value, str):
                return value.encode("latin-1")
            named = self._named.get(schema)
            return value if named is None else self._prepared(value, named)
        described = cast("dict[str, Any]", schema)
        match described["type"]:
            case "bytes" | "fixed":
                return value.encode("latin-1") if isinstance(value, str) else value
            case "record" if isinstance(value, dict):
                given = cast("dict[str, Any]", value)
                fields: list[dict[str, Any]] = described["fields"]
                types = {field["name"]: field["type"] for field in fields}
                return {
                    name: self._prepared(each, types[name])
                    for name, each in given.items()
                    if name in types
                }
            case "array" if isinstance(value, list):
                items = cast("list[Any]", value)
                return [self._prepared(item, described["items"]) for item in items]
            case "map" if isinstance(value, dict):
                entries = cast("dict[str, Any]", value)
                values = described["values"]
                return {key: self._prepared(each, values) for key, each in entries.items()}
            case "record" | "array" | "map" | "enum":
                return value
            case other:
                return self._prepared(value, other)

    def _of_union(self, value: Any, branches: list[Any]) -> Any:
        """Return a value with its branch where Avro's JSON encoding names it: `{"string": "a"}`.

        Any other value takes the first branch that it fits.
        """
        for tag, branch in self._tagged(value, branches):
            prepared = self._prepared(value[tag], branch)
            if self._fits(prepared, branch):
                return (tag, prepared)
        for branch in branches:
            prepared = self._prepared(value, branch)
            if self._fits(prepared, branch):
                return prepared
        raise PayloadError(f"{value!r} fits no branch of the union")

    def _tagged(self, value: Any, branches: list[Any]) -> list[tuple[str, Any]]:
        """Return the branch that a value names as the only key of an object, if it does."""
        if not isinstance(value, dict):
            return []
        keys = list(cast("dict[str, Any]", value))
        return [(keys[0], each) for each in branches if keys == [_branch_name(each)]]

    def _fits(self, prepared: Any, branch: Any) -> bool:
        """True when a value can be written as a branch."""
        from fastavro.validation import validate

        known = self._named.get(branch, branch) if isinstance(branch, str) else branch
        return validate(prepared, known, raise_errors=False)


def _branch_name(branch: Any) -> str:
    """Return the name that Avro's JSON encoding gives a branch: a full name, or the type's."""
    if not isinstance(branch, dict):
        return str(branch)
    described = cast("dict[str, Any]", branch)
    return str(described.get("name", described["type"]))


def _without_logical_types(schema: Any) -> Any:
    if isinstance(schema, dict):
        fields = cast("dict[str, Any]", schema)
        return {
            key: value if key in ("default", "doc") else _without_logical_types(value)
            for key, value in fields.items()
            if key != "logicalType"
        }
    if isinstance(schema, list):
        return [_without_logical_types(item) for item in cast("list[Any]", schema)]
    return schema


def _as_json(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, dict):
        return {key: _as_json(item) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_as_json(item) for item in cast("list[Any]", value)]
    return value


class JsonSchemaCodec(PayloadCodec):
    """JSON, checked against the schema."""

    def __init__(self, schema: PayloadSchema) -> None:
        from jsonschema.validators import validator_for
        from referencing import Registry, Resource
        from referencing.jsonschema import DRAFT7

        document: Any = json.loads(schema.text)
        resources = [
            (name, Resource.from_contents(json.loads(text), default_specification=DRAFT7))
            for name, text in schema.references
        ]
        registry: Any = cast(Any, Registry)().with_resources(resources)
        validator: Any = validator_for(document)
        self._validator: Any = validator(document, registry=registry)

    def decode(self, data: bytes) -> Any:
        """Return the JSON value of the data. Raises PayloadError."""
        try:
            value: Any = json.loads(data)
        except ValueError as error:
            raise PayloadError(f"the value is not JSON: {error}") from None
        self._check(value)
        return value

    def decode_written(self, data: bytes, writer: PayloadCodec) -> Any:
        """Return the JSON value, checked against this schema. Raises PayloadError."""
        return self.decode(data)

    def encode(self, value: Any) -> bytes:
        """Return the data of a JSON value. Raises PayloadError."""
        self._check(value)
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()

    def _check(self, value: Any) -> None:
        for error in self._validator.iter_errors(value):
            raise PayloadError(f"{error.message} (at {error.json_path})")


class ProtobufCodec(PayloadCodec):
    """Protobuf's encoding with the path of the message before it; JSON by Protobuf's mapping."""

    def __init__(self, schema: PayloadSchema, message: str | None) -> None:
        import base64

        from google.protobuf import descriptor_pb2, descriptor_pool

        self._pool = descriptor_pool.DescriptorPool()
        self._known: set[str] = set()
        for name, text in (*schema.references, ("default", schema.text)):
            file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text))
            file.name = name
            for dependency in file.dependency:
                self._add_well_known(dependency)
            self._pool.Add(file)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
            self._known.add(name)
        self._file: Any = self._pool.FindFileByName("default")
        self._path = self._path_of(message)

    def _add_well_known(self, name: str) -> None:
        """Add a file of Protobuf's own, with what it imports."""
        from google.protobuf import descriptor_pb2

        if name in self._known:
            return
        module = name.removesuffix(".proto").replace("/", ".") + "_pb2"
        try:
            found: Any = import_module(module).DESCRIPTOR
        except (ImportError, AttributeError):
            raise PayloadError(f"the schema imports {name}, which is not known here") from None
        file = descriptor_pb2.FileDescriptorProto()
        found.CopyToProto(file)
        for dependency in file.dependency:
            self._add_well_known(dependency)
        self._pool.Add(file)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
        self._known.add(name)

    def _path_of(self, message: str | None) -> tuple[int, ...]:
        if message is None:
            return (0,)
        pool: Any = self._pool
        try:
            descriptor: Any = pool.FindMessageTypeByName(message)
        except KeyError:
            raise PayloadError(f"the schema has no message {message}") from None
        path: list[int] = []
        while descriptor is not None:
            outer = descriptor.containing_type
            path.append(self._siblings(outer).index(descriptor.full_name))
            descriptor = outer
        return tuple(reversed(path))

    def _siblings(self, outer: Any) -> list[str]:
        """Return the full names of the messages of a message, or of the file."""
        found: Any = (
            self._file.message_types_by_name.values() if outer is None else outer.nested_types
        )
        return [each.full_name for each in found]

    def _class(self, path: Sequence[int]) -> Any:
        from google.protobuf.message_factory import GetMessageClass

        found: Any = list(self._file.message_types_by_name.values())
        descriptor: Any = None
        for index in path:
            if not 0 <= index < len(found):
                raise PayloadError(f"the schema has no message at {list(path)}")
            descriptor = found[index]
            found = list(descriptor.nested_types)
        return GetMessageClass(descriptor)

    def decode(self, data: bytes) -> Any:
        """Return the JSON value of the data. Raises PayloadError."""
        return self.decode_written(data, self)

    def decode_written(self, data: bytes, writer: PayloadCodec) -> Any:
        """Return the JSON value that this schema reads. Raises PayloadError."""
        from google.protobuf.json_format import MessageToDict

        try:
            path, content = decode_indexes(data)
            message = self._class(path)()
            message.ParseFromString(content)
            return MessageToDict(message, preserving_proto_field_name=True)
        except PayloadError:
            raise
        except Exception as error:  # protobuf has no common type of its errors
            raise PayloadError(f"the data does not match the schema: {_reason(error)}") from None

    def encode(self, value: Any) -> bytes:
        """Return the data of a JSON value. Raises PayloadError."""
        from google.protobuf.json_format import ParseDict

        try:
            message = self._class(self._path)()
            ParseDict(value, message)
        except PayloadError:
            raise
        except Exception as error:  # protobuf has no common type of its errors
            raise PayloadError(f"the value does not match the schema: {_reason(error)}") from None
        return encode_indexes(self._path) + message.SerializeToString()


def _reason(error: Exception) -> str:
    """Return a library's error as text; some of them have only a type."""
    return str(error) or type(error).__name__

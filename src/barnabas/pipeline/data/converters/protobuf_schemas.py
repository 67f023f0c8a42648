"""Protobuf's message types as Connect's schemas.

A field keeps its number in the parameter `io.confluent.connect.protobuf.Tag`, an integer of an
unusual type its name in `.Type`, an enum its symbols in `.Enum.SYMBOL`. A oneof is a struct whose
fields are the members, of which one is set. A message within itself has no schema in Connect.
"""

from collections.abc import Mapping
from typing import Any, Final

import attrs

from barnabas.pipeline.data.connect_errors import DataError
from barnabas.pipeline.data.connect_schema import (
    DATE,
    TIME,
    TIMESTAMP,
    Schema,
    Type,
    array_schema,
    decimal_schema,
    map_schema,
    struct_schema,
)
from barnabas.pipeline.data.converters.protobuf_files import ProtobufTypes

NAMESPACE: Final = "io.confluent.connect.protobuf"
ENUM: Final = f"{NAMESPACE}.Enum"
UNION_PREFIX: Final = f"{NAMESPACE}.Union."
TAG: Final = f"{NAMESPACE}.Tag"
TYPE: Final = f"{NAMESPACE}.Type"
PRECISION: Final = "connect.decimal.precision"
CONNECT_TYPE: Final = "connect.type"
ENTRY: Final = "Entry"

DECIMAL_TYPE: Final = "confluent.type.Decimal"
DATE_TYPE: Final = "google.type.Date"
TIME_TYPE: Final = "google.type.TimeOfDay"
TIMESTAMP_TYPE: Final = "google.protobuf.Timestamp"
LOGICAL_TYPES: Final[Mapping[str, Schema]] = {
    DATE_TYPE: DATE,
    TIME_TYPE: TIME,
    TIMESTAMP_TYPE: TIMESTAMP,
}
WRAPPED: Final[Mapping[str, Type]] = {
    "google.protobuf.DoubleValue": Type.FLOAT64,
    "google.protobuf.FloatValue": Type.FLOAT32,
    "google.protobuf.Int64Value": Type.INT64,
    "google.protobuf.UInt64Value": Type.INT64,
    "google.protobuf.Int32Value": Type.INT32,
    "google.protobuf.UInt32Value": Type.INT64,
    "google.protobuf.BoolValue": Type.BOOLEAN,
    "google.protobuf.StringValue": Type.STRING,
    "google.protobuf.BytesValue": Type.BYTES,
}
SCALARS: Final[Mapping[str, Type]] = {
    "int32": Type.INT32,
    "sint32": Type.INT32,
    "sfixed32": Type.INT32,
    "uint32": Type.INT64,
    "fixed32": Type.INT64,
    "int64": Type.INT64,
    "sint64": Type.INT64,
    "uint64": Type.INT64,
    "fixed64": Type.INT64,
    "sfixed64": Type.INT64,
    "float": Type.FLOAT32,
    "double": Type.FLOAT64,
    "bool": Type.BOOLEAN,
    "string": Type.STRING,
    "bytes": Type.BYTES,
}
NARROW: Final = {"int8": Type.INT8, "int16": Type.INT16}


@attrs.frozen
class ProtobufStyle:
    """The properties of the converter that change schemas."""

    keeps_packages: bool = False
    scrubs_names: bool = False
    has_int_enums: bool = False
    uses_optional: bool = False
    optional_in_proto2: bool = True
    uses_wrappers: bool = False
    unwraps_root: bool = True
    numbers_unions: bool = True


@attrs.frozen
class FieldShape:
    """A field of a message: what its schema and its values depend on."""

    name: str
    number: int
    kind: str
    """The name of a scalar, `enum` or `message`."""
    type_name: str
    """The full name of an enum or a message."""
    is_repeated: bool
    has_keyword: bool
    """True when the field is marked `optional`, so that null differs from the type's zero."""
    is_proto3_optional: bool
    oneof: int | None


@attrs.frozen
class MessageShape:
    """A message type as its fields and its oneofs."""

    full_name: str
    fields: tuple[FieldShape, ...]
    oneofs: tuple[str, ...]

    @property
    def name(self) -> str:
        """Return the name without the package."""
        return self.full_name.rpartition(".")[2]

    @property
    def is_entry(self) -> bool:
        """True when a repeated field of this type is a map."""
        return (
            self.name.endswith(ENTRY)
            and [field.name for field in self.fields] == ["key", "value"]
            and not any(field.is_repeated for field in self.fields)
        )


def shape_of(descriptor: Any) -> MessageShape:
    """Return the shape of a descriptor of the library."""
    from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto

    proto: Any = DescriptorProto()
    descriptor.CopyToProto(proto)
    file: Any = FileDescriptorProto()
    descriptor.file.CopyToProto(file)
    fields: list[FieldShape] = []
    for each in proto.field:
        is_in_oneof = each.HasField("oneof_index") and not each.proto3_optional
        is_optional = file.syntax != "proto3" and each.label == each.LABEL_OPTIONAL
        fields.append(
            FieldShape(
                each.name,
                each.number,
                each.Type.Name(each.type).removeprefix("TYPE_").lower(),
                each.type_name.removeprefix("."),
                each.label == each.LABEL_REPEATED,
                bool(each.proto3_optional) or (is_optional and not is_in_oneof),
                bool(each.proto3_optional),
                each.oneof_index if is_in_oneof else None,
            )
        )
    used = {field.oneof for field in fields}
    names = [each.name for index, each in enumerate(proto.oneof_decl) if index in used]
    return MessageShape(descriptor.full_name, tuple(fields), tuple(names))


def union_name(shape: MessageShape, index: int, style: ProtobufStyle) -> str:
    """Return the name of the field that holds a oneof."""
    name = shape.oneofs[index]
    return f"{name}_{index}" if style.numbers_unions else name


class SchemaReader:
    """Makes Connect's schemas of the message types of one registered schema."""

    def __init__(self, types: ProtobufTypes, style: ProtobufStyle) -> None:
        self._types = types
        self._style = style

    def root(self, name: str) -> Schema:
        """Return the schema of a message. Raises DataError."""
        if self._style.unwraps_root and name in WRAPPED:
            return Schema(WRAPPED[name])
        return self._message(name, ())

    def _message(self, name: str, outer: tuple[str, ...]) -> Schema:
        if name in outer:
            raise DataError(f"the message {name} contains itself, which Connect cannot express")
        shape = shape_of(self._types.descriptor(name))
        inside = (*outer, name)
        fields = [
            (union_name(shape, index, self._style), self._union(shape, index, inside))
            for index in range(len(shape.oneofs))
        ]
        fields += [
            (field.name, self._field(shape, field, inside))
            for field in shape.fields
            if field.oneof is None
        ]
        return struct_schema(fields, name=self._name(name))

    def _name(self, full_name: str) -> str:
        return full_name if self._style.keeps_packages else full_name.rpartition(".")[2]

    def _union(self, shape: MessageShape, index: int, outer: tuple[str, ...]) -> Schema:
        name = shape.oneofs[index]
        shown = f"{shape.full_name}.{name}" if self._style.keeps_packages else name
        members = [
            (field.name, attrs.evolve(self._field(shape, field, outer), optional=True))
            for field in shape.fields
            if field.oneof == index
        ]
        return struct_schema(members, name=UNION_PREFIX + shown, optional=True)

    def _field(self, shape: MessageShape, field: FieldShape, outer: tuple[str, ...]) -> Schema:
        schema = self._single(shape, field, outer)
        if field.is_repeated and schema.type is not Type.MAP:
            schema = array_schema(attrs.evolve(schema, optional=True), optional=True)
        style = self._style
        if field.has_keyword if style.uses_optional else not style.uses_wrappers:
            schema = attrs.evolve(schema, optional=True)
        parameters = {**(schema.parameters or {}), TAG: str(field.number)}
        return attrs.evolve(schema, parameters=parameters)

    def _single(self, shape: MessageShape, field: FieldShape, outer: tuple[str, ...]) -> Schema:
        """Return the schema of one value of a field."""
        params = self._types.params.get(f"{shape.full_name}.{field.name}", {})
        if field.kind == "enum":
            return self._enum(field.type_name)
        if field.kind == "message":
            return attrs.evolve(self._of_message(field, params, outer), optional=True)
        kind = SCALARS.get(field.kind)
        if kind is None:
            raise DataError(f"the field {field.name} is a {field.kind}, which is not supported")
        if kind is Type.INT32 and params.get(CONNECT_TYPE) in NARROW:
            return Schema(NARROW[params[CONNECT_TYPE]])
        is_usual = kind not in (Type.INT32, Type.INT64) or field.kind in ("int32", "int64")
        return Schema(kind, parameters=None if is_usual else {TYPE: field.kind})

    def _enum(self, full_name: str) -> Schema:
        descriptor = self._types.pool.FindEnumTypeByName(full_name)
        symbols = {f"{ENUM}.{each.name}": str(each.number) for each in descriptor.values}
        return Schema(
            Type.INT32 if self._style.has_int_enums else Type.STRING,
            optional=True,
            name=self._name(full_name),
            parameters={ENUM: str(descriptor.name), **symbols},
        )

    def _of_message(
        self, field: FieldShape, params: Mapping[str, str], outer: tuple[str, ...]
    ) -> Schema:
        name = field.type_name
        if name == DECIMAL_TYPE:
            return _decimal(params)
        if name in LOGICAL_TYPES:
            return LOGICAL_TYPES[name]
        if field.is_repeated:
            entry = shape_of(self._types.descriptor(name))
            if entry.is_entry:
                return self._map(entry, outer)
        if self._style.uses_wrappers and name in WRAPPED:
            return Schema(WRAPPED[name])
        return self._message(name, outer)

    def _map(self, entry: MessageShape, outer: tuple[str, ...]) -> Schema:
        keys, values = (self._field(entry, field, outer) for field in entry.fields)
        package, _, name = entry.full_name.rpartition(".")
        shown = _map_field(name)
        full = f"{package}.{shown}" if self._style.keeps_packages and package else shown
        return attrs.evolve(map_schema(keys, values), name=full)


def _decimal(params: Mapping[str, str]) -> Schema:
    scale, precision = params.get("scale", "0"), params.get("precision", "")
    schema = decimal_schema(int(scale) if scale.lstrip("-").isdecimal() else 0)
    if not precision.isdecimal():
        return schema
    return attrs.evolve(schema, parameters={**(schema.parameters or {}), PRECISION: precision})


def _map_field(entry: str) -> str:
    """Return the name of a map's field from the name of its entries' type."""
    name = entry.removesuffix(ENTRY)
    split = "".join(f"_{each.lower()}" if each.isupper() else each for each in name)
    return split.removeprefix("_")

"""Protobuf with a schema registry.

After the id of the schema come the path of the message in its file and the message. Types of
Protobuf are columns by the rules of Connect's converter: a oneof is a struct whose fields are its
members, of which one is set; messages of Protobuf's wrappers are the values in them.
"""

import functools
from collections.abc import Callable
from typing import Any, Final

import attrs

from barnabas.pipeline.data.connect_errors import DataError
from barnabas.pipeline.data.connect_schema import Schema, Type
from barnabas.pipeline.data.converters.protobuf_files import ProtobufTypes, types_of_text
from barnabas.pipeline.data.converters.protobuf_schemas import ProtobufStyle, SchemaReader
from barnabas.pipeline.data.converters.protobuf_values import ValueReader, ValueWriter
from barnabas.pipeline.data.registered_schemas import RegisteredSchema
from barnabas.pipeline.delivery.rows.spark_columns import (
    ROWS,
    Convert,
    SparkType,
    fitting,
    spark_type,
)
from barnabas.pipeline.streams.registry_serdes import (
    RegistrySchemaError,
    RegistrySerde,
    SubjectSerde,
    column_type,
)
from barnabas.pipeline.streams.row_values import of_row
from barnabas.pipeline.streams.serdes import DataType, SerdeContext
from barnabas.registry.payloads.wire_framing import decode_indexes, encode_indexes

_STYLE: Final = ProtobufStyle(uses_wrappers=True, numbers_unions=False)


@attrs.frozen
class Protobuf(RegistrySerde):
    """Protobuf; `message` is the full name of the message, by default the first of its file.

    Records of other schemas are read by the numbers of their fields. Another message does not
    decode. With `bare=True` a record is the message without the id of its schema: no registry is
    used, and `schema` has the text.
    """

    message: str | None = None
    bare: bool = attrs.field(default=False, kw_only=True)
    schema_type = "PROTOBUF"

    def prepared(self, context: SerdeContext) -> SubjectSerde:
        """Return the serde of the subject's newest schema, or of the text. Raises as that does."""
        if not self.bare:
            return super().prepared(context)
        if self.schema is None:
            raise RegistrySchemaError("Protobuf(bare=True) needs schema=, the text of its schema")
        schema = RegisteredSchema(self.schema_type, self.schema)
        return BareProtobuf("", f"{context.topic}-{context.side}", 0, schema, self.message)

    def of_subject(
        self, urls: str, subject: str, schema_id: int, schema: RegisteredSchema
    ) -> SubjectSerde:
        """Return the serde of one schema."""
        return SubjectProtobuf(urls, subject, schema_id, schema, self.message)


@attrs.frozen
class SubjectProtobuf(SubjectSerde):
    """Protobuf of one schema and one of its messages."""

    message: str | None
    description = "Protobuf of a schema in the registry"

    def data_type(self) -> DataType:
        """Return the type of values in Spark. Raises DataError."""
        return column_type(_form(self.schema, self.message).kind)

    def decoded(self, writer: RegisteredSchema, data: bytes) -> Any:
        """Return the value of data that a schema has written. Raises DataError."""
        form = _form(self.schema, self.message)
        path, content = decode_indexes(data)
        name = _types(writer).name_at(path)
        if name != form.name:
            raise DataError(f"it is a message {name}, not {form.name}")
        message = form.message_class()
        message.ParseFromString(content)
        return form.read(message)

    def encoded(self, value: Any) -> bytes:
        """Return the data of a value. Raises DataError, or what Protobuf raises."""
        form = _form(self.schema, self.message)
        return form.path + form.message_of(value).SerializeToString()


@attrs.frozen
class BareProtobuf(SubjectProtobuf):
    """Protobuf of one message, without the id of a schema before it."""

    description = "Protobuf of the schema"

    def load(self, data: bytes) -> Any:
        """Return the value of a message. Raises DataError, or what Protobuf raises."""
        form = _form(self.schema, self.message)
        message = form.message_class()
        message.ParseFromString(data)
        return form.read(message)

    def dump(self, value: Any) -> bytes:
        """Return the message of a value. Raises DataError, or what Protobuf raises."""
        content: bytes = _form(self.schema, self.message).message_of(value).SerializeToString()
        return content


@attrs.frozen(eq=False)
class _Form:
    """A message of a schema, compiled."""

    name: str
    path: bytes
    kind: SparkType
    message_class: Any
    read: Convert
    """Takes a message, returns what Spark takes."""
    message_of: Callable[[Any], Any]
    """Takes what Spark gives, returns a message."""


@functools.cache
def _types(schema: RegisteredSchema) -> ProtobufTypes:
    return types_of_text(schema.text, schema.references)


@functools.cache
def _form(schema: RegisteredSchema, message: str | None) -> _Form:
    """Return the compiled form of a schema's message. Raises DataError."""
    types = _types(schema)
    name = message or types.name_at([0])
    path = encode_indexes(types.path_of(name))
    connect = SchemaReader(types, _STYLE).root(name)
    kind = spark_type(connect)
    read, to_row = ValueReader(types, _STYLE).root(connect, name), fitting(kind, form=ROWS)
    message_class = ValueWriter(types, str).message_class(name)
    return _Form(
        name,
        path,
        kind,
        message_class,
        lambda found: to_row(read(found)),
        _writing(types, connect, name, message_class),
    )


def _writing(
    types: ProtobufTypes, connect: Schema, name: str, message_class: Any
) -> Callable[[Any], Any]:
    convert = of_row(connect)
    if connect.type is not Type.STRUCT:
        return lambda value: message_class(value=convert(value))
    fill = ValueWriter(types, str).struct(connect, name)

    def write(value: Any) -> Any:
        message = message_class()
        fill(message, convert(value))
        return message

    return write

"""The common parts of serdes with a schema registry: Avro, Protobuf and JSON Schema.

Data is a zero byte, the id of its schema in four bytes, and the encoding of the format. The columns
are those of the newest schema of the subject when the app starts: records of other schemas are read
with it.
"""

import contextlib
import functools
from collections.abc import Iterator
from typing import Any, ClassVar, Final

import attrs

from barnabas.pipeline.connect.registry_client import RegistryClient
from barnabas.pipeline.data.connect_errors import ConnectError, DataError
from barnabas.pipeline.data.registered_schemas import RegisteredSchema
from barnabas.pipeline.delivery.driver.spark_library import pyspark
from barnabas.pipeline.delivery.rows.spark_columns import SparkType
from barnabas.pipeline.streams.python_serdes import decoder, encoder
from barnabas.pipeline.streams.serdes import Column, DataType, Serde, SerdeContext, functions

_PREFIX_BYTES: Final = 5


class RegistrySchemaError(Exception):
    """A schema has no type in Spark, or the registry does not have it."""


@attrs.frozen
class SubjectSerde(Serde):
    """A format with one schema of a subject. Data of other schemas is read with it, too."""

    urls: str
    subject: str
    schema_id: int
    schema: RegisteredSchema

    def data_type(self) -> DataType:
        """Return the type of values in Spark. Raises RegistrySchemaError, DataError."""
        raise NotImplementedError

    def decoded(self, writer: RegisteredSchema, data: bytes) -> Any:
        """Return the value of data that a schema has written. Any exception is the reason."""
        raise NotImplementedError

    def encoded(self, value: Any) -> bytes:
        """Return the data of a value. Any exception is the reason."""
        raise NotImplementedError

    def parse(self, data: Column) -> Column:
        """Return a struct of the value and the reason when it does not decode."""
        types = pyspark("sql.types")
        fields = [("value", self.data_type()), ("error", types.StringType())]
        kind = types.StructType([types.StructField(*field) for field in fields])
        return functions().udf(decoder(self.load), kind)(data)

    def value(self, parsed: Column) -> Column:
        """Return the value of the struct."""
        return parsed["value"]

    def error(self, data: Column, parsed: Column) -> Column:
        """Return the reason."""
        return functions().concat(functions().lit(f"is not {self.description}: "), parsed["error"])

    def encode(self, value: Column) -> Column:
        """Return the data of a value."""
        name = f"{type(self).__name__.removeprefix('Subject')} of subject {self.subject}"
        return functions().udf(encoder(self.dump, name), "binary")(value)

    def load(self, data: bytes) -> Any:
        """Return the value of data. Raises DataError, RetriableError, or what a library raises."""
        if len(data) < _PREFIX_BYTES or data[0] != 0:
            raise DataError("it has no schema id")
        writer = registry_client(self.urls).schema_of(int.from_bytes(data[1:_PREFIX_BYTES], "big"))
        if writer.schema_type != self.schema.schema_type:
            raise DataError(f"its schema is one of {writer.schema_type}")
        return self.decoded(writer, data[_PREFIX_BYTES:])

    def dump(self, value: Any) -> bytes:
        """Return the data of a value. Raises DataError, or what a library raises."""
        return b"\x00" + self.schema_id.to_bytes(4, "big") + self.encoded(value)


@attrs.frozen
class RegistrySerde(Serde):
    """A format with a schema registry.

    `subject` is the schema's name in the registry, by default TOPIC-value or TOPIC-key. `registry`
    is the registry's address, by default the app's. To write, the subject must have a schema, or
    `schema` is the text of the one to register. `schema_id` is that of a registered schema to use
    instead of the subject's newest.
    """

    subject: str | None = None
    registry: str | None = None
    schema: str | None = None
    schema_id: int | None = attrs.field(default=None, kw_only=True)

    schema_type: ClassVar[str]
    """The type of its schemas in the registry."""

    def of_subject(
        self, urls: str, subject: str, schema_id: int, schema: RegisteredSchema
    ) -> SubjectSerde:
        """Return the serde of one schema. Raises RegistrySchemaError."""
        raise NotImplementedError

    def prepared(self, context: SerdeContext) -> SubjectSerde:
        """Return the serde of the subject's newest schema. Raises RegistrySchemaError."""
        urls, subject = self._place(context)
        if not urls:
            raise RegistrySchemaError(
                f"{type(self).__name__} for subject {subject} needs a registry: "
                "App(registry='http://...')"
            )
        try:
            schema_id, schema = self._schema(RegistryClient(urls), subject)
        except ConnectError as error:
            what = "" if self.schema_id is None else f" with the id {self.schema_id}"
            raise RegistrySchemaError(f"no schema of subject {subject}{what}: {error}") from error
        if schema.schema_type != self.schema_type:
            raise RegistrySchemaError(
                f"subject {subject} has a schema of {schema.schema_type}, not {self.schema_type}"
            )
        found = self.of_subject(urls, subject, schema_id, schema)
        try:
            found.data_type()
        except (DataError, RegistrySchemaError) as error:
            raise RegistrySchemaError(f"the schema of subject {subject}: {error}") from error
        return found

    def earlier(self, context: SerdeContext, newest: SubjectSerde) -> Iterator[SubjectSerde]:
        """Yield the serdes of the subject's other schemas, the newest first, without other types.

        Raises RegistrySchemaError.
        """
        urls, subject = self._place(context)
        try:
            for schema_id in RegistryClient(urls).ids_of_versions(subject):
                if schema_id == newest.schema_id:
                    continue
                with contextlib.suppress(RegistrySchemaError):
                    yield attrs.evolve(self, schema=None, schema_id=schema_id).prepared(context)
        except ConnectError as error:
            raise RegistrySchemaError(f"no versions of subject {subject}: {error}") from error

    def _place(self, context: SerdeContext) -> tuple[str, str]:
        """Return the registry's address and the name of the subject."""
        subject = self.subject or f"{context.topic}-{context.side}"
        return self.registry or context.registry, subject

    def _schema(self, client: RegistryClient, subject: str) -> tuple[int, RegisteredSchema]:
        """Return the subject's newest schema, or the given one, registered. Raises ConnectError."""
        if self.schema_id is not None:
            return self.schema_id, client.schema_of(self.schema_id)
        if self.schema is None:
            return client.latest(subject)
        schema = RegisteredSchema(self.schema_type, self.schema)
        return client.id_of(subject, schema, registers=True), schema


def column_type(kind: SparkType) -> DataType:
    """Return a type of Spark from its JSON form."""
    field = {"name": "value", "type": kind, "nullable": True, "metadata": {}}
    types = pyspark("sql.types")
    return types.StructType.fromJson({"type": "struct", "fields": [field]})["value"].dataType


@functools.cache
def registry_client(urls: str) -> RegistryClient:
    """Return the client of this worker process."""
    return RegistryClient(urls)

"""AVRO, PROTOBUF, PROTOBUF_NOSR and JSON_SR: columns by the serdes of streams with schemas."""

from __future__ import annotations

from typing import Any, ClassVar, Final

import attrs

from barnabas.pipeline.sql.catalog.source_values import Format, SourceColumn
from barnabas.pipeline.sql.functions.bounds import timestamp_of
from barnabas.pipeline.sql.functions.python_times import for_python
from barnabas.pipeline.sql.planning import registry_schemas
from barnabas.pipeline.sql.planning.column_structs import (
    each_of,
    each_value_of,
    struct_of,
    struct_type,
)
from barnabas.pipeline.sql.planning.fitting_schemas import fits
from barnabas.pipeline.sql.sql_failures import UnresolvedError
from barnabas.pipeline.sql.sql_types import SqlType, struct, to_spark
from barnabas.pipeline.streams.avro_serde import Avro
from barnabas.pipeline.streams.json_schema_serde import JsonSchema
from barnabas.pipeline.streams.protobuf_serde import Protobuf
from barnabas.pipeline.streams.registry_serdes import (
    RegistrySchemaError,
    RegistrySerde,
    SubjectSerde,
)
from barnabas.pipeline.streams.serdes import Column, DataType, Serde, SerdeContext, functions

BARE: Final = "PROTOBUF_NOSR"
"""Protobuf without the id of a schema, whose columns are its schema."""


@attrs.frozen
class RegistryColumns(Serde):
    """Columns of a format with a registry.

    Records are read by the newest schema of the subject that fits the columns, whose fields are
    columns by their names in any case; by the newest one where none fits. The schema of the columns
    is registered where there is none, and to write.
    """

    columns: tuple[SourceColumn, ...]
    form: Format
    writes: bool
    inner: Any = None
    description: ClassVar[str] = "data of a schema in the registry"

    def prepared(self, context: SerdeContext) -> Serde:
        """Return the serde with the subject's schema.

        Raises UnresolvedError without a registry, RegistrySchemaError.
        """
        own = serde_of(self.form, self._text())
        if self.form.name == BARE:
            return attrs.evolve(self, inner=own.prepared(context))
        if not context.registry:
            raise UnresolvedError(
                f"The format {self.form.name} needs a schema registry: name it with --registry, or "
                "to a runner with ksql.schema.registry.url"
            )
        if self.writes:
            return attrs.evolve(self, inner=own.prepared(context))
        try:
            found = self._reading(context)
        except RegistrySchemaError:
            found = own.prepared(context)
        return attrs.evolve(self, inner=found)

    def _reading(self, context: SerdeContext) -> Serde:
        """Return the serde of the schema that reads. Raises RegistrySchemaError."""
        newest = serde_of(self.form, None)
        found = newest.prepared(context)
        if self.form.schema_id is not None or self._fits(found):
            return found
        for each in newest.earlier(context, found):
            if self._fits(each):
                return each
        return found

    def _fits(self, found: SubjectSerde) -> bool:
        return fits(self.columns, found.data_type(), is_wrapped=self.form.is_wrapped)

    def _text(self) -> str:
        if self.form.name == "AVRO":
            return registry_schemas.avro_text(
                self.columns, is_wrapped=self.form.is_wrapped, name=self.form.full_name
            )
        if self.form.name.startswith("PROTOBUF"):
            return registry_schemas.protobuf_text(
                self.columns, self.form.full_name, self.form.nulls
            )
        return registry_schemas.json_text(self.columns, is_wrapped=self.form.is_wrapped)

    def parse(self, data: Column) -> Column:
        """Return what the serde of streams returns."""
        return self.inner.parse(data)

    def value(self, parsed: Column) -> Column:
        """Return the struct of the columns."""
        found, kind = self.inner.value(parsed), self.inner.data_type()
        if not self.form.is_wrapped:
            only = self.columns[0]
            parts = [(only.name, fitted(found, kind, only.type))]
        else:
            parts = [
                (each.name, _field(found, kind, each.name, each.type)) for each in self.columns
            ]
        return functions().when(found.isNotNull(), struct_of(parts))

    def error(self, data: Column, parsed: Column) -> Column | None:
        """Return the error of the serde of streams."""
        return self.inner.error(data, parsed)

    def encode(self, value: Column) -> Column:
        """Return the bytes of a struct."""
        named = value.cast(struct_type(self.columns))
        named = for_python(named, struct((each.name, each.type) for each in self.columns))
        if not self.form.is_wrapped:
            named = named.getField(self.columns[0].name)
        return self.inner.encode(named)


def serde_of(form: Format, text: str | None) -> RegistrySerde:
    """Return the serde of streams for a format; without a text it takes the subject's newest."""
    given = None if form.schema_id is not None else text
    if form.name == "AVRO":
        return Avro(schema=given, schema_id=form.schema_id)
    if form.name == "JSON_SR":
        return JsonSchema(schema=given, schema_id=form.schema_id)
    return Protobuf(
        schema=given,
        schema_id=form.schema_id,
        message=form.full_name,
        bare=form.name == BARE,
    )


def _field(found: Column, kind: DataType, name: str, wanted: SqlType) -> Column:
    """Return a field by its name, or by one in another case; null without one."""
    types: dict[str, DataType] = {each.name: each.dataType for each in getattr(kind, "fields", ())}
    same = [each for each in types if each == name]
    same += [each for each in types if each.upper() == name.upper()]
    if not same:
        return functions().lit(None).cast(to_spark(wanted))
    return fitted(found.getField(same[0]), types[same[0]], wanted)


def fitted(value: Column, kind: DataType, wanted: SqlType) -> Column:
    """Return a value of a type of Spark as one of SQL: fields by name, numbers as times."""
    f, name = functions(), type(kind).__name__
    if wanted.name == "STRUCT" and name == "StructType":
        parts = [(each, _field(value, kind, each, to)) for each, to in wanted.fields]
        return f.when(value.isNotNull(), struct_of(parts))
    if wanted.name == "ARRAY" and name == "ArrayType":
        return each_of(value, lambda each: fitted(each, kind.elementType, wanted.element))
    if wanted.name == "MAP" and name == "MapType":
        return each_value_of(value, lambda each: fitted(each, kind.valueType, wanted.element))
    if wanted.name == "TIMESTAMP" and name in ("IntegerType", "LongType"):
        return timestamp_of(value)
    if wanted.name == "DATE" and name == "IntegerType":
        return f.date_from_unix_date(value)
    return value.cast(to_spark(wanted))

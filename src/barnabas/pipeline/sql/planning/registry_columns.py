"""AVRO, PROTOBUF and JSON_SR: columns by the serdes of streams that use a schema registry."""

from __future__ import annotations

from typing import Any, ClassVar

import attrs

from barnabas.pipeline.sql.catalog.source_values import Format, SourceColumn
from barnabas.pipeline.sql.planning import registry_schemas
from barnabas.pipeline.sql.planning.column_structs import struct_of, struct_type
from barnabas.pipeline.sql.sql_failures import UnresolvedError
from barnabas.pipeline.sql.sql_types import to_spark
from barnabas.pipeline.streams.avro_serde import Avro
from barnabas.pipeline.streams.json_schema_serde import JsonSchema
from barnabas.pipeline.streams.protobuf_serde import Protobuf
from barnabas.pipeline.streams.registry_serdes import RegistrySchemaError, RegistrySerde
from barnabas.pipeline.streams.serdes import Column, Serde, SerdeContext, functions


@attrs.frozen
class RegistryColumns(Serde):
    """Columns of a format with a registry.

    Records are read by the newest schema of the subject, whose fields are columns by their names in
    any case. The schema of the columns is registered where there is none, and to write.
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
        if not context.registry:
            raise UnresolvedError(
                f"The format {self.form.name} needs a schema registry: name it with --registry"
            )
        own = self._serde(self._text())
        if self.writes:
            return attrs.evolve(self, inner=own.prepared(context))
        try:
            found = self._serde(None).prepared(context)
        except RegistrySchemaError:
            found = own.prepared(context)
        return attrs.evolve(self, inner=found)

    def _text(self) -> str:
        if self.form.name == "AVRO":
            return registry_schemas.avro_text(
                self.columns, is_wrapped=self.form.is_wrapped, name=self.form.full_name
            )
        if self.form.name == "PROTOBUF":
            return registry_schemas.protobuf_text(self.columns, self.form.full_name)
        return registry_schemas.json_text(self.columns, is_wrapped=self.form.is_wrapped)

    def _serde(self, text: str | None) -> RegistrySerde:
        if self.form.name == "AVRO":
            return Avro(schema=text)
        if self.form.name == "PROTOBUF":
            return Protobuf(schema=text, message=self.form.full_name)
        return JsonSchema(schema=text)

    def parse(self, data: Column) -> Column:
        """Return what the serde of streams returns."""
        return self.inner.parse(data)

    def value(self, parsed: Column) -> Column:
        """Return the struct of the columns."""
        found = self.inner.value(parsed)
        if not self.form.is_wrapped:
            only = self.columns[0]
            parts = [(only.name, found.cast(to_spark(only.type)))]
        else:
            parts = [(each.name, self._field(found, each)) for each in self.columns]
        return functions().when(found.isNotNull(), struct_of(parts))

    def _field(self, found: Column, column: SourceColumn) -> Column:
        """Return a field by its name, or by one in another case; null without one."""
        kind = self.inner.data_type()
        names: list[str] = list(kind.names) if hasattr(kind, "names") else []
        same = [each for each in names if each == column.name]
        same += [each for each in names if each.upper() == column.name.upper()]
        value = found.getField(same[0]) if same else functions().lit(None)
        return value.cast(to_spark(column.type))

    def error(self, data: Column, parsed: Column) -> Column | None:
        """Return the error of the serde of streams."""
        return self.inner.error(data, parsed)

    def encode(self, value: Column) -> Column:
        """Return the bytes of a struct."""
        named = value.cast(struct_type(self.columns))
        if not self.form.is_wrapped:
            named = named.getField(self.columns[0].name)
        return self.inner.encode(named)

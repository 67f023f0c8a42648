"""The serdes of sources: bytes to a struct of the columns, and back, for each format."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

import attrs

from barnabas.pipeline.sql.catalog.source_values import (
    WINDOW_BOUNDS,
    Format,
    Source,
    SourceColumn,
    SourceWindow,
)
from barnabas.pipeline.sql.planning import delimited_texts, json_texts
from barnabas.pipeline.sql.planning.column_structs import in_one, struct_of, struct_type
from barnabas.pipeline.sql.planning.registry_columns import RegistryColumns
from barnabas.pipeline.sql.sql_types import BIGINT, struct
from barnabas.pipeline.streams import serdes
from barnabas.pipeline.streams.serdes import Serde, SerdeContext, functions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.pipeline.streams.serdes import Column, Step

_WINDOW_BYTES: Final = 8
_KAFKA: Final[dict[str, type[Serde]]] = {
    "INTEGER": serdes.Integer,
    "BIGINT": serdes.Long,
    "DOUBLE": serdes.Double,
    "STRING": serdes.String,
    "BYTES": serdes.Bytes,
}


def key_serde(source: Source, *, with_window: bool, writes: bool = False) -> Serde:
    """Return the serde of a source's key; `with_window` for keys that have their window as columns.

    `writes` is for serdes that write.
    """
    inner = _serde(source.key_format, source.key, writes=writes)
    if source.window is None or not with_window:
        return inner
    return WindowedKey(inner, source.window, source.key)


def renamed_key(serde: Serde, source: Source, names: Sequence[str]) -> Serde:
    """Return the serde of a source's key with other names for its columns."""
    columns = [SourceColumn(name, each.type) for name, each in zip(names, source.key, strict=True)]
    return RenamedKey(serde, tuple(columns + _bounds(source.window)))


def _bounds(window: SourceWindow | None) -> list[SourceColumn]:
    return [SourceColumn(name, BIGINT) for name in WINDOW_BOUNDS] if window is not None else []


def value_serde(source: Source, *, writes: bool = False) -> Serde:
    """Return the serde of a source's value."""
    return _serde(source.value_format, source.value, writes=writes)


def _serde(form: Format, columns: Sequence[SourceColumn], *, writes: bool) -> Serde:
    if not columns:
        return NoColumns()
    if form.name == "JSON":
        return JsonColumns(tuple(columns), form.is_wrapped)
    if form.name == "DELIMITED":
        return DelimitedColumns(tuple(columns), form.delimiter)
    if form.name == "KAFKA":
        return KafkaColumn(columns[0], _KAFKA[columns[0].type.name]())
    return RegistryColumns(tuple(columns), form, writes)


class NoColumns(Serde):
    """A side without columns: a struct that says whether there are bytes."""

    description = "bytes"

    def parse(self, data: Column) -> Column:
        """Return the struct."""
        return functions().when(data.isNotNull(), struct_of([]))

    def encode(self, value: Column) -> Column:
        """Return null."""
        return functions().lit(None).cast("binary")


@attrs.frozen
class JsonColumns(Serde):
    """An object with a field for each column, or the JSON of a single column."""

    columns: tuple[SourceColumn, ...]
    is_wrapped: bool
    description: ClassVar[str] = "JSON with values of the columns' types"

    def parse(self, data: Column) -> Column:
        """Return the struct of the columns; null for bytes of another form, and for misfits."""
        return in_one(self.steps())(data)

    def steps(self) -> Sequence[Step]:
        """Return the steps from bytes to the struct of the columns."""
        fields = [(each.name, each.type) for each in self.columns]
        if not self.is_wrapped:
            fields = [(json_texts.ALONE, self.columns[0].type)]
        return self._text, *json_texts.struct_steps(struct(fields))

    def _text(self, data: Column) -> Column:
        text = json_texts.text_of(data)
        return text if self.is_wrapped else json_texts.wrapped(text)

    def value(self, parsed: Column) -> Column:
        """Return the struct of the columns."""
        if self.is_wrapped:
            return parsed
        only = parsed.getField(json_texts.ALONE)
        return functions().when(only.isNotNull(), struct_of([(self.columns[0].name, only)]))

    def is_bad(self, data: Column, parsed: Column) -> Column:
        """Return the condition for bytes without an object, or with a value of another type."""
        is_null = functions().trim(data.cast("string")) == "null"
        return data.isNotNull() & parsed.isNull() & ~is_null

    def encode(self, value: Column) -> Column:
        """Return the JSON of a struct."""
        named = value.cast(struct_type(self.columns))
        if not self.is_wrapped:
            only = self.columns[0]
            return json_texts.text_alone(named.getField(only.name), only.type).cast("binary")
        parts = [
            (each.name, json_texts.plain(named.getField(each.name), each.type))
            for each in self.columns
        ]
        text = functions().to_json(struct_of(parts), {"ignoreNullFields": "false"})
        return functions().when(value.isNotNull(), text.cast("binary"))


@attrs.frozen
class DelimitedColumns(Serde):
    """A line of columns."""

    columns: tuple[SourceColumn, ...]
    delimiter: str
    description: ClassVar[str] = "a line with values of the columns' types"

    def parse(self, data: Column) -> Column:
        """Return the texts of the columns."""
        text = functions().make_valid_utf8(data.cast("string"))
        return delimited_texts.parsed(text, len(self.columns), self.delimiter)

    def value(self, parsed: Column) -> Column:
        """Return the struct of the columns."""
        values = delimited_texts.values(parsed, self.columns)
        parts = [(each.name, value) for each, value in zip(self.columns, values, strict=True)]
        return functions().when(parsed.isNotNull(), struct_of(parts))

    def is_bad(self, data: Column, parsed: Column) -> Column:
        """Return the condition for another number of columns, or a value of another type."""
        found = data.isNotNull() & parsed.isNull()
        found = found | parsed.getField(delimited_texts.CORRUPT).isNotNull()
        for index, value in enumerate(delimited_texts.values(parsed, self.columns)):
            found = found | (parsed.getField(f"c{index}").isNotNull() & value.isNull())
        return found

    def encode(self, value: Column) -> Column:
        """Return the line of a struct."""
        named = value.cast(struct_type(self.columns))
        text = delimited_texts.line(named, self.columns, self.delimiter)
        return functions().when(value.isNotNull(), text.cast("binary"))


@attrs.frozen
class KafkaColumn(Serde):
    """One column, in the bytes of Kafka's serializers."""

    column: SourceColumn
    inner: Serde
    description: ClassVar[str] = "a value of Kafka's serializers"

    def parse(self, data: Column) -> Column:
        """Return what the inner serde returns."""
        return self.inner.parse(data)

    def value(self, parsed: Column) -> Column:
        """Return the struct of the column."""
        found = self.inner.value(parsed)
        return functions().when(found.isNotNull(), struct_of([(self.column.name, found)]))

    def is_bad(self, data: Column, parsed: Column) -> Column | None:
        """Return the condition of the inner serde."""
        return self.inner.is_bad(data, parsed)

    def error(self, data: Column, parsed: Column) -> Column | None:
        """Return the error of the inner serde."""
        return self.inner.error(data, parsed)

    def encode(self, value: Column) -> Column:
        """Return the bytes of the column."""
        named = value.cast(struct_type([self.column]))
        return self.inner.encode(named.getField(self.column.name))


@attrs.frozen
class WindowedKey(Serde):
    """A key with its window behind it: WINDOWSTART and WINDOWEND are fields of the struct."""

    inner: Serde
    window: SourceWindow
    columns: tuple[SourceColumn, ...]
    description: ClassVar[str] = "a key with a window"

    def prepared(self, context: SerdeContext) -> Serde:
        """Return the serde with an inner serde for one topic."""
        return attrs.evolve(self, inner=self.inner.prepared(context))

    def parse(self, data: Column) -> Column:
        """Return what the inner serde makes of the key, and the bounds."""
        f = functions()
        tail = self._tail()
        key = f.substring(data, f.lit(1), f.length(data) - tail)
        start = _number(f.substring(data, f.length(data) - 7, f.lit(_WINDOW_BYTES)))
        end = start + (self.window.size_ms or 0)
        if self.window.kind == "SESSION":
            end = _number(f.substring(data, f.length(data) - 15, f.lit(_WINDOW_BYTES)))
        return f.struct(self.inner.parse(key).alias("key"), start.alias("start"), end.alias("end"))

    def value(self, parsed: Column) -> Column:
        """Return the struct of the key's columns and the bounds."""
        key = self.inner.value(parsed.getField("key"))
        parts = [(each.name, key.getField(each.name)) for each in self.columns]
        bounds = [
            ("WINDOWSTART", parsed.getField("start")),
            ("WINDOWEND", parsed.getField("end")),
        ]
        return functions().when(parsed.getField("start").isNotNull(), struct_of([*parts, *bounds]))

    def encode(self, value: Column) -> Column:
        """Return the bytes of the key, then the window as Kafka Streams writes it."""
        f = functions()
        named = value.cast(struct_type([*self.columns, *_bounds(self.window)]))
        key = self.inner.encode(
            struct_of([(each.name, named.getField(each.name)) for each in self.columns])
        )
        start = serdes.Long().encode(named.getField("WINDOWSTART"))
        if self.window.kind != "SESSION":
            return f.concat(key, start)
        return f.concat(key, serdes.Long().encode(named.getField("WINDOWEND")), start)

    def _tail(self) -> int:
        return _WINDOW_BYTES * (2 if self.window.kind == "SESSION" else 1)


@attrs.frozen
class RenamedKey(Serde):
    """A key whose fields have other names than in its format."""

    inner: Serde
    columns: tuple[SourceColumn, ...]
    description: ClassVar[str] = "a key of the columns' types"

    def prepared(self, context: SerdeContext) -> Serde:
        """Return the serde with an inner serde for one topic."""
        return attrs.evolve(self, inner=self.inner.prepared(context))

    def parse(self, data: Column) -> Column:
        """Return what the inner serde returns."""
        return self.inner.parse(data)

    def value(self, parsed: Column) -> Column:
        """Return the struct with the names."""
        return self.inner.value(parsed).cast(struct_type(self.columns))

    def is_bad(self, data: Column, parsed: Column) -> Column | None:
        """Return the condition of the inner serde."""
        return self.inner.is_bad(data, parsed)

    def error(self, data: Column, parsed: Column) -> Column | None:
        """Return the error of the inner serde."""
        return self.inner.error(data, parsed)

    def encode(self, value: Column) -> Column:
        """Return the bytes of the inner serde, which takes fields by their places."""
        return self.inner.encode(value)


def _number(data: Column) -> Column:
    return serdes.Long().value(serdes.Long().parse(data))

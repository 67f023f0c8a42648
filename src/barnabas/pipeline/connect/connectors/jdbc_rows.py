"""Records as rows of tables: pure functions of a job's settings.

Records with the same schemas have rows of one form, so what depends on the schemas is decided once.
"""

from collections.abc import Callable, Hashable, Mapping
from functools import partial
from operator import attrgetter
from typing import Any, Final, TypeAlias

import attrs

from barnabas.pipeline.connect.connectors.jdbc_config import texts
from barnabas.pipeline.data import connect_schema as s
from barnabas.pipeline.data.connect_errors import DataError
from barnabas.pipeline.data.connect_schema import Field, Schema, Struct, Type
from barnabas.pipeline.data.records import SinkRecord
from barnabas.pipeline.definitions.config_types import ParsedValue

Reader: TypeAlias = Callable[[SinkRecord], Any]
"""Returns the value of a column from a record."""

_KAFKA_KEY: Final = (
    ("__connect_topic", s.STRING),
    ("__connect_partition", s.INT32),
    ("__connect_offset", s.INT64),
)
_COMPOUND: Final = frozenset({Type.ARRAY, Type.MAP, Type.STRUCT})


@attrs.frozen
class Cell:
    """A column of rows: its schema, and where its values are."""

    name: str
    schema: Schema
    value_of: Reader


@attrs.frozen
class RowForm:
    """The cells of rows: those of the key, and the others."""

    keys: tuple[Cell, ...]
    values: tuple[Cell, ...]
    is_deletion: bool = False

    @property
    def cells(self) -> tuple[Cell, ...]:
        """All cells, the key's first."""
        return (*self.keys, *self.values)


@attrs.frozen
class SinkSettings:
    """The properties of a job that decide on rows and statements."""

    job: str
    mode: str
    pk_mode: str
    pk_fields: list[str]
    table: str
    fields: frozenset[str]
    creates: bool
    evolves: bool
    deletes: bool

    @classmethod
    def of(cls, values: Mapping[str, ParsedValue], job: str) -> "SinkSettings":
        """Return the settings of a parsed configuration."""
        return cls(
            job,
            str(values["insert.mode"]),
            str(values["pk.mode"]),
            texts(values, "pk.fields"),
            str(values["table.name.format"]),
            frozenset(texts(values, "fields.whitelist")),
            values["auto.create"] is True,
            values["auto.evolve"] is True,
            values["delete.enabled"] is True,
        )


def form_key(record: SinkRecord) -> Hashable:
    """Return what records have in common whose rows have one form."""
    key, value = record.key, record.value
    return (
        record.topic,
        record.key_schema,
        key.schema if isinstance(key, Struct) else key.__class__,
        value.schema if isinstance(value, Struct) else value.__class__,
    )


def form_of(settings: SinkSettings, record: SinkRecord) -> RowForm:
    """Return the form of a record's row. Raises DataError."""
    keys = _keys(settings, record)
    if record.value is None:
        if settings.deletes:
            return RowForm(keys, (), is_deletion=True)
        raise DataError(f"{_place(record)} has no value and delete.enabled is false")
    if not isinstance(record.value, Struct):
        raise DataError(
            f"{_place(record)} has no struct as its value: use a converter with schemas"
        )
    names = {cell.name for cell in keys}
    fields = [
        field
        for field in record.value.schema.fields
        if field.name not in names and (not settings.fields or field.name in settings.fields)
    ]
    return RowForm(keys, tuple(_cell(_of_value, field, record) for field in fields))


def _keys(settings: SinkSettings, record: SinkRecord) -> tuple[Cell, ...]:
    if settings.pk_mode == "none":
        return ()
    if settings.pk_mode == "kafka":
        names = settings.pk_fields or [name for name, _ in _KAFKA_KEY]
        parts = [partial(_of_place, index) for index in range(len(_KAFKA_KEY))]
        pairs = zip(names, _KAFKA_KEY, parts, strict=True)
        return tuple(Cell(name, schema, value_of) for name, (_, schema), value_of in pairs)
    is_key = settings.pk_mode == "record_key"
    found = record.key if is_key else record.value
    if isinstance(found, Struct):
        names = settings.pk_fields or [field.name for field in found.schema.fields]
        read = _of_key if is_key else _of_value
        return tuple(_cell(read, _field(found, name, record), record) for name in names)
    if is_key and found is not None and len(settings.pk_fields) == 1:
        schema = record.key_schema or _schema_of(found, record)
        return (Cell(settings.pk_fields[0], schema, attrgetter("key")),)
    raise DataError(
        f"{_place(record)} has no primary key in its {settings.pk_mode}: it must be a struct, or a "
        "key of one value with one name in pk.fields"
    )


def _of_key(field: Field, record: SinkRecord) -> Any:
    key: Any = record.key
    return key.value_of(field)


def _of_value(field: Field, record: SinkRecord) -> Any:
    value: Any = record.value
    return value.value_of(field)


def _of_place(index: int, record: SinkRecord) -> Any:
    return record.original[index]


def _place(record: SinkRecord) -> str:
    topic, partition, offset = record.original
    return f"{topic}-{partition}@{offset}"


def _field(struct: Struct, name: str, record: SinkRecord) -> Field:
    field = struct.schema.field(name)
    if field is None:
        raise DataError(f"{_place(record)} has no field {name} for the primary key")
    return field


def _cell(read: Callable[[Field, SinkRecord], Any], field: Field, record: SinkRecord) -> Cell:
    if field.schema.type in _COMPOUND:
        raise DataError(
            f"{_place(record)}: field {field.name} is of type {field.schema.type}, which no column "
            "has: flatten it, or leave it out by fields.whitelist"
        )
    return Cell(field.name, field.schema, partial(read, field))


def _schema_of(value: Any, record: SinkRecord) -> Schema:
    kind = s.type_of_value(value)
    if kind is None or kind in _COMPOUND:
        raise DataError(f"{_place(record)} has a key that is not a primitive value")
    return Schema(kind)


def marked_cells(mode: str, form: RowForm) -> tuple[Cell, ...]:
    """Return the cells in the order of the statement's parameters."""
    is_update = mode == "update" and not form.is_deletion
    return (*form.values, *form.keys) if is_update else form.cells

"""The columns of schemas in a registry, for CREATE statements without columns."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from barnabas.pipeline.sql.catalog.source_values import Format, SourceColumn
from barnabas.pipeline.sql.planning.registry_columns import serde_of
from barnabas.pipeline.sql.sql_failures import UnresolvedError
from barnabas.pipeline.sql.sql_types import TIME, SqlType, array, from_spark, map_of, struct
from barnabas.pipeline.streams.registry_serdes import RegistrySchemaError
from barnabas.pipeline.streams.serdes import SerdeContext

if TYPE_CHECKING:
    from barnabas.pipeline.sql.catalog.registered_columns import Side

_ALONE: Final = {"key": "ROWKEY", "value": "ROWVAL"}
"""The name of a column that is the whole key or value."""
_TIME: Final = "time-millis"


@dataclass(frozen=True)
class RegistryInference:
    """The schemas of the registry at an address, as columns."""

    registry: str

    def columns(self, topic: str, side: Side, form: Format) -> tuple[SourceColumn, ...]:
        """Return the columns of a schema. Raises UnresolvedError when there is none.

        Names are in upper case, unless the statement names the schema by its id.
        """
        try:
            prepared: Any = serde_of(form, None).prepared(SerdeContext(topic, side, self.registry))
        except RegistrySchemaError as error:
            raise UnresolvedError(
                f"The statement names no columns of the {side}, and {error}: name the columns, or "
                "register a schema"
            ) from None
        kind = from_spark(prepared.data_type())
        if form.name == "AVRO":
            kind = _with_times(kind, json.loads(prepared.schema.text))
        if form.schema_id is None:
            kind = _upper(kind)
        if kind.name == "STRUCT" and form.is_wrapped:
            return tuple(SourceColumn(name, each) for name, each in kind.fields)
        if form.is_wrapped:
            raise UnresolvedError(
                f"The schema of the {side} of {topic} is {kind}, and has no columns: write "
                "WRAP_SINGLE_VALUE=FALSE, so that it is a column"
            )
        return (SourceColumn(_ALONE[side], kind),)


def _upper(kind: SqlType) -> SqlType:
    """Return a type with the names of its fields in upper case."""
    if kind.name == "STRUCT":
        return struct((name.upper(), _upper(each)) for name, each in kind.fields)
    return SqlType(kind.name, tuple(map(_upper, kind.elements)), kind.fields, kind.numbers)


def _with_times(kind: SqlType, avro: Any) -> SqlType:
    """Return a type in which TIME stands for the INTEGER of Avro's times."""
    if isinstance(avro, list):
        others = [each for each in cast("list[Any]", avro) if each != "null"]
        return _with_times(kind, others[0]) if len(others) == 1 else kind
    if not isinstance(avro, dict):
        return kind
    schema = cast("dict[str, Any]", avro)
    if schema.get("logicalType") == _TIME:
        return TIME
    if kind.name == "ARRAY":
        return array(_with_times(kind.element, schema.get("items")))
    if kind.name == "MAP":
        return map_of(kind.elements[0], _with_times(kind.element, schema.get("values")))
    if kind.name == "STRUCT":
        types = {each["name"]: each["type"] for each in schema.get("fields", ())}
        return struct((name, _with_times(each, types.get(name))) for name, each in kind.fields)
    return kind

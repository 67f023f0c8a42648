"""Connect's schemas as JSON Schemas.

`connect.type`, `connect.version`, `connect.parameters` and `connect.index` keep what JSON Schema
lacks; a name is the title. An optional schema is a choice of null and the schema.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

import attrs

from barnabas.pipeline.data.connect_errors import DataError
from barnabas.pipeline.data.connect_schema import DECIMAL_NAME, Schema, Type
from barnabas.pipeline.data.converters.json_schema_values import JsonSchemaStyle, value_writer

NAMESPACE: Final = "io.confluent.connect.json"
ENUM: Final = f"{NAMESPACE}.Enum"
ONE_OF: Final = f"{NAMESPACE}.OneOf"

_SCALARS: Final[Mapping[Type, dict[str, Any]]] = {
    **{
        kind: {"type": "integer", "connect.type": kind.lower()}
        for kind in (Type.INT8, Type.INT16, Type.INT32, Type.INT64)
    },
    **{
        kind: {"type": "number", "connect.type": kind.lower()}
        for kind in (Type.FLOAT32, Type.FLOAT64)
    },
    Type.BOOLEAN: {"type": "boolean"},
    Type.STRING: {"type": "string"},
    Type.BYTES: {"type": "string", "connect.type": "bytes"},
}


def has_text_keys(schema: Schema) -> bool:
    """True when a map is an object in JSON, not an array of entries."""
    keys = schema.key_schema
    return keys is not None and keys.type is Type.STRING and not keys.optional


def json_schema_of(schema: Schema, style: JsonSchemaStyle) -> dict[str, Any]:
    """Return the JSON Schema of a schema. Raises DataError."""
    return _SchemaWriter(style).schema(schema)


class _SchemaWriter:
    def __init__(self, style: JsonSchemaStyle) -> None:
        self._style = style

    def schema(self, schema: Schema, index: int | None = None) -> dict[str, Any]:
        """Return a schema with its place among the fields of a struct."""
        place = {} if index is None else {"connect.index": index}
        if schema.name == ONE_OF and schema.type is Type.STRUCT:
            branches = [{"type": "null"}] if schema.optional else []
            branches += [
                {**self._bare(attrs.evolve(field.schema, optional=False)), **_index(field.index)}
                for field in schema.fields
            ]
            return {"oneOf": branches, **place}
        bare = self._bare(schema)
        if schema.optional:
            return {"oneOf": [{"type": "null"}, bare], **place}
        return {**bare, **place}

    def _bare(self, schema: Schema) -> dict[str, Any]:
        """Return a schema without regard to null."""
        found = {**self._typed(schema), **_described(schema)}
        if schema.default is not None:
            write = value_writer(schema, self._style)
            found["default"] = json.loads(write(schema.default))
        return found

    def _typed(self, schema: Schema) -> dict[str, Any]:
        if schema.name == DECIMAL_NAME:
            return {"type": "number", "connect.type": "bytes"}
        if schema.type is Type.STRUCT:
            return self._struct(schema)
        if schema.type is Type.ARRAY:
            return {"type": "array", "items": self.schema(_part(schema.value_schema))}
        if schema.type is Type.MAP:
            return self._map(schema)
        if schema.type is Type.STRING and ENUM in (schema.parameters or {}):
            return {"enum": _symbols(schema)}
        return _SCALARS[schema.type]

    def _struct(self, schema: Schema) -> dict[str, Any]:
        properties = {field.name: self.schema(field.schema, field.index) for field in schema.fields}
        found: dict[str, Any] = {"type": "object", "properties": properties}
        if not self._style.allows_additional:
            found["additionalProperties"] = False
        return found

    def _map(self, schema: Schema) -> dict[str, Any]:
        keys, values = _part(schema.key_schema), _part(schema.value_schema)
        if has_text_keys(schema):
            additional = self.schema(values)
            return {"type": "object", "connect.type": "map", "additionalProperties": additional}
        properties = {"key": self.schema(keys, 0), "value": self.schema(values, 1)}
        entry = {"type": "object", "properties": properties}
        return {"type": "array", "connect.type": "map", "items": entry}


def _part(schema: Schema | None) -> Schema:
    if schema is None:
        raise DataError("an array or a map has no schema of its elements")
    return schema


def _index(index: int) -> dict[str, int]:
    return {"connect.index": index}


def _symbols(schema: Schema) -> list[str]:
    prefix = f"{ENUM}."
    return [
        name.removeprefix(prefix) for name in schema.parameters or {} if name.startswith(prefix)
    ]


def _described(schema: Schema) -> dict[str, Any]:
    parameters = {
        name: value
        for name, value in (schema.parameters or {}).items()
        if not name.startswith(NAMESPACE)
    }
    found = {
        "title": schema.name,
        "description": schema.doc,
        "connect.version": schema.version,
        "connect.parameters": parameters or None,
    }
    return {name: value for name, value in found.items() if value is not None}

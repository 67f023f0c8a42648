"""Schemas as JSON, in the form that Connect's JSON converter embeds in each value."""

import json
from collections.abc import Callable, Mapping
from json.encoder import encode_basestring
from typing import Any, Final, cast

import attrs

from barnabas.pipeline.data.connect_errors import DataError
from barnabas.pipeline.data.connect_schema import (
    Schema,
    Type,
    array_schema,
    map_schema,
    struct_schema,
    with_default,
)
from barnabas.pipeline.data.converters.json_readers import reader_of
from barnabas.pipeline.data.converters.json_writers import JsonStyle, writer_of
from barnabas.pipeline.data.java_values import wrapped

_NAMES: Final[Mapping[Type, str]] = {
    Type.INT8: "int8",
    Type.INT16: "int16",
    Type.INT32: "int32",
    Type.INT64: "int64",
    Type.FLOAT32: "float",
    Type.FLOAT64: "double",
    Type.BOOLEAN: "boolean",
    Type.STRING: "string",
    Type.BYTES: "bytes",
    Type.ARRAY: "array",
    Type.MAP: "map",
    Type.STRUCT: "struct",
}
_TYPES: Final = {name: kind for kind, name in _NAMES.items()}


def schema_text(schema: Schema | None, style: JsonStyle, field_name: str | None = None) -> str:
    """Return a schema as JSON; a field of a struct has its name in it."""
    if schema is None:
        return "null"
    parts = [f'"type":"{_NAMES[schema.type]}"']
    if schema.type is Type.ARRAY:
        parts.append(f'"items":{schema_text(schema.value_schema, style)}')
    elif schema.type is Type.MAP:
        parts.append(f'"keys":{schema_text(schema.key_schema, style)}')
        parts.append(f'"values":{schema_text(schema.value_schema, style)}')
    elif schema.type is Type.STRUCT:
        fields = (schema_text(field.schema, style, field.name) for field in schema.fields)
        parts.append(f'"fields":[{",".join(fields)}]')
    parts.append(f'"optional":{"true" if schema.optional else "false"}')
    described = (("name", schema.name), ("version", schema.version), ("doc", schema.doc))
    parts += [
        f'"{name}":{json.dumps(value, ensure_ascii=False)}'
        for name, value in described
        if value is not None
    ]
    if schema.parameters is not None:
        shown = json.dumps(dict(schema.parameters), ensure_ascii=False, separators=(",", ":"))
        parts.append(f'"parameters":{shown}')
    if schema.default is not None:
        parts.append(f'"default":{writer_of(schema, style)(schema.default)}')
    if field_name is not None:
        parts.append(f'"field":{encode_basestring(field_name)}')
    return f"{{{','.join(parts)}}}"


def schema_of(node: Any, *, replaces_null: bool = True) -> Schema | None:
    """Return the schema of a JSON value, None for null. Raises DataError."""
    if node is None:
        return None
    described = cast("dict[str, Any]", node) if isinstance(node, dict) else {}
    kind = described.get("type")
    if not isinstance(kind, str):
        raise DataError("Schema must contain 'type' field")
    if kind not in _TYPES:
        raise DataError(f"Unknown schema type: {kind}")
    make = _COMPOSITE.get(_TYPES[kind])
    bare = Schema(_TYPES[kind]) if make is None else make(described, replaces_null)
    schema = _described(bare, described)
    if "default" in described:
        default = reader_of(schema, replaces_null=replaces_null)(described["default"])
        if default is not None:
            schema = with_default(schema, default)
    return schema


def _described(schema: Schema, node: dict[str, Any]) -> Schema:
    """Return a schema with what a node says about it, ignoring what has a wrong type."""
    name, version, doc = node.get("name"), node.get("version"), node.get("doc")
    return attrs.evolve(
        schema,
        optional=node.get("optional") is True,
        name=name if isinstance(name, str) else None,
        version=wrapped(version, 32) if type(version) is int else None,
        doc=doc if isinstance(doc, str) else None,
        parameters=_parameters(node.get("parameters")),
    )


def _parameters(node: Any) -> dict[str, str] | None:
    if not isinstance(node, dict) or not node:
        return None
    parameters = cast("dict[str, Any]", node)
    if not all(isinstance(value, str) for value in parameters.values()):
        raise DataError("Schema parameters must have string values.")
    return parameters


def _array(node: dict[str, Any], replaces_null: bool) -> Schema:
    if node.get("items") is None:
        raise DataError("Array schema did not specify the element type")
    return array_schema(schema_of(node["items"], replaces_null=replaces_null))


def _map(node: dict[str, Any], replaces_null: bool) -> Schema:
    for part, name in (("keys", "key"), ("values", "value")):
        if part not in node:
            raise DataError(f"Map schema did not specify the {name} type")
        if node[part] is None:
            raise DataError(f"{name}Schema cannot be null.")
    return map_schema(
        schema_of(node["keys"], replaces_null=replaces_null),
        schema_of(node["values"], replaces_null=replaces_null),
    )


def _struct(node: dict[str, Any], replaces_null: bool) -> Schema:
    fields = node.get("fields")
    if not isinstance(fields, list):
        raise DataError('Struct schema\'s "fields" argument is not an array.')
    found: list[tuple[str, Schema]] = []
    for field in cast("list[Any]", fields):
        described = cast("dict[str, Any]", field) if isinstance(field, dict) else {}
        name = described.get("field")
        if not isinstance(name, str):
            raise DataError("Struct schema's field name not specified properly")
        schema = schema_of(described, replaces_null=replaces_null)
        if schema is not None:
            found.append((name, schema))
    return struct_schema(found)


_COMPOSITE: Final[Mapping[Type, Callable[[dict[str, Any], bool], Schema]]] = {
    Type.ARRAY: _array,
    Type.MAP: _map,
    Type.STRUCT: _struct,
}

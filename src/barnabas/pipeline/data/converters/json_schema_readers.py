"""JSON Schemas as Connect's.

A choice of null and one schema is that schema, optional; any other choice is a struct with a field
for each branch, of which one is set. `allOf` is one struct with the properties of all its parts.
References lead within the document or to the schemas that the registry names; nothing is fetched.
"""

import json
from collections.abc import Mapping
from typing import Any, Final, cast
from urllib.parse import unquote

import attrs

from barnabas.pipeline.data.connect_errors import DataError
from barnabas.pipeline.data.connect_schema import (
    STRING,
    Schema,
    Type,
    array_schema,
    map_schema,
    struct_schema,
)
from barnabas.pipeline.data.converters.json_schema_texts import ENUM, ONE_OF
from barnabas.pipeline.data.converters.json_schema_values import JsonSchemaStyle, value_reader

_DEPTH_MAX: Final = 64
_NUMBERS: Final[Mapping[str, Type]] = {
    kind.lower(): kind
    for kind in (
        *(Type.INT8, Type.INT16, Type.INT32, Type.INT64),
        *(Type.FLOAT32, Type.FLOAT64, Type.BYTES),
    )
}
_OF_OBJECT: Final = ("properties", "additionalProperties", "required", "patternProperties")
_OF_ARRAY: Final = ("items", "minItems", "maxItems", "uniqueItems")
_OF_STRING: Final = ("pattern", "minLength", "maxLength", "format")
_OF_NUMBER: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_NULL: Final = {"type": "null"}

Node = dict[str, Any]


@attrs.frozen
class _Place:
    """A schema, the document that it is in, and the references that led to it."""

    node: Node
    document: Any
    outer: tuple[int, ...] = ()

    def inner(self, node: Any) -> "_Place":
        """Return the place of a part of the schema. Raises DataError unless it is an object."""
        if not isinstance(node, dict):
            raise DataError(f"the JSON Schema {json.dumps(node)} has no schema in Connect")
        return attrs.evolve(self, node=cast("Node", node))


class JsonSchemaReader:
    """Makes Connect's schemas of JSON Schemas; references are texts by name."""

    def __init__(self, references: Mapping[str, str], style: JsonSchemaStyle) -> None:
        self._style = style
        self._documents = {name: json.loads(text) for name, text in references.items()}
        for document in list(self._documents.values()):
            if isinstance(document, dict) and "$id" in document:
                found = cast("Node", document)
                self._documents.setdefault(str(found["$id"]), found)

    def schema_of(self, text: str) -> Schema:
        """Return the schema of a text. Raises DataError."""
        document: Any = json.loads(text)
        place = _Place({}, document).inner(document)
        return self._schema(place)

    def _schema(self, place: _Place, *, optional: bool = False) -> Schema:
        node = place.node
        if len(place.outer) > _DEPTH_MAX:
            raise DataError("the JSON Schema is nested too deep")
        if "$ref" in node:
            return self._referred(place, str(node["$ref"]), optional=optional)
        branches = _branches(node)
        if branches is not None:
            return self._choice(place, branches, optional=optional)
        if "allOf" in node:
            return self._all_of(place, optional=optional)
        return self._described(self._typed(place), node, optional=optional)

    def _referred(self, place: _Place, reference: str, *, optional: bool) -> Schema:
        name, _, fragment = reference.partition("#")
        document = place.document
        if name:
            if name not in self._documents:
                raise DataError(f"the JSON Schema refers to {name}, which is not a reference of it")
            document = self._documents[name]
        found = _resolved(document, fragment, reference)
        if id(found) in place.outer:
            raise DataError(f"the schema {reference} contains itself, which Connect cannot express")
        inner = _Place({}, document, (*place.outer, id(found))).inner(found)
        return self._schema(inner, optional=optional)

    def _choice(self, place: _Place, branches: list[Any], *, optional: bool) -> Schema:
        others = [each for each in branches if each != _NULL]
        has_null = len(others) < len(branches)
        if has_null and len(others) == 1:
            return self._schema(place.inner(others[0]), optional=True)
        fields = [
            (f"{ONE_OF}.field.{number}", self._schema(place.inner(branch), optional=True))
            for number, branch in enumerate(others)
        ]
        schema = struct_schema(fields, name=ONE_OF)
        return self._described(schema, place.node, optional=optional or has_null)

    def _all_of(self, place: _Place, *, optional: bool) -> Schema:
        """Return the struct of all properties, or the type of the parts together."""
        fields: dict[str, Schema] = {}
        self._collect(place, fields)
        if fields:
            title = place.node.get("title")
            named = None if title is None else str(title)
            return struct_schema(list(fields.items()), name=named, optional=optional)
        merged: Node = {key: value for key, value in place.node.items() if key != "allOf"}
        for part in cast("list[Any]", place.node["allOf"]):
            merged = {**place.inner(part).node, **merged}
        return self._schema(place.inner(merged), optional=optional)

    def _collect(self, place: _Place, fields: dict[str, Schema]) -> None:
        node = place.node
        if "$ref" in node:
            name, _, fragment = str(node["$ref"]).partition("#")
            document = self._documents.get(name) if name else place.document
            found = _resolved(document, fragment, str(node["$ref"]))
            if id(found) not in place.outer:
                outer = (*place.outer, id(found))
                self._collect(_Place({}, document, outer).inner(found), fields)
            return
        for part in cast("list[Any]", node.get("allOf") or []):
            self._collect(place.inner(part), fields)
        if "properties" in node:
            fields.update(self._properties(place))

    def _properties(self, place: _Place) -> list[tuple[str, Schema]]:
        properties = cast("dict[str, Any]", place.node.get("properties") or {})
        required = cast("list[Any]", place.node.get("required") or [])
        indexes = {
            name: int(place.inner(node).node.get("connect.index", at))
            for at, (name, node) in enumerate(properties.items())
        }
        return [
            (
                name,
                self._schema(
                    place.inner(properties[name]),
                    optional=self._style.optional_unless_required and name not in required,
                ),
            )
            for name in sorted(properties, key=lambda name: indexes[name])
        ]

    def _typed(self, place: _Place) -> Schema:
        node = place.node
        if "enum" in node or "const" in node:
            return self._enum(node)
        kind, own = _kind(node), node.get("connect.type")
        if kind == "boolean":
            return Schema(Type.BOOLEAN)
        if kind in ("integer", "number"):
            usual = Type.INT64 if kind == "integer" else Type.FLOAT64
            if own is not None and own not in _NUMBERS:
                raise DataError(f"the JSON Schema has the unknown connect.type {own}")
            return Schema(usual if own is None else _NUMBERS[str(own)])
        if kind == "string":
            return Schema(Type.BYTES if own == "bytes" else Type.STRING)
        if kind == "array":
            return self._array(place, is_map=own == "map")
        if kind == "object":
            return self._object(place, is_map=own == "map")
        raise DataError(f"the JSON Schema {json.dumps(node)[:200]} has no schema in Connect")

    def _enum(self, node: Node) -> Schema:
        """Return the schema of listed values: a text that keeps its symbols, or the type."""
        values = cast("list[Any]", node["enum"]) if "enum" in node else [node["const"]]
        kind = node.get("type")
        if kind in ("integer", "number", "boolean") or "const" in node:
            shown = kind or _type_of(values[0])
            own = {name: each for name, each in node.items() if name not in ("enum", "const")}
            return self._typed(_Place({**own, "type": shown}, None))
        symbols = {f"{ENUM}.{_symbol(each)}": _symbol(each) for each in values}
        return Schema(Type.STRING, parameters={ENUM: "", **symbols}, optional=None in values)

    def _array(self, place: _Place, *, is_map: bool) -> Schema:
        items = place.node.get("items")
        if not isinstance(items, dict):
            raise DataError("Array schema did not specify the items type")
        inner = place.inner(items)
        if not is_map:
            return array_schema(self._schema(inner))
        properties = cast("dict[str, Any]", inner.node.get("properties") or {})
        if not {"key", "value"} <= properties.keys():
            raise DataError("a map's entries in the JSON Schema lack a key or a value")
        keys, values = (self._schema(inner.inner(properties[each])) for each in ("key", "value"))
        return map_schema(keys, values)

    def _object(self, place: _Place, *, is_map: bool) -> Schema:
        if not is_map:
            return struct_schema(self._properties(place))
        return map_schema(STRING, self._schema(place.inner(place.node.get("additionalProperties"))))

    def _described(self, schema: Schema, node: Node, *, optional: bool) -> Schema:
        """Return a schema with its name, version, doc, parameters and default."""
        own = cast("dict[str, Any] | None", node.get("connect.parameters"))
        parameters = {**(schema.parameters or {}), **{k: str(v) for k, v in (own or {}).items()}}
        version = node.get("connect.version")
        described = attrs.evolve(
            schema,
            optional=optional or schema.optional,
            name=schema.name or node.get("title"),
            version=version if isinstance(version, int) else None,
            doc=node.get("description"),
            parameters=parameters or None,
        )
        if node.get("default") is None:
            return described
        read = value_reader(described, self._style)
        return attrs.evolve(described, default=read(node["default"]))


def _branches(node: Node) -> list[Any] | None:
    """Return the schemas of which a value has one, None when there is no choice."""
    for keyword in ("oneOf", "anyOf"):
        if keyword in node:
            return cast("list[Any]", node[keyword])
    kind = node.get("type")
    if isinstance(kind, list):
        rest = {name: value for name, value in node.items() if name not in ("type", "default")}
        return [
            _NULL if each == "null" else {**rest, "type": each} for each in cast("list[Any]", kind)
        ]
    return None


def _kind(node: Node) -> str | None:
    if "type" in node:
        return str(node["type"])
    for kind, keywords in (
        ("object", _OF_OBJECT),
        ("array", _OF_ARRAY),
        ("string", _OF_STRING),
        ("number", _OF_NUMBER),
    ):
        if any(keyword in node for keyword in keywords):
            return kind
    return None


def _symbol(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _type_of(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    return "number" if isinstance(value, float) else "string"


def _resolved(document: Any, fragment: str, reference: str) -> Any:
    """Return the part of a document that a JSON pointer names. Raises DataError."""
    found: Any = document
    for part in fragment.split("/")[1:] if fragment.startswith("/") else ():
        name = unquote(part).replace("~1", "/").replace("~0", "~")
        if isinstance(found, list) and name.isdecimal():
            items = cast("list[Any]", found)
            found = items[int(name)] if int(name) < len(items) else None
        else:
            found = cast("Node", found).get(name) if isinstance(found, dict) else None
    if found is None or (fragment and not fragment.startswith("/")):
        raise DataError(f"the JSON Schema refers to {reference}, which does not exist")
    return found

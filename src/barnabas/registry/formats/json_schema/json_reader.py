"""Read JSON schemas: values of JSON -> typed tree."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from barnabas.registry.formats.json_schema.json_references import Scope
from barnabas.registry.formats.json_schema.json_shapes import (
    Draft,
    check_pattern,
    check_shapes,
    is_number,
)
from barnabas.registry.formats.json_schema.json_types import (
    AnyNode,
    ArrayNode,
    BooleanNode,
    CombinedNode,
    ConditionalNode,
    EnumNode,
    Node,
    NothingNode,
    NotNode,
    NullNode,
    NumberNode,
    ObjectNode,
    ReferenceNode,
    Rest,
    StringNode,
)
from barnabas.registry.formats.json_schema.json_values import ValueNumbers, value_key
from barnabas.registry.formats.json_text import is_array, is_object
from barnabas.registry.formats.schema_format import ResolvedReference, SchemaError

_STRING_BOUNDS = ("maxLength", "minLength")
_NUMBER_BOUNDS = ("maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum")
_OBJECT_BOUNDS = ("maxProperties", "minProperties")
_ARRAY_BOUNDS = ("maxItems", "minItems", "maxContains", "minContains")

# Keywords that imply a kind of value where the type does not name it, by kind in order.
_IMPLIES = {
    "array": {
        *("items", "additionalItems", "contains", "uniqueItems", "prefixItems"),
        *("unevaluatedItems", *_ARRAY_BOUNDS),
    },
    "object": {
        *("properties", "required", "additionalProperties", "dependencies", "patternProperties"),
        *("propertyNames", "dependentRequired", "dependentSchemas", "unevaluatedProperties"),
        *_OBJECT_BOUNDS,
    },
    "number": {*_NUMBER_BOUNDS, "multipleOf"},
    "string": {*_STRING_BOUNDS, "pattern"},
}
_KIND_OF_TYPE = {"integer": "number"}


class JsonSchemaReader:
    """Reads one schema and what it refers to. Each schema object becomes one node."""

    def __init__(self) -> None:
        self._nodes: dict[int, Node] = {}
        self._open: list[tuple[ReferenceNode, str, Scope, str]] = []
        self._numbers = ValueNumbers()

    def read(self, schema: Any, references: Sequence[ResolvedReference]) -> Node:
        """Return the typed tree of a schema.

        Raises SchemaError when it is not valid.
        """
        if not is_object(schema) and not isinstance(schema, bool):
            raise SchemaError("a schema must be an object, true or false", "#")
        root = self._node(schema, Scope.of_root(schema, references), "#")
        references_read: list[ReferenceNode] = []
        while self._open:
            reference, name, scope, path = self._open.pop()
            target, target_scope = scope.target(name, path)
            reference.target = self._node(target, target_scope, name)
            references_read.append(reference)
        for reference in references_read:
            _shorten(reference)
        return root

    def _node(self, schema: Any, scope: Scope, path: str) -> Node:
        if isinstance(schema, bool):
            return AnyNode() if schema else NothingNode()
        if not is_object(schema):
            raise SchemaError("a schema must be an object, true or false", path)
        known = self._nodes.get(id(schema))
        if known is None:
            known = self._nodes[id(schema)] = self._object_node(schema, scope.below(schema), path)
        return known

    def _object_node(self, schema: dict[str, Any], scope: Scope, path: str) -> Node:
        check_shapes(schema, scope.draft, path)
        for keyword in ("definitions", "$defs"):
            for name, definition in schema.get(keyword, {}).items():
                self._node(definition, scope, f"{path}/{keyword}/{name}")
        parts = [*self._reference(schema, scope, path)]
        if not parts or scope.draft >= Draft.D2019:
            parts += self._parts(schema, scope, path)
        node = parts[0] if len(parts) == 1 else CombinedNode("allOf", parts) if parts else AnyNode()
        node.has_default = "default" in schema
        connect_type = schema.get("connect.type")
        node.connect_type = connect_type if isinstance(connect_type, str) else None
        return node

    def _reference(self, schema: dict[str, Any], scope: Scope, path: str) -> list[Node]:
        name = schema.get("$ref")
        if name is None:
            return []
        node = ReferenceNode()
        self._open.append((node, name, scope, f"{path}/$ref"))
        return [node]

    def _parts(self, schema: dict[str, Any], scope: Scope, path: str) -> list[Node]:
        draft = scope.draft
        parts: list[Node] = []
        if "enum" in schema:
            parts.append(EnumNode("enum", frozenset(map(value_key, schema["enum"]))))
        for criterion in ("allOf", "anyOf", "oneOf"):
            if criterion in schema:
                # A branch that is written twice counts once.
                distinct = {self._numbers.of(b): b for b in reversed(schema[criterion])}
                branches = [
                    self._node(branch, scope, f"{path}/{criterion}")
                    for branch in reversed(distinct.values())
                ]
                parts.append(CombinedNode(criterion, branches))
        if "not" in schema:
            parts.append(NotNode(self._node(schema["not"], scope, f"{path}/not")))
        if "const" in schema and draft > Draft.D4:
            parts.append(EnumNode("const", frozenset({value_key(schema["const"])})))
        parts += self._typed(schema, scope, path)
        if "if" in schema and draft >= Draft.D7 and ("then" in schema or "else" in schema):
            condition, then, otherwise = (
                self._optional(schema, keyword, scope, path) for keyword in ("if", "then", "else")
            )
            parts.append(ConditionalNode(condition or AnyNode(), then, otherwise))
        return parts

    def _typed(self, schema: dict[str, Any], scope: Scope, path: str) -> list[Node]:
        written = schema.get("type")
        names: list[str] = written if is_array(written) else [written] if written else []
        nodes = [self._kind(name, schema, scope, path) for name in names]
        parts: list[Node] = [CombinedNode("anyOf", nodes)] if is_array(written) else nodes
        covered = {_KIND_OF_TYPE.get(name, name) for name in names}
        for kind, keywords in _IMPLIES.items():
            if kind not in covered and not keywords.isdisjoint(schema):
                parts.append(self._kind(kind, schema, scope, path))
        return parts

    def _kind(self, name: str, schema: dict[str, Any], scope: Scope, path: str) -> Node:
        if name == "boolean":
            return BooleanNode()
        if name == "null":
            return NullNode()
        if name == "string":
            pattern = schema.get("pattern")
            if pattern is not None:
                check_pattern(pattern, f"{path}/pattern")
            return StringNode(_bounds(schema, _STRING_BOUNDS), pattern)
        if name == "object":
            return self._object(schema, scope, path)
        if name == "array":
            return self._array(schema, scope, path)
        multiple = schema.get("multipleOf")
        return NumberNode(
            name == "integer",
            _number_bounds(schema),
            None if multiple is None else Fraction(multiple),
        )

    def _object(self, schema: dict[str, Any], scope: Scope, path: str) -> ObjectNode:
        for pattern in schema.get("patternProperties", {}):
            check_pattern(pattern, f"{path}/patternProperties")
        node = ObjectNode(
            self._map(schema, "properties", scope, path),
            frozenset(schema.get("required", ())),
            self._map(schema, "patternProperties", scope, path),
            self._rest(schema, "additionalProperties", scope, path),
        )
        node.bounds = _bounds(schema, _OBJECT_BOUNDS)
        if scope.draft >= Draft.D6:
            node.names = self._optional(schema, "propertyNames", scope, path)
        for name, value in schema.get("dependencies", {}).items():
            if is_array(value):
                node.required_with[name] = frozenset(value)
            else:
                node.schema_with[name] = self._node(value, scope, f"{path}/dependencies/{name}")
        if scope.draft >= Draft.D2019:
            node.unevaluated = self._rest(schema, "unevaluatedProperties", scope, path)
            for name, value in schema.get("dependentRequired", {}).items():
                node.required_with[name] = frozenset(value)
            node.schema_with |= self._map(schema, "dependentSchemas", scope, path)
        return node

    def _array(self, schema: dict[str, Any], scope: Scope, path: str) -> ArrayNode:
        node = ArrayNode(is_unique=schema.get("uniqueItems") is True)
        node.bounds = _bounds(schema, _ARRAY_BOUNDS)
        if scope.draft >= Draft.D6:
            node.contains = self._optional(schema, "contains", scope, path)
        if scope.draft >= Draft.D2019:
            node.unevaluated = self._rest(schema, "unevaluatedItems", scope, path)
        first, rest = "items", "additionalItems"
        if scope.draft >= Draft.D2020:
            first, rest = "prefixItems", "items"
        if is_array(schema.get(first)):
            node.first = self._list(schema, first, scope, path)
        elif is_object(schema.get("items")) or rest != "items":
            node.items = self._optional(schema, "items", scope, path)
        if node.items is None or rest != "items":
            node.additional = self._rest(schema, rest, scope, path)
        return node

    # -- values of keywords

    def _optional(self, schema: dict[str, Any], key: str, scope: Scope, path: str) -> Node | None:
        return self._node(schema[key], scope, f"{path}/{key}") if key in schema else None

    def _list(self, schema: dict[str, Any], key: str, scope: Scope, path: str) -> list[Node]:
        return [self._node(n, scope, f"{path}/{key}/{i}") for i, n in enumerate(schema[key])]

    def _map(self, schema: dict[str, Any], key: str, scope: Scope, path: str) -> dict[str, Node]:
        found = schema.get(key, {})
        return {name: self._node(n, scope, f"{path}/{key}/{name}") for name, n in found.items()}

    def _rest(self, schema: dict[str, Any], key: str, scope: Scope, path: str) -> Rest:
        value = schema.get(key, True)
        if isinstance(value, bool):
            return Rest(is_allowed=value)
        return Rest(schema=self._node(value, scope, f"{path}/{key}"))


def _shorten(reference: ReferenceNode) -> None:
    """Let all references of a chain point to its end; one that has no end takes every value."""
    chain: dict[ReferenceNode, None] = {}
    node: Node = reference
    while isinstance(node, ReferenceNode) and node not in chain:
        chain[node] = None
        node = node.target
    end = AnyNode() if isinstance(node, ReferenceNode) else node
    for link in chain:
        link.target = end


def _bounds(schema: dict[str, Any], keywords: Sequence[str]) -> dict[str, Fraction]:
    return {key: Fraction(schema[key]) for key in keywords if is_number(schema.get(key))}


def _number_bounds(schema: dict[str, Any]) -> dict[str, Fraction]:
    """Return the bounds of a number; draft 4 says with a boolean that a bound is exclusive."""
    bounds = _bounds(schema, _NUMBER_BOUNDS)
    for plain, exclusive in (("maximum", "exclusiveMaximum"), ("minimum", "exclusiveMinimum")):
        if schema.get(exclusive) is True and plain in bounds:
            bounds[exclusive] = bounds.pop(plain)
    return bounds

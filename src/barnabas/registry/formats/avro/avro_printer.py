"""Write Avro schemas: typed tree -> values of JSON in the order of Java's printer.

The canonical form writes a named type where it is first met and its name everywhere else. The
names of references count as met, so that they are never written out; the resolved form writes
them out too. The normal form sorts what has no defined order: properties, aliases, the keys of
default values; it writes defaults as their type reads them and drops empty documentation.
"""

import struct
from collections.abc import Iterable
from typing import Any

from barnabas.registry.formats.avro.avro_types import (
    ArrayType,
    AvroType,
    EnumType,
    Field,
    FixedType,
    MapType,
    NamedType,
    Primitive,
    RecordType,
    UnionType,
)
from barnabas.registry.formats.json_text import is_array, is_object, write_json

# Logical types that Java knows, and the types under which each is valid.
_LOGICAL_TYPES = {
    "date": {"int"},
    "time-millis": {"int"},
    "time-micros": {"long"},
    "timestamp-millis": {"long"},
    "timestamp-micros": {"long"},
    "timestamp-nanos": {"long"},
    "local-timestamp-millis": {"long"},
    "local-timestamp-micros": {"long"},
    "local-timestamp-nanos": {"long"},
    "uuid": {"string", "fixed"},
    "duration": {"fixed"},
    "decimal": {"bytes", "fixed"},
    "big-decimal": {"bytes"},
}


def canonical_text(root: AvroType, known_names: Iterable[str] = ()) -> str:
    """Return the canonical text of a schema; types with a known name are written as names."""
    return write_json(_Printer(known_names, normal=False).value(root, None))


def normal_text(root: AvroType, known_names: Iterable[str] = ()) -> str:
    """Return the normal form of a schema: equal for schemas that differ in order only."""
    return write_json(_Printer(known_names, normal=True).value(root, None))


class _Printer:
    """One printing: which names have been written, and in which of the two forms."""

    def __init__(self, known_names: Iterable[str], *, normal: bool) -> None:
        self._written = set(known_names)
        self._normal = normal

    def value(self, node: AvroType, namespace: str | None) -> Any:
        """Return the value of JSON that stands for a type inside of a namespace."""
        if isinstance(node, NamedType):
            if node.name.full in self._written:
                return node.name.within(namespace)
            self._written.add(node.name.full)
            return self._named(node, namespace)
        if isinstance(node, UnionType):
            return [self.value(branch, namespace) for branch in node.branches]
        if isinstance(node, ArrayType):
            items = self.value(node.items, namespace)
            return {"type": "array", "items": items, **self._props(node)}
        if isinstance(node, MapType):
            values = self.value(node.values, namespace)
            return {"type": "map", "values": values, **self._props(node)}
        return {"type": node.kind, **self._props(node)} if node.props else node.kind

    def _named(self, node: NamedType, namespace: str | None) -> dict[str, Any]:
        kind = "error" if isinstance(node, RecordType) and node.is_error else node.kind
        printed: dict[str, Any] = {"type": node.kind if self._normal else kind}
        printed["name"] = node.name.simple
        if node.name.namespace != namespace:
            printed["namespace"] = node.name.namespace or ""
        if node.doc or (node.doc is not None and not self._normal):
            printed["doc"] = node.doc
        if isinstance(node, RecordType):
            printed["fields"] = [self._field(f, node.name.namespace) for f in node.fields]
        elif isinstance(node, EnumType):
            printed["symbols"] = list(node.symbols)
            if node.default is not None:
                printed["default"] = node.default
        elif isinstance(node, FixedType):
            printed["size"] = node.size
        printed |= self._props(node)
        if node.aliases:
            aliases = [alias.within(node.name.namespace) for alias in self._aliases(node)]
            printed["aliases"] = aliases
        return printed

    def _aliases(self, node: NamedType) -> Iterable[Any]:
        return sorted(node.aliases, key=lambda a: a.full) if self._normal else node.aliases

    def _field(self, field: Field, namespace: str | None) -> dict[str, Any]:
        printed: dict[str, Any] = {"name": field.name, "type": self.value(field.type, namespace)}
        if field.doc is not None:
            printed["doc"] = field.doc
        if field.has_default:
            default = field.default
            if self._normal:
                default = _sorted(_typed_default(field.type, default))
            printed["default"] = default
        if field.order != "ascending":
            printed["order"] = field.order
        if field.aliases:
            printed["aliases"] = sorted(field.aliases) if self._normal else list(field.aliases)
        return printed | (_sorted(field.props) if self._normal else field.props)

    def _props(self, node: AvroType) -> dict[str, Any]:
        if not self._normal:
            return node.props
        first: dict[str, Any] = {}
        if isinstance(node, Primitive | FixedType) and _is_logical(node):
            first = {key: node.props[key] for key in _logical_keys(node)}
        return first | _sorted(node.props)


def _is_logical(node: AvroType) -> bool:
    """True when the logical type of a type is one that Java knows and finds valid there."""
    name = node.props.get("logicalType")
    if not isinstance(name, str) or node.kind not in _LOGICAL_TYPES.get(name, ()):
        return False
    if isinstance(node, FixedType) and name in ("uuid", "duration"):
        return node.size == (16 if name == "uuid" else 12)
    return name != "decimal" or _is_decimal(node)


def _is_decimal(node: AvroType) -> bool:
    precision, scale = node.props.get("precision"), node.props.get("scale", 0)
    if not isinstance(precision, int) or not isinstance(scale, int):
        return False
    if isinstance(node, FixedType):
        largest = 2 ** (8 * min(node.size, 1024) - 1) - 1 if node.size else 0
        if node.size <= 1024 and precision >= len(str(largest)):
            return False
    return 0 <= scale <= precision and precision > 0


def _logical_keys(node: AvroType) -> list[str]:
    if node.props["logicalType"] != "decimal":
        return ["logicalType"]
    with_scale = ["scale"] if node.props.get("scale") else []
    return ["logicalType", "precision", *with_scale]


def _sorted(value: Any) -> Any:
    if is_object(value):
        return {key: _sorted(value[key]) for key in sorted(value)}
    if is_array(value):
        return [_sorted(item) for item in value]
    return value


def _typed_default(node: AvroType, value: Any) -> Any:
    """Return a default as its type reads it: 1 is 1.0 for a double."""
    if isinstance(node, UnionType):
        return next(
            (_typed_default(branch, value) for branch in node.branches if _takes(branch, value)),
            value,
        )
    if isinstance(node, ArrayType) and is_array(value):
        return [_typed_default(node.items, item) for item in value]
    if isinstance(node, MapType) and is_object(value):
        return {key: _typed_default(node.values, item) for key, item in value.items()}
    if isinstance(node, RecordType) and is_object(value):
        return {
            key: _typed_default(node.by_name[key].type, item) if key in node.by_name else item
            for key, item in value.items()
        }
    if isinstance(value, int | float) and not isinstance(value, bool):
        if node.kind == "double":
            return float(value)
        if node.kind == "float":
            return _single(value)
    return value


def _takes(branch: AvroType, value: Any) -> bool:
    """True when a branch of a union is the one that reads a default."""
    if value is None:
        return branch.kind == "null"
    if isinstance(value, bool):
        return branch.kind == "boolean"
    if isinstance(value, int):
        return branch.kind in ("int", "long", "float", "double")
    if isinstance(value, float):
        return branch.kind in ("float", "double")
    if isinstance(value, str):
        return branch.kind in ("string", "enum", "bytes", "fixed")
    return branch.kind == "array" if is_array(value) else branch.kind in ("map", "record")


def _single(value: float) -> float:
    """Return the double whose text is the shortest that reads as the same 32-bit float."""
    try:
        packed = struct.pack(">f", value)
    except (OverflowError, struct.error):
        return float(value)
    texts = (f"{value:.{digits}g}" for digits in range(1, 10))
    return next((float(t) for t in texts if struct.pack(">f", float(t)) == packed), float(value))

"""Read Avro schemas: JSON -> typed tree, by the rules of Java's parser (1.12).

A name may be used before it is defined. Lookup order: primitive, the name in the enclosing
namespace, the name as written, and last a forward reference that is resolved when the text ends.
A named type becomes known after its own definition, so a record's reference to itself is a
forward reference. A name may be defined twice when both definitions are equal.
"""

import re
from typing import Any

from barnabas.registry.formats.avro.avro_defaults import DefaultCheck
from barnabas.registry.formats.avro.avro_equality import equal_types
from barnabas.registry.formats.avro.avro_types import (
    PRIMITIVES,
    ArrayType,
    AvroType,
    EnumType,
    Field,
    FixedType,
    MapType,
    Name,
    NamedType,
    Primitive,
    RecordType,
    UnionType,
    Unresolved,
)
from barnabas.registry.formats.json_text import is_array, is_object, read_json, write_json
from barnabas.registry.formats.schema_format import SchemaError

_TYPE_KEYWORDS = frozenset(
    {
        *("doc", "fields", "items", "name", "namespace"),
        *("size", "symbols", "values", "type", "aliases"),
    }
)
_ENUM_KEYWORDS = _TYPE_KEYWORDS | {"default"}
_FIELD_KEYWORDS = frozenset({"default", "doc", "name", "order", "type", "aliases"})
_ORDERS = frozenset({"ascending", "descending", "ignore"})
_INT_MAX = 2**31 - 1

_JAVA_DOUBLE = re.compile(
    r"\s*([+-]?(?:NaN|Infinity|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?))[fFdD]?\s*"
)


class AvroReader:
    """Reads schemas one after another; each may refer to the named types of those before it.

    ``validate_names`` and ``validate_defaults`` hold for the texts read from then on: a new
    schema obeys rules that the stored ones, to which it refers, may break.
    """

    def __init__(self) -> None:
        self.validate_names = True
        self.validate_defaults = True
        self._known: dict[str, NamedType] = {}
        self._named: list[NamedType] = []

    def read(self, text: str) -> AvroType:
        """Return the schema of a text, all references resolved.

        Raises SchemaError when it is not valid.
        """
        self._named = []
        root = self._type(read_json(text, comments=True), None, "")
        for named in self._named:
            if isinstance(named, RecordType):
                for index, field in enumerate(named.fields):
                    field.type = self._resolved(field.type, f"{named.name.full}/fields/{index}")
        root = self._resolved(root, "")
        if self.validate_defaults:
            self._check_defaults()
        if isinstance(root, NamedType):
            return self._known[root.name.full]
        return root

    # -- types

    def _type(self, node: Any, namespace: str | None, path: str) -> AvroType:
        if isinstance(node, str):
            return self._reference(node, namespace)
        if is_object(node):
            return self._object(node, namespace, path)
        if is_array(node):
            branches = [self._type(n, namespace, f"{path}/{i}") for i, n in enumerate(node)]
            return UnionType(branches)
        raise SchemaError(f"not a schema: {_shown(node)}", path or "/")

    def _object(self, node: dict[str, Any], namespace: str | None, path: str) -> AvroType:
        kind = node.get("type")
        if not isinstance(kind, str):
            raise SchemaError("no type", path or "/")
        if kind in PRIMITIVES:
            return Primitive(kind, props=_props(node, _TYPE_KEYWORDS))
        if kind in ("record", "error"):
            return self._record(node, namespace, path)
        if kind == "enum":
            return self._enum(node, namespace, path)
        if kind == "fixed":
            return self._fixed(node, namespace, path)
        if kind == "array":
            items = self._type(_required(node, "items", path), namespace, f"{path}/items")
            return ArrayType(items, props=_props(node, _TYPE_KEYWORDS))
        if kind == "map":
            values = self._type(_required(node, "values", path), namespace, f"{path}/values")
            return MapType(values, props=_props(node, _TYPE_KEYWORDS))
        return self._reference(kind, namespace)

    def _reference(self, name: str, namespace: str | None) -> AvroType:
        if name in PRIMITIVES:
            return Primitive(name)
        full = f"{namespace}.{name}" if namespace and "." not in name else name
        found = self._known.get(full) or self._known.get(name)
        return found or Unresolved(full_name=full)

    def _record(self, node: dict[str, Any], namespace: str | None, path: str) -> RecordType:
        name = self._name(node, namespace, path)
        record = RecordType(
            name,
            _text(node, "doc"),
            self._aliases(node, name, path),
            node["type"] == "error",
            props=_props(node, _TYPE_KEYWORDS),
        )
        fields = node.get("fields")
        if not is_array(fields):
            raise SchemaError(f"record {name.full} has no fields", path or "/")
        for index, field_node in enumerate(fields):
            field = self._field(field_node, name.namespace, f"{path}/fields/{index}")
            if field.name in record.by_name:
                raise SchemaError(f"duplicate field {field.name}", f"{path}/fields/{index}")
            record.fields.append(field)
            record.by_name[field.name] = field
        self._define(record, path)
        return record

    def _field(self, node: Any, namespace: str | None, path: str) -> Field:
        if not is_object(node):
            raise SchemaError("a field must be an object", path)
        name = _text(node, "name")
        if name is None:
            raise SchemaError("field has no name", path)
        self._check_simple_name(name, path)
        field_type = self._type(_required(node, "type", path), namespace, f"{path}/type")
        order = node.get("order", "ascending")
        if not isinstance(order, str) or order.lower() not in _ORDERS:
            raise SchemaError(f"unknown order {_shown(order)}", path)
        default = node.get("default")
        if isinstance(default, str) and field_type.kind in ("float", "double"):
            default = _java_double_of(default, path)
        return Field(
            name,
            field_type,
            _text(node, "doc"),
            "default" in node,
            default,
            order.lower(),
            _alias_texts(node, path),
            _props(node, _FIELD_KEYWORDS),
        )

    def _enum(self, node: dict[str, Any], namespace: str | None, path: str) -> EnumType:
        name = self._name(node, namespace, path)
        symbols = node.get("symbols")
        if not is_array(symbols):
            raise SchemaError(f"enum {name.full} has no symbols", path or "/")
        seen: set[str] = set()
        for symbol in symbols:
            if not isinstance(symbol, str):
                raise SchemaError(f"a symbol must be a string: {_shown(symbol)}", f"{path}/symbols")
            self._check_simple_name(symbol, f"{path}/symbols")
            if symbol in seen:
                raise SchemaError(f"duplicate symbol {symbol}", f"{path}/symbols")
            seen.add(symbol)
        default = _text(node, "default")
        if default is not None and default not in seen:
            raise SchemaError(f"default {default} is not one of the symbols", f"{path}/default")
        enum = EnumType(
            name,
            _text(node, "doc"),
            self._aliases(node, name, path),
            tuple(symbols),
            default,
            props=_props(node, _ENUM_KEYWORDS),
        )
        self._define(enum, path)
        return enum

    def _fixed(self, node: dict[str, Any], namespace: str | None, path: str) -> FixedType:
        name = self._name(node, namespace, path)
        size = node.get("size")
        if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= _INT_MAX:
            raise SchemaError(f"fixed {name.full} has no valid size", f"{path}/size")
        fixed = FixedType(
            name,
            _text(node, "doc"),
            self._aliases(node, name, path),
            size,
            props=_props(node, _TYPE_KEYWORDS),
        )
        self._define(fixed, path)
        return fixed

    # -- names

    def _name(self, node: dict[str, Any], namespace: str | None, path: str) -> Name:
        written = _text(node, "name")
        if written is None:
            raise SchemaError("no name", path or "/")
        own = _text(node, "namespace")
        name = self._parsed_name(written, namespace if own is None else own, path)
        if name.full in PRIMITIVES:
            raise SchemaError(f"{name.full} is the name of a primitive type", path or "/")
        return name

    def _parsed_name(self, written: str, namespace: str | None, path: str) -> Name:
        if "." in written:
            namespace, _, written = written.rpartition(".")
        self._check_simple_name(written, path)
        return Name(written, namespace or None)

    def _aliases(self, node: dict[str, Any], name: Name, path: str) -> tuple[Name, ...]:
        aliases = (self._parsed_name(a, name.namespace, path) for a in _alias_texts(node, path))
        return tuple(dict.fromkeys(aliases))

    def _check_simple_name(self, name: str, path: str) -> None:
        if not name:
            raise SchemaError("empty name", path or "/")
        if self.validate_names and not _is_name(name):
            raise SchemaError(f"illegal name {_shown(name)}", path or "/")

    def _define(self, named: NamedType, path: str) -> None:
        for part in (named.name.namespace or "").split(".") if named.name.namespace else ():
            self._check_simple_name(part, path)
        known = self._known.setdefault(named.name.full, named)
        if known is not named and not equal_types(known, named):
            raise SchemaError(f"cannot redefine {named.name.full}", path or "/")
        self._named.append(named)

    # -- resolution

    def _resolved(self, node: AvroType, path: str) -> AvroType:
        """Return a type with its forward references replaced, named types left as they are."""
        if isinstance(node, Unresolved):
            found = self._known.get(node.full_name)
            if found is None:
                raise SchemaError(f"undefined name: {_shown(node.full_name)}", path or "/")
            return found
        if isinstance(node, ArrayType):
            node.items = self._resolved(node.items, f"{path}/items")
        elif isinstance(node, MapType):
            node.values = self._resolved(node.values, f"{path}/values")
        elif isinstance(node, UnionType):
            node.branches = [
                self._resolved(branch, f"{path}/{i}") for i, branch in enumerate(node.branches)
            ]
            _check_branches(node, path)
        return node

    def _check_defaults(self) -> None:
        check = DefaultCheck()
        for named in self._named:
            if not isinstance(named, RecordType):
                continue
            for field in named.fields:
                if field.has_default and not check.is_valid(field.type, field.default):
                    raise SchemaError(
                        f"invalid default for field {field.name} of {named.name.full}: "
                        f"{_shown(field.default)} is not of type {field.type.kind}",
                        f"{named.name.full}.{field.name}",
                    )


def _is_name(name: str) -> bool:
    rest = name[1:].replace("_", "a")
    return (name[0].isalpha() or name[0] == "_") and (not rest or rest.isalnum())


def _check_branches(union: UnionType, path: str) -> None:
    seen: set[str] = set()
    for branch in union.branches:
        if isinstance(branch, UnionType):
            raise SchemaError("a union within a union", path or "/")
        if branch.branch_name in seen:
            raise SchemaError(f"duplicate in union: {branch.branch_name}", path or "/")
        seen.add(branch.branch_name)


def _props(node: dict[str, Any], keywords: frozenset[str]) -> dict[str, Any]:
    return {key: value for key, value in node.items() if key not in keywords}


def _text(node: dict[str, Any], key: str) -> str | None:
    value = node.get(key)
    return value if isinstance(value, str) else None


def _required(node: dict[str, Any], key: str, path: str) -> Any:
    if key not in node:
        raise SchemaError(f"no {key}", path or "/")
    return node[key]


def _alias_texts(node: dict[str, Any], path: str) -> tuple[str, ...]:
    aliases = node.get("aliases", [])
    if not is_array(aliases):
        raise SchemaError("aliases must be an array", path or "/")
    for alias in aliases:
        if not isinstance(alias, str):
            raise SchemaError(f"an alias must be a string: {_shown(alias)}", path or "/")
    return tuple(dict.fromkeys(aliases))


def _java_double_of(text: str, path: str) -> float:
    match = _JAVA_DOUBLE.fullmatch(text)
    if match is None:
        raise SchemaError(f"default is not a number: {_shown(text)}", path)
    return float(match[1])


def _shown(value: Any) -> str:
    text = write_json(value)
    return text if len(text) <= 80 else f"{text[:80]}..."

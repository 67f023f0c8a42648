"""Equality of two types: may a name be defined twice?

As in Java, documentation, aliases and the default of an enum do not count; properties, names,
fields with their types, defaults and orders, symbols and sizes do.
"""

from typing import Any

from barnabas.registry.formats.avro.avro_types import (
    ArrayType,
    AvroType,
    EnumType,
    Field,
    FixedType,
    MapType,
    NamedType,
    RecordType,
    UnionType,
    Unresolved,
)
from barnabas.registry.formats.json_text import is_array, is_object


def equal_types(one: AvroType, other: AvroType) -> bool:
    """True when two types are the same definition."""
    return _equal(one, other, set())


def _equal(one: AvroType, other: AvroType, seen: set[tuple[int, int]]) -> bool:
    if one is other:
        return True
    if one.kind != other.kind or not equal_json(one.props, other.props):
        return False
    if isinstance(one, NamedType) and isinstance(other, NamedType) and one.name != other.name:
        return False
    if isinstance(one, RecordType) and isinstance(other, RecordType):
        pair = (id(one), id(other))
        if pair in seen:
            return True
        seen.add(pair)
        return len(one.fields) == len(other.fields) and all(
            _equal_fields(a, b, seen) for a, b in zip(one.fields, other.fields, strict=True)
        )
    if isinstance(one, UnionType) and isinstance(other, UnionType):
        return len(one.branches) == len(other.branches) and all(
            _equal(a, b, seen) for a, b in zip(one.branches, other.branches, strict=True)
        )
    if isinstance(one, ArrayType) and isinstance(other, ArrayType):
        return _equal(one.items, other.items, seen)
    if isinstance(one, MapType) and isinstance(other, MapType):
        return _equal(one.values, other.values, seen)
    if isinstance(one, EnumType) and isinstance(other, EnumType):
        return one.symbols == other.symbols
    if isinstance(one, FixedType) and isinstance(other, FixedType):
        return one.size == other.size
    if isinstance(one, Unresolved) and isinstance(other, Unresolved):
        return one.full_name == other.full_name
    return True


def _equal_fields(one: Field, other: Field, seen: set[tuple[int, int]]) -> bool:
    return (
        one.name == other.name
        and one.order == other.order
        and one.has_default == other.has_default
        and equal_json(one.default, other.default)
        and equal_json(one.props, other.props)
        and _equal(one.type, other.type, seen)
    )


def equal_json(one: Any, other: Any) -> bool:
    """True when two values of JSON are equal: unlike in Python, 1, 1.0 and true are not."""
    if is_object(one) and is_object(other):
        return one.keys() == other.keys() and all(equal_json(v, other[k]) for k, v in one.items())
    if is_array(one) and is_array(other):
        return len(one) == len(other) and all(
            equal_json(a, b) for a, b in zip(one, other, strict=True)
        )
    return type(one) is type(other) and (one == other or (one != one and other != other))

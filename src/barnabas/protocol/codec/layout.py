"""The wire layout of one version of a message: the resolved declarations.

Both codecs, the documentation and the tests against Kafka's definitions read it.
"""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from barnabas.protocol.fields import FIXED_CODES, Field, Kind
from barnabas.protocol.messages_base import Message, Struct


class WireField(NamedTuple):
    """A field in one version."""

    name: str
    field: Field
    kind: Kind
    compact: bool
    """True when the length is an unsigned varint, one higher than its value; otherwise two or four
    bytes.
    """
    nullable: bool
    struct: "Layout | None"
    """The layout of a struct, or of the elements of an array of structs."""


class Layout(NamedTuple):
    """A struct in one version: `fields` in order, then the tagged section."""

    type: type[Struct]
    version: int
    flexible: bool
    fields: tuple[WireField, ...]
    tagged: tuple[WireField, ...]
    """In the order of their tags."""
    absent: tuple[Field, ...]
    """Fields that are not in this version."""

    @property
    def size_min(self) -> int:
        """The minimum size of the struct in bytes."""
        return sum(field_size_min(field) for field in self.fields) + self.flexible


FIXED_SIZES = {"b": 1, "h": 2, "H": 2, "i": 4, "I": 4, "q": 8, "d": 8, "?": 1, "16s": 16, "B": 1}
"""Bytes of each `struct` code that the codec uses."""


def layout_of(message: type[Message], version: int) -> Layout:
    """Return the layout of a message.

    Raises ValueError when the message has no such version.
    """
    if not message.VERSIONS.has(version):
        low, high = message.VERSIONS
        raise ValueError(f"{message.__name__} has versions {low}-{high}, not {version}")
    return _layout(message, message, version)


def _layout(message: type[Message], owner: type[Struct], version: int) -> Layout:
    flexible = message.FLEXIBLE.has(version)
    present = [field for field in owner.FIELDS.values() if field.versions.has(version)]
    resolved = [_resolve(message, field, version, flexible) for field in present]
    tagged = [field for field in resolved if field.field.tag is not None]
    return Layout(
        owner,
        version,
        flexible,
        tuple(field for field in resolved if field.field.tag is None),
        tuple(sorted(tagged, key=lambda field: field.field.tag or 0)),
        tuple(field for field in owner.FIELDS.values() if not field.versions.has(version)),
    )


def _resolve(message: type[Message], field: Field, version: int, flexible: bool) -> WireField:
    struct = None
    if field.struct:
        found = message.STRUCTS.get(field.struct)
        if found is None:
            raise TypeError(f"{message.__name__}.{field.name}: unknown struct {field.struct!r}")
        struct = _layout(message, found, version)
    return WireField(
        field.name,
        field,
        field.kind,
        flexible and field.flexible,
        field.nullable.has(version),
        struct,
    )


def has_records(layout: Layout) -> bool:
    """True when the struct contains record batches, at any depth."""
    return any(
        field.kind is Kind.RECORDS or (field.struct is not None and has_records(field.struct))
        for field in (*layout.fields, *layout.tagged)
    )


def strings(layout: Layout) -> int:
    """Return the number of strings in a struct, including arrays of strings."""
    found = 0
    for field in (*layout.fields, *layout.tagged):
        found += Kind.STRING in (field.kind, field.field.element)
        if field.struct is not None:
            found += strings(field.struct)
    return found


def repeated(layout: Layout) -> set[type[Struct]]:
    """Return the structs that occur at more than one place in a message."""
    found = Counter(_structs(layout))
    return {struct for struct, times in found.items() if times > 1}


def _structs(layout: Layout) -> Iterator[type[Struct]]:
    for field in (*layout.fields, *layout.tagged):
        if field.struct is not None:
            yield field.struct.type
            yield from _structs(field.struct)


def field_size_min(field: WireField) -> int:
    """Return the minimum size, in bytes, of a field outside the tagged section."""
    if field.kind in FIXED_CODES:
        return FIXED_SIZES[FIXED_CODES[field.kind]]
    if field.kind is Kind.STRUCT:
        inner = 0 if field.struct is None else field.struct.size_min
        return 1 if field.nullable else inner
    if field.compact:
        return 1
    return 2 if field.kind is Kind.STRING else 4


def element_size_min(field: WireField) -> int:
    """Return the minimum size, in bytes, of an element of an array."""
    element = field.field.element
    if element is Kind.STRUCT:
        return 0 if field.struct is None else field.struct.size_min
    if element is Kind.STRING:
        return 1 if field.compact else 2
    return FIXED_SIZES[FIXED_CODES[element]] if element else 0

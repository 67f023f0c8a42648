"""A reader of DER, the binary form of certificates; it reads what their names need."""

from collections.abc import Iterator
from typing import Final, NamedTuple

SEQUENCE: Final = 0x30
SET: Final = 0x31
OBJECT_ID: Final = 0x06
CONTEXT_0: Final = 0xA0
CONTEXT_3: Final = 0xA3
UTC_TIME: Final = 0x17

_LONG_LENGTH: Final = 0x80
_LENGTH_BYTES_MAX: Final = 4


class Element(NamedTuple):
    """One element: its tag, its contents, and its whole encoding."""

    tag: int
    contents: bytes
    encoding: bytes


def elements(data: bytes) -> Iterator[Element]:
    """Yield the elements that follow each other.

    Raises ValueError when the data is not DER.
    """
    position = 0
    while position < len(data):
        start = position
        if position + 2 > len(data):
            raise ValueError("DER ends within an element")
        tag, length = data[position], data[position + 1]
        position += 2
        if length >= _LONG_LENGTH:
            count = length - _LONG_LENGTH
            if not 0 < count <= _LENGTH_BYTES_MAX or position + count > len(data):
                raise ValueError("DER has an invalid length")
            length = int.from_bytes(data[position : position + count], "big")
            position += count
        end = position + length
        if end > len(data):
            raise ValueError("DER ends within an element")
        yield Element(tag, data[position:end], data[start:end])
        position = end


def only(data: bytes, tag: int) -> bytes:
    """Return the contents of the first element. Raises ValueError when it has another tag."""
    first = next(elements(data), None)
    if first is None or first.tag != tag:
        raise ValueError(f"DER has no element {tag:#x}")
    return first.contents


def object_id(contents: bytes) -> str:
    """Return an object identifier in its dotted form."""
    arcs: list[int] = []
    value = 0
    for byte in contents:
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            arcs.append(value)
            value = 0
    if not arcs:
        raise ValueError("DER has an empty object identifier")
    first = min(arcs[0] // 40, 2)
    return ".".join(map(str, [first, arcs[0] - 40 * first, *arcs[1:]]))

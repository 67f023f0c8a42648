"""Functions that generated readers and writers call, and joining chunks into parts to send."""

import struct
from typing import Any, Final, NoReturn

from barnabas.protocol.errors import EncodingError, ProtocolError

Part = Any
"""Bytes-like, or a file slice that the transport can send."""

MALFORMED: Final = (struct.error, IndexError, UnicodeDecodeError, OverflowError)
"""The exceptions of a reader at the end of the data, or at text that is not UTF-8."""

pack = struct.pack

UNFIT: Final = (struct.error, TypeError, AttributeError, OverflowError, ValueError)
"""The exceptions of a writer for a value of a wrong type or range."""

_BYTES_TYPES: Final = frozenset((bytes, bytearray, memoryview))
# Shorter chunks are copied into one part: cheaper than another buffer in the system call.
_COPIED_MAX: Final = 4096
STRING_MAX: Final = 0x7FFF
"""The maximum bytes of a string, for every length encoding."""

_COUNT_MAX: Final = 0x7FFF_FFFF


def read_varint(data: Any, pos: int) -> tuple[int, int]:
    """Read an unsigned varint of up to five bytes (32 bits); return it and the next position."""
    result = 0
    for shift in (0, 7, 14, 21):
        byte = data[pos]
        pos += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, pos
    byte = data[pos]
    if byte > 0x0F:
        raise ProtocolError("a varint has more than 32 bits")
    return result | byte << 28, pos + 1


def varint(value: int) -> bytes:
    """Return an unsigned varint."""
    if value < 0:
        raise EncodingError(f"{value} is not an unsigned varint")
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


VARINTS: Final = [bytes((value,)) for value in range(0x80)]
"""The one-byte varints."""


def read_compact_text(data: Any, pos: int, nullable: bool, what: str) -> tuple[str | None, int]:
    """Read a string with a compact length, or null; return it and the position after it."""
    length, pos = read_varint(data, pos)
    if length == 0 and nullable:
        return None, pos
    if not 0 < length <= STRING_MAX + 1:
        bad_length(length - 1, what)
    end = pos + length - 1
    return str(data[pos:end], "utf-8"), end


def read_compact_count(
    data: Any, pos: int, size: int, least: int, nullable: bool, what: str
) -> tuple[int, int]:
    """Read the count of an array with elements of at least `least` bytes; -1 for null."""
    count, pos = read_varint(data, pos)
    if count == 0 and not nullable:
        bad_length(-1, what)
    if (count - 1) * least > size - pos:
        bad_count(count - 1, size - pos, what)
    return count - 1, pos


def bad_length(length: int, what: str) -> NoReturn:
    """Raise ProtocolError for a length that is negative, too high, or an invalid null."""
    raise ProtocolError(f"{what} has length {length}")


def bad_count(count: int, left: int, what: str) -> NoReturn:
    """Raise ProtocolError for an array that cannot fit into the remaining bytes."""
    raise ProtocolError(f"{what} declares {count} elements in {left} bytes")


def bad_marker(marker: int, what: str) -> NoReturn:
    """Raise ProtocolError for an invalid byte before a nullable struct."""
    raise ProtocolError(f"{what} has the marker {marker}, neither null nor present")


def read_unknown(data: Any, pos: int, count: int, owner: Any) -> int:
    """Store the `count` undeclared tagged fields at `pos`; return the position after them."""
    if count * 2 > len(data) - pos:
        bad_count(count, len(data) - pos, "a tagged section")
    unknown: dict[int, bytes] = {}
    for _ in range(count):
        tag, pos = read_varint(data, pos)
        size, pos = read_varint(data, pos)
        end = pos + size
        if end > len(data):
            bad_length(size, f"tagged field {tag}")
        if tag in unknown:
            raise ProtocolError(f"tag {tag} occurs twice")
        unknown[tag] = bytes(data[pos:end])
        pos = end
    owner._unknown = unknown
    return pos


def write_tagged(append: Any, fields: list[tuple[int, bytes]]) -> None:
    """Write a tagged section; tags may come in any order, but each only once."""
    append(varint(len(fields)))
    last = -1
    for tag, value in sorted(fields):
        if tag <= last:
            raise EncodingError(f"tag {tag} is negative or occurs twice")
        last = tag
        append(varint(tag))
        append(varint(len(value)))
        append(value)


def uuid_bytes(value: bytes) -> bytes:
    """Return the value; `struct` would pad or truncate another size."""
    if len(value) != 16:
        raise EncodingError(f"a UUID has 16 bytes, not {len(value)}")
    return value


def too_long(length: int, what: str) -> NoReturn:
    """Raise EncodingError for a string that is too long for Kafka."""
    raise EncodingError(f"{what} takes {length} bytes, more than {STRING_MAX}")


def lacks(version: int, what: str) -> NoReturn:
    """Raise EncodingError for a value that the version cannot hold."""
    raise EncodingError(f"version {version} has no field {what}, whose value is not the default")


def gathered(chunks: list[Any]) -> list[Part]:
    """Join a message's chunks; large values and file slices stay separate parts."""
    parts: list[Part] = []
    start = 0
    for index, chunk in enumerate(chunks):
        if type(chunk) in _BYTES_TYPES and len(chunk) <= _COPIED_MAX:
            continue
        if start < index:
            parts.append(b"".join(chunks[start:index]))
        if len(chunk):
            parts.append(chunk)
        start = index + 1
    if start < len(chunks):
        parts.append(b"".join(chunks[start:]))
    return parts

"""The schema that a value names: a prefix of 0x00 and the id, or a header with the GUID.

Protobuf values have the path of their message between the prefix and the data: a count and the
indexes as zigzag varints, a single 0 standing for the first message.
"""

import uuid
from collections.abc import Sequence

import attrs

ID_MAGIC = 0
GUID_MAGIC = 1
KEY_HEADER = "__key_schema_id"
VALUE_HEADER = "__value_schema_id"

_ID_END = 5
_GUID_BYTES = 16
_DEPTH_MAX = 128


class FramingError(ValueError):
    """A value does not name its schema in a known way."""


@attrs.frozen
class FramedPayload:
    """The schema that a value names, by id or GUID, and the data after it."""

    schema_id: int | None
    guid: str | None
    data: bytes


def split_payload(
    value: bytes, headers: Sequence[tuple[str, bytes | None]] = (), header: str = VALUE_HEADER
) -> FramedPayload:
    """Return the schema and the data of a value.

    Raises FramingError when neither the header nor the value names a schema.
    """
    for name, content in headers:
        if name == header and content:
            return _from_header(content, value)
    if len(value) < _ID_END or value[0] != ID_MAGIC:
        raise FramingError("the value does not start with 0x00 and a schema id")
    return FramedPayload(int.from_bytes(value[1:_ID_END], "big"), None, value[_ID_END:])


def _from_header(content: bytes, value: bytes) -> FramedPayload:
    if content[0] == GUID_MAGIC and len(content) == 1 + _GUID_BYTES:
        return FramedPayload(None, str(uuid.UUID(bytes=content[1:])), value)
    if content[0] == ID_MAGIC and len(content) == _ID_END:
        return FramedPayload(int.from_bytes(content[1:], "big"), None, value)
    raise FramingError("the header of the schema has an unknown form")


def framed(schema_id: int, data: bytes) -> bytes:
    """Return a value with its prefix."""
    return bytes([ID_MAGIC]) + schema_id.to_bytes(4, "big") + data


def guid_header(guid: str) -> bytes:
    """Return the content of the header that names a schema."""
    return bytes([GUID_MAGIC]) + uuid.UUID(guid).bytes


def encode_indexes(indexes: Sequence[int]) -> bytes:
    """Return the path of a message."""
    if list(indexes) == [0]:
        return b"\x00"
    return b"".join(_zigzag(number) for number in (len(indexes), *indexes))


def decode_indexes(data: bytes) -> tuple[tuple[int, ...], bytes]:
    """Return the path of a message and the data after it.

    Raises FramingError when it is cut short or absurd.
    """
    count, at = _read_zigzag(data, 0)
    if count == 0:
        return (0,), data[at:]
    if not 0 < count <= _DEPTH_MAX:
        raise FramingError(f"the path of the message has {count} parts")
    indexes: list[int] = []
    for _ in range(count):
        index, at = _read_zigzag(data, at)
        indexes.append(index)
    return tuple(indexes), data[at:]


def _zigzag(number: int) -> bytes:
    number = (number << 1) ^ (number >> 63)
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _read_zigzag(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while at < len(data) and shift <= 63:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
        shift += 7
    raise FramingError("the path of the message is cut short")

"""Codecs of keys and values in Python, for views: the formats of the serdes of streams.

A view decodes a row when it is read, so its codec says what a reader of the view gets: text,
numbers, bytes, or what JSON holds.
"""

import json
import struct
import uuid
from typing import Any, Final

import attrs


@attrs.frozen
class BytesCodec:
    """Bytes as they are."""

    def encode(self, value: Any) -> bytes:
        """Return the bytes. Raises ValueError for anything else."""
        if not isinstance(value, bytes):
            raise ValueError(f"{value!r} is not bytes")
        return value

    def decode(self, data: bytes) -> Any:
        """Return the bytes."""
        return data


@attrs.frozen
class TextCodec:
    """Text in UTF-8; bytes that are not become U+FFFD, as in Java."""

    def encode(self, value: Any) -> bytes:
        """Return the bytes of a text. Raises ValueError for anything else."""
        if not isinstance(value, str):
            raise ValueError(f"{value!r} is not a text")
        return value.encode()

    def decode(self, data: bytes) -> Any:
        """Return the text."""
        return data.decode(errors="replace")


@attrs.frozen
class UuidCodec:
    """A UUID as text."""

    def encode(self, value: Any) -> bytes:
        """Return the bytes of a UUID, or of its text. Raises ValueError."""
        return str(value if isinstance(value, uuid.UUID) else uuid.UUID(str(value))).encode()

    def decode(self, data: bytes) -> Any:
        """Return the text."""
        return data.decode(errors="replace")


@attrs.frozen
class NumberCodec:
    """A number of fixed length, big-endian."""

    packing: str
    """A format of `struct`."""

    def encode(self, value: Any) -> bytes:
        """Return the bytes of a number. Raises ValueError for anything else, or out of range."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"{value!r} is not a number")
        try:
            return struct.pack(self.packing, value)
        except (struct.error, OverflowError) as error:
            raise ValueError(f"{value!r} does not fit: {error}") from None

    def decode(self, data: bytes) -> Any:
        """Return the number. Raises ValueError for another number of bytes."""
        try:
            return struct.unpack(self.packing, data)[0]
        except struct.error as error:
            raise ValueError(f"{data!r} is not a number: {error}") from None


@attrs.frozen
class JsonCodec:
    """JSON, without spaces where it is written."""

    def encode(self, value: Any) -> bytes:
        """Return the JSON of a value. Raises ValueError."""
        try:
            return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
        except TypeError as error:
            raise ValueError(f"{value!r} is not JSON: {error}") from None

    def decode(self, data: bytes) -> Any:
        """Return what the JSON holds. Raises ValueError."""
        return json.loads(data)


Codecs = BytesCodec | TextCodec | UuidCodec | NumberCodec | JsonCodec

CODECS: Final[dict[str, Codecs]] = {
    "bytes": BytesCodec(),
    "string": TextCodec(),
    "uuid": UuidCodec(),
    "short": NumberCodec(">h"),
    "integer": NumberCodec(">i"),
    "long": NumberCodec(">q"),
    "float": NumberCodec(">f"),
    "double": NumberCodec(">d"),
    "json": JsonCodec(),
}
"""Codecs by the names of the serdes."""

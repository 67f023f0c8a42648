"""The records of MirrorMaker 2's own topics: heartbeats, checkpoints, offset syncs.

Keys and values are big-endian integers, and strings with a length of 16 bits. The values of
heartbeats and checkpoints begin with the version of their format, 0.
"""

import struct
from typing import Final

import attrs

_SHORT: Final = struct.Struct(">h")
_INT: Final = struct.Struct(">i")
_LONG: Final = struct.Struct(">q")
_OFFSETS: Final = struct.Struct(">qq")
_STRING_MAX: Final = 0x7FFF
_VERSION: Final = 0


class InternalRecordError(ValueError):
    """Bytes that cannot be a record of MirrorMaker 2, or a text that is too long for one."""


@attrs.frozen
class Heartbeat:
    """A record of the topic `heartbeats` at the target."""

    source: str
    target: str
    timestamp_ms: int

    def key(self) -> bytes:
        """Return the key. Raises InternalRecordError."""
        return _string(self.source) + _string(self.target)

    def value(self) -> bytes:
        """Return the value."""
        return _SHORT.pack(_VERSION) + _LONG.pack(self.timestamp_ms)

    @classmethod
    def of(cls, key: bytes | None, value: bytes | None) -> "Heartbeat":
        """Return a record. Raises InternalRecordError."""
        names, rest = _Fields(key), _Fields(value)
        rest.version()
        return cls(names.string(), names.string(), rest.long())


@attrs.frozen
class Checkpoint:
    """The position of a group in one partition, at both clusters."""

    group: str
    topic: str
    """The name at the target."""
    partition: int
    upstream: int
    """The offset at the source."""
    downstream: int
    """The offset at the target."""
    metadata: str = ""

    def key(self) -> bytes:
        """Return the key. Raises InternalRecordError."""
        return _string(self.group) + _string(self.topic) + _INT.pack(self.partition)

    def value(self) -> bytes:
        """Return the value. Raises InternalRecordError."""
        offsets = _OFFSETS.pack(self.upstream, self.downstream)
        return _SHORT.pack(_VERSION) + offsets + _string(self.metadata)

    @classmethod
    def of(cls, key: bytes | None, value: bytes | None) -> "Checkpoint":
        """Return a record. Raises InternalRecordError."""
        where, rest = _Fields(key), _Fields(value)
        rest.version()
        return cls(
            where.string(),
            where.string(),
            where.int(),
            rest.long(),
            rest.long(),
            rest.string(),
        )


@attrs.frozen
class OffsetSync:
    """One record as both clusters have it: its offset at the source, and at the target."""

    topic: str
    """The name at the source."""
    partition: int
    upstream: int
    downstream: int

    def key(self) -> bytes:
        """Return the key. Raises InternalRecordError."""
        return _string(self.topic) + _INT.pack(self.partition)

    def value(self) -> bytes:
        """Return the value."""
        return _OFFSETS.pack(self.upstream, self.downstream)

    @classmethod
    def of(cls, key: bytes | None, value: bytes | None) -> "OffsetSync":
        """Return a record. Raises InternalRecordError."""
        where, rest = _Fields(key), _Fields(value)
        return cls(where.string(), where.int(), rest.long(), rest.long())


def _string(text: str) -> bytes:
    data = text.encode()
    if len(data) > _STRING_MAX:
        raise InternalRecordError(f"a text of {len(data)} bytes is longer than {_STRING_MAX}")
    return _SHORT.pack(len(data)) + data


class _Fields:
    """Reads the fields of a key or a value in order."""

    def __init__(self, data: bytes | None) -> None:
        self._data = data or b""
        self._pos = 0

    def version(self) -> None:
        (found,) = self._unpack(_SHORT)
        if found != _VERSION:
            raise InternalRecordError(f"the format has version {found}, and 0 is supported")

    def int(self) -> int:
        (found,) = self._unpack(_INT)
        return found

    def long(self) -> "int":
        (found,) = self._unpack(_LONG)
        return found

    def string(self) -> str:
        (size,) = self._unpack(_SHORT)
        data = self._data[self._pos : self._pos + max(0, size)]
        if size < 0 or len(data) < size:
            raise InternalRecordError(f"a text of {size} bytes exceeds the {len(data)} left")
        self._pos += size
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise InternalRecordError(f"a text is not UTF-8: {error}") from None

    def _unpack(self, fields: struct.Struct) -> tuple["int", ...]:
        end = self._pos + fields.size
        if end > len(self._data):
            raise InternalRecordError(f"{len(self._data)} bytes end within a field")
        found = fields.unpack_from(self._data, self._pos)
        self._pos = end
        return found

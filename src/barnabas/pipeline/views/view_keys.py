"""The keys of a view: from a record's key to the key and the window of a row, and back.

A windowed key has the format of Kafka Streams' serializers: the key, then the start of the window
in ms (time windows), or its end and its start (sessions), each in 8 bytes.
"""

import enum
import struct
from typing import Final, NamedTuple

import attrs

_TIME: Final = struct.Struct(">q")
_SESSION: Final = struct.Struct(">qq")


class KeyForm(enum.StrEnum):
    """The parts of a topic's keys beside the key itself."""

    PLAIN = "plain"
    TIME_WINDOW = "time-window"
    SESSION = "session"


class RowKey(NamedTuple):
    """The key of a row. Rows without a window have a window from 0 to 0."""

    key: bytes
    start_ms: int = 0
    end_ms: int = 0


class BadViewKeyError(Exception):
    """A record's key does not have the form that the view expects."""


@attrs.frozen
class ViewKeys:
    """The form of a topic's keys; time windows have a size."""

    form: KeyForm = KeyForm.PLAIN
    size_ms: int = 0

    def __attrs_post_init__(self) -> None:
        """Raise ValueError for time windows without a size, and for a size of others."""
        if (self.form is KeyForm.TIME_WINDOW) != (self.size_ms > 0):
            raise ValueError(f"a {self.form} key with a window size of {self.size_ms} ms")

    @property
    def is_windowed(self) -> bool:
        """True when rows have windows."""
        return self.form is not KeyForm.PLAIN

    def row_key(self, key: bytes) -> RowKey:
        """Return the row's key of a record's key. Raises BadViewKeyError."""
        if self.form is KeyForm.PLAIN:
            return RowKey(key)
        packing = _TIME if self.form is KeyForm.TIME_WINDOW else _SESSION
        if len(key) < packing.size:
            raise BadViewKeyError(f"a {self.form} key of {len(key)} bytes: {key!r}")
        own, times = key[: -packing.size], packing.unpack(key[-packing.size :])
        end, start = (times[0] + self.size_ms, times[0]) if len(times) == 1 else times
        return RowKey(own, start, end)

    def record_key(self, row: RowKey) -> bytes:
        """Return the record's key of a row's key."""
        match self.form:
            case KeyForm.PLAIN:
                return row.key
            case KeyForm.TIME_WINDOW:
                return row.key + _TIME.pack(row.start_ms)
            case KeyForm.SESSION:
                return row.key + _SESSION.pack(row.end_ms, row.start_ms)

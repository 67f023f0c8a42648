"""Rows of kernels, and the order in which a kernel takes them.

Kafka Streams takes the rows of a partition in the order of their offsets, and of several partitions
the one whose next row has the lowest timestamp. So a row comes after all rows before it in its
partition, at the partition's stream time: the largest timestamp up to it.
"""

import copy
import enum
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

Value: TypeAlias = Any
"""Plain data: None, bool, int, float, str, bytes, Decimal, and lists and dicts of these."""

Joiner: TypeAlias = Callable[[bytes | None, Value, Value], Value]
"""(key, left value, right value) -> result."""

Initializer: TypeAlias = Callable[[], Value]

Aggregator: TypeAlias = Callable[[bytes, Value, Value], Value]
"""(key, value, aggregate) -> aggregate."""

Headers: TypeAlias = Sequence[tuple[str, bytes | None]]

_MUTABLE: Final = (list, dict)
_WINDOW: Final = struct.Struct(">qq")

UNKNOWN_MS: Final = -1
"""No time, as a timestamp."""
BEHIND_ALL_MS: Final = 2**63 - 1
"""The stream time of rows that come after all others."""


class Side(enum.IntEnum):
    """The input of a kernel that a row comes from."""

    LEFT = 0
    """The only input, the stream of a stream-table join, or the left table or stream."""
    RIGHT = 1
    """The table of a stream-table join, or the right table or stream."""
    TIME = 2
    """No record: the stream time of a partition has reached the row's timestamp."""
    CLOCK = 3
    """No record: the wall clock has reached the row's timestamp."""
    LATE = 4
    """No record: the offset is the number of rows that a kernel dropped as late."""
    READ = 5
    """No record: how far a partition has been read (`held_rows`)."""

    @property
    def is_time(self) -> bool:
        """True when a row of this side is a time, not a record."""
        return self in (Side.TIME, Side.CLOCK, Side.READ)


class Timed(enum.Enum):
    """The rows of a partition that move its stream time: those that the operator does not skip."""

    ALL = "all"
    KEYED = "keyed"
    """Rows with a key."""
    VALUED = "valued"
    """Rows with a key and a value."""

    def counts(self, key: bytes | None, value: object) -> bool:
        """True when a row moves stream time."""
        if self is Timed.ALL:
            return True
        return key is not None and (self is Timed.KEYED or value is not None)


class Window(NamedTuple):
    """A window of time. Time windows exclude the end, session and sliding windows include it."""

    start_ms: int
    end_ms: int


class Row(NamedTuple):
    """A record on its way into or out of a kernel; for a table, a change of a key.

    Keys are bytes. Values are what the kernel's functions take and return: bytes, or plain data
    where serializers run before and after the kernel. A value of None is a tombstone in a
    table, and in a stream a record without a value.
    """

    key: bytes | None
    value: Value
    timestamp_ms: int
    side: Side = Side.LEFT
    partition: int = 0
    """The partition that the row came from, or its number among those of a repartition."""
    offset: int = 0
    headers: Headers = ()
    window: Window | None = None
    """The window of a windowed key."""
    old: Value = None
    """The value before this change, in rows of tables whose kernel sends old values."""
    stream_time_ms: int = UNKNOWN_MS
    """The largest timestamp of the partition in the micro-batch up to this row; UNKNOWN_MS before
    it is taken. It decides the order."""
    sequence: int = 0
    """The place among the outputs of the kernel before; 0 in a record of a topic."""
    before_ms: int = UNKNOWN_MS
    """The stream time of the partition at the end of the micro-batch before."""

    @property
    def reached_ms(self) -> int:
        """Return the stream time of the partition with this row."""
        return max(self.stream_time_ms, self.before_ms)


def identity(row: Row) -> bytes:
    """Return the key of a row as the key of a store: with its window, when it has one.

    Raises ValueError when the row has no key.
    """
    if row.key is None:
        raise ValueError("a row without a key has no entry in a store")
    return row.key if row.window is None else row.key + _WINDOW.pack(*row.window)


def own(value: Value) -> Value:
    """Return a value that a user's function may change: a copy of lists and dicts."""
    return copy.deepcopy(value) if type(value) in _MUTABLE else value


def in_stream_order(
    rows: Iterable[Row], first: Side = Side.LEFT, timed: Timed = Timed.ALL
) -> list[Row]:
    """Return rows of one micro-batch in the order of Kafka Streams, with their stream time.

    At the same stream time, rows of the side `first` come first, then outputs of another kernel in
    their order, then rows of lower partitions; times come last. Rows that `timed` does not count
    have the stream time of the row before. The wall clock comes after all rows.
    """
    by_offset = sorted(rows, key=_place)
    reached: dict[tuple[int, int], int] = {}
    stamped: list[tuple[int, int, int, int, int, Row]] = []
    for index, row in enumerate(by_offset):
        source = (row.side, row.partition)
        time_ms = BEHIND_ALL_MS if row.side is Side.CLOCK else row.stream_time_ms
        if time_ms == UNKNOWN_MS:
            time_ms = reached.get(source, UNKNOWN_MS)
            if timed.counts(row.key, row.value):
                time_ms = reached[source] = max(row.timestamp_ms, time_ms)
        rank = rank_of(row.side, first)
        stamped.append((time_ms, rank, row.sequence, row.partition, index, row))
    stamped.sort(key=_stream_place)
    return [
        row if row.stream_time_ms == time_ms else row._replace(stream_time_ms=time_ms)
        for time_ms, *_, row in stamped
    ]


def _place(row: Row) -> tuple[int, int, int]:
    return row.side, row.partition, row.offset


def _stream_place(
    entry: tuple[int, int, int, int, int, Row],
) -> tuple[int, int, int, int, int]:
    return entry[:5]


def in_sequence(outputs: Iterable[Row]) -> Iterator[Row]:
    """Yield outputs of a kernel with their place, for the kernel after it."""
    for place, row in enumerate(outputs, 1):
        yield row._replace(sequence=place)


def rank_of(side: Side, first: Side) -> int:
    """Return the place of a side among rows of the same stream time."""
    if side is Side.TIME:
        return 2
    return 0 if side is first else 1

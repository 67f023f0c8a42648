"""Windows of time, as values: the four kinds, their lengths, and the time that late records have.

A window closes when the newest timestamp that was read is later than its end by the grace. Records
that come after that are dropped.
"""

import datetime
import enum
import re
from typing import Final

import attrs

_UNITS_MS: Final = {
    "millisecond": 1,
    "second": 1_000,
    "minute": 60_000,
    "hour": 3_600_000,
    "day": 86_400_000,
    "week": 604_800_000,
}
_PART: Final = re.compile(r"\s*(\d+)\s*([a-z]+?)s?(?=\s|\d|$)", re.IGNORECASE)
_EXAMPLE: Final = "write for example '30 seconds', '1 minute' or '1 hour 30 minutes'"

Duration = str | datetime.timedelta
"""A length of time: text such as `5 minutes`, or a timedelta."""


def duration_ms(duration: Duration) -> int:
    """Return a length of time in milliseconds. Raises ValueError."""
    if isinstance(duration, datetime.timedelta):
        return duration // datetime.timedelta(milliseconds=1)
    position, total = 0, 0
    while found := _PART.match(duration, position):
        unit = _UNITS_MS.get(found[2].lower())
        if unit is None:
            raise ValueError(f"'{found[2]}' in '{duration}' is not a unit of time: {_EXAMPLE}")
        total += int(found[1]) * unit
        position = found.end()
    if position == 0 or duration[position:].strip():
        raise ValueError(f"'{duration}' is not a length of time: {_EXAMPLE}")
    return total


class WindowKind(enum.Enum):
    """The ways to cut time into windows."""

    TUMBLING = "tumbling"
    HOPPING = "hopping"
    SESSION = "session"
    SLIDING = "sliding"


@attrs.frozen
class Window:
    """A way to cut time into windows; made by `tumbling`, `hopping`, `session` and `sliding`."""

    kind: WindowKind
    size_ms: int
    """The length of a window; for sessions the gap without records that ends one."""
    advance_ms: int
    """The distance between the starts of two windows."""
    grace_ms: int

    def __attrs_post_init__(self) -> None:
        if self.size_ms <= 0:
            raise ValueError(f"a window must be longer than 0, not {self.size_ms} ms")
        if not 0 < self.advance_ms <= self.size_ms:
            raise ValueError(
                f"windows of {self.size_ms} ms cannot start every {self.advance_ms} ms: the "
                "distance must be above 0 and not above the length"
            )


def tumbling(size: Duration, *, grace: Duration = "0 seconds") -> Window:
    """Return windows that follow each other without overlap: `TimeWindows` of Kafka Streams."""
    size_ms = duration_ms(size)
    return Window(WindowKind.TUMBLING, size_ms, size_ms, duration_ms(grace))


def hopping(size: Duration, advance: Duration, *, grace: Duration = "0 seconds") -> Window:
    """Return windows that overlap: a new one starts every `advance`."""
    return Window(WindowKind.HOPPING, duration_ms(size), duration_ms(advance), duration_ms(grace))


def session(gap: Duration, *, grace: Duration = "0 seconds") -> Window:
    """Return windows of activity: one ends when a key has no record for longer than `gap`."""
    gap_ms = duration_ms(gap)
    return Window(WindowKind.SESSION, gap_ms, gap_ms, duration_ms(grace))


def sliding(size: Duration, *, grace: Duration = "0 seconds") -> Window:
    """Return windows around records: one for each distinct set of records at most `size` apart."""
    size_ms = duration_ms(size)
    return Window(WindowKind.SLIDING, size_ms, 1, duration_ms(grace))

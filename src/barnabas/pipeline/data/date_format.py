"""Dates as texts by Java's `SimpleDateFormat` patterns: English names, UTC, lenient.

Formatting has all letters. Parsing reads weeks and weekdays without using them, as
Java does when the pattern has a day of the month; zones are offsets, GMT and UTC.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

import attrs

from barnabas.pipeline.data.java_calendar import (
    MILLIS_PER_DAY,
    CivilTime,
    civil_time,
    days_of,
)
from barnabas.pipeline.data.java_values import wrapped

MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
WEEKDAYS: Final = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_LETTERS: Final = frozenset("GyMdkHmsSEDFwWahKzZYuXL")
_NUMBERS: Final = _LETTERS - frozenset("GEazZXML")
_NAME_LENGTH: Final = 3
_LONG_NAME: Final = 4
_BLANKS: Final = " \t"
_NUMBER: Final = re.compile(r"-?[0-9]+")
_GMT: Final = re.compile(
    r"GMT(?:([+-])([0-9]{1,2}):([0-9]{2}))?|UTC|UT|Coordinated Universal Time", re.I
)
_OFFSET: Final = re.compile(r"([+-])([0-9]{2})([0-9]{2})")
_ISO_OFFSETS: Final = {
    1: re.compile(r"Z|([+-])([0-9]{2})()"),
    2: re.compile(r"Z|([+-])([0-9]{2})([0-9]{2})"),
    3: re.compile(r"Z|([+-])([0-9]{2}):([0-9]{2})"),
}
_CENTURY_START: Final = 1940


class DatePatternError(ValueError):
    """A pattern is not valid."""


@attrs.frozen(slots=True)
class _Element:
    """A field (`letter` and its count), or a literal text."""

    letter: str
    count: int
    literal: str = ""

    @property
    def is_number(self) -> bool:
        """True for a field that is written in digits."""
        if self.letter in ("M", "L"):
            return self.count < _NAME_LENGTH
        return bool(self.letter) and self.letter in _NUMBERS


def _elements(pattern: str) -> list[_Element]:
    """Return the elements of a pattern. Raises DatePatternError."""
    found: list[_Element] = []
    at = 0
    while at < len(pattern):
        letter = pattern[at]
        if letter == "'":
            literal, at = _quoted(pattern, at)
            found.append(_Element("", 0, literal))
        elif letter.isascii() and letter.isalpha():
            if letter not in _LETTERS:
                raise DatePatternError(f"Illegal pattern character '{letter}'")
            end = at
            while end < len(pattern) and pattern[end] == letter:
                end += 1
            if letter == "X" and end - at > max(_ISO_OFFSETS):
                raise DatePatternError(f"invalid ISO 8601 format: length={end - at}")
            found.append(_Element(letter, end - at))
            at = end
        else:
            found.append(_Element("", 0, letter))
            at += 1
    return found


def _quoted(pattern: str, start: int) -> tuple[str, int]:
    """Return a literal in quotes and the place after it; two quotes are one."""
    if pattern.startswith("''", start):
        return "'", start + 2
    literal = ""
    at = start + 1
    while at < len(pattern):
        if pattern.startswith("''", at):
            literal += "'"
            at += 2
        elif pattern[at] == "'":
            return literal, at + 1
        else:
            literal += pattern[at]
            at += 1
    raise DatePatternError("Unterminated quote")


class DateFormat:
    """One pattern. `century_start` is the first year that a year of two digits can mean."""

    def __init__(self, pattern: str, century_start: int = _CENTURY_START) -> None:
        self.pattern = pattern
        self._elements = _elements(pattern)
        self._century_start = century_start

    def format(self, ms: int) -> str:
        """Return the text of milliseconds since 1970."""
        time = civil_time(ms)
        return "".join(
            _FORMATTERS[each.letter](time, each.count) if each.letter else each.literal
            for each in self._elements
        )

    def parse(self, text: str) -> int | None:
        """Return the milliseconds since 1970 of a text, None when it does not begin as the pattern.

        Any text after the pattern's end is ignored, as Java does.
        """
        fields: dict[str, int] = {}
        at = 0
        for index, element in enumerate(self._elements):
            if not element.letter:
                if not text.startswith(element.literal, at):
                    return None
                at += len(element.literal)
                continue
            while at < len(text) and text[at] in _BLANKS:
                at += 1
            behind = self._elements[index + 1 : index + 2]
            is_fixed = bool(behind) and behind[0].is_number
            end = self._read(element, text, at, fields, is_fixed=is_fixed)
            if end is None:
                return None
            at = end
        return _milliseconds(fields)

    def _read(
        self, element: _Element, text: str, at: int, fields: dict[str, int], *, is_fixed: bool
    ) -> int | None:
        """Read one field into `fields`; return the place after it, None when it is not there.

        A field is of fixed width when a number follows without a literal between them.
        """
        letter, count = element.letter, element.count
        names = _NAMES.get(letter)
        if names is not None and (letter not in "ML" or count >= _NAME_LENGTH):
            return _read_name(letter, names, text, at, fields)
        if letter in "zZX":
            return _read_zone(letter, count, text, at, fields)
        limit = at + count if is_fixed else len(text)
        if limit > len(text):
            return None
        match = _NUMBER.match(text, at, limit)
        if match is None:
            return None
        number = wrapped(int(match[0]), 32)
        if letter in "yY":
            if count <= 2 and re.fullmatch(r"[0-9]{2}", match[0]):
                number = self._year_of(number)
            letter = "y"
        fields.pop(letter, None)  # the order of the fields is the order of their last reading
        fields[letter] = number
        return match.end()

    def _year_of(self, two_digits: int) -> int:
        century, start = divmod(self._century_start, 100)
        return century * 100 + two_digits + (100 if two_digits < start else 0)


def _read_name(
    letter: str, names: Mapping[str, int], text: str, at: int, fields: dict[str, int]
) -> int | None:
    lowered = text[at:].lower()
    found = max((name for name in names if lowered.startswith(name)), key=len, default=None)
    if found is None:
        return None
    fields.pop(letter, None)
    fields["M" if letter == "L" else letter] = names[found]
    return at + len(found)


def _read_zone(letter: str, count: int, text: str, at: int, fields: dict[str, int]) -> int | None:
    pattern = _ISO_OFFSETS[count] if letter == "X" else _OFFSET
    match = pattern.match(text, at)
    if match is None and letter != "X":
        match = _GMT.match(text, at)
    if match is None:
        return None
    if match[1] is None:
        fields["z"] = 0
        return match.end()
    hours, minutes = int(match[2]), int(match[3] or 0)
    if hours >= 24 or minutes >= 60:
        return None
    fields["z"] = (hours * 60 + minutes) * (-1 if match[1] == "-" else 1)
    return match.end()


def _milliseconds(fields: dict[str, int]) -> int:
    year = fields.get("y", 1970)
    if fields.get("G") == 0:
        year = 1 - year
    order = list(fields)
    month = fields.get("M", fields.get("L", 1))
    if "D" in fields and ("d" not in fields or order.index("D") > order.index("d")):
        days = days_of(year, 1, fields["D"])
    else:
        days = days_of(year, month, fields.get("d", 1))
    minutes = _hour(fields, order) * 60 + fields.get("m", 0) - fields.get("z", 0)
    seconds = minutes * 60 + fields.get("s", 0)
    return days * MILLIS_PER_DAY + seconds * 1000 + fields.get("S", 0)


def _hour(fields: dict[str, int], order: list[str]) -> int:
    """Return the hour of the letter that was read last."""
    letter = next((each for each in reversed(order) if each in "HkKh"), None)
    if letter is None:
        return 12 * fields.get("a", 0)
    hour = fields[letter]
    if letter == "H":
        return hour
    if letter == "k":
        return 0 if hour == 24 else hour
    if letter == "h" and hour == 12:
        hour = 0
    return hour + 12 * fields.get("a", 0)


def _lowered(names: tuple[str, ...], first: int) -> dict[str, int]:
    found: dict[str, int] = {}
    for number, name in enumerate(names, first):
        found[name.lower()] = number
        found[name[:_NAME_LENGTH].lower()] = number
    return found


_NAMES: Final[Mapping[str, Mapping[str, int]]] = {
    "G": {"bc": 0, "ad": 1},
    "M": _lowered(MONTHS, 1),
    "L": _lowered(MONTHS, 1),
    "E": _lowered(WEEKDAYS, 1),
    "a": {"am": 0, "pm": 1},
}


def _padded(number: int, count: int) -> str:
    return str(number).zfill(count)


def _year(year: int, count: int) -> str:
    year_of_era = year if year > 0 else 1 - year
    return _padded(year_of_era % 100, 2) if count == 2 else _padded(year_of_era, count)


def _month(time: CivilTime, count: int) -> str:
    if count < _NAME_LENGTH:
        return _padded(time.month, count)
    name = MONTHS[time.month - 1]
    return name if count >= _LONG_NAME else name[:_NAME_LENGTH]


def _weekday(time: CivilTime, count: int) -> str:
    name = WEEKDAYS[time.weekday - 1]
    return name if count >= _LONG_NAME else name[:_NAME_LENGTH]


def _week_year(time: CivilTime) -> tuple[int, int]:
    """Return week year and week: weeks begin on Sunday, and the first one contains January 1."""
    first = (days_of(time.year, 1, 1) + 4) % 7
    week = (time.day_of_year - 1 + first) // 7 + 1
    next_year_in = days_of(time.year + 1, 1, 1) - days_of(time.year, 1, 1) - time.day_of_year + 1
    if next_year_in <= 7 - time.weekday:
        return time.year + 1, 1
    return time.year, week


def _week_of_month(time: CivilTime) -> int:
    first = (days_of(time.year, time.month, 1) + 4) % 7
    return (time.day - 1 + first) // 7 + 1


_Formatter = Callable[[CivilTime, int], str]

_FORMATTERS: Final[Mapping[str, _Formatter]] = {
    "G": lambda t, n: "AD" if t.year > 0 else "BC",
    "y": lambda t, n: _year(t.year, n),
    "Y": lambda t, n: _year(_week_year(t)[0], n),
    "M": _month,
    "L": _month,
    "d": lambda t, n: _padded(t.day, n),
    "k": lambda t, n: _padded(t.hour or 24, n),
    "H": lambda t, n: _padded(t.hour, n),
    "m": lambda t, n: _padded(t.minute, n),
    "s": lambda t, n: _padded(t.second, n),
    "S": lambda t, n: _padded(t.millisecond, n),
    "E": _weekday,
    "u": lambda t, n: _padded((t.weekday + 5) % 7 + 1, n),
    "D": lambda t, n: _padded(t.day_of_year, n),
    "F": lambda t, n: _padded((t.day - 1) // 7 + 1, n),
    "w": lambda t, n: _padded(_week_year(t)[1], n),
    "W": lambda t, n: _padded(_week_of_month(t), n),
    "a": lambda t, n: "PM" if t.hour >= 12 else "AM",
    "h": lambda t, n: _padded(t.hour % 12 or 12, n),
    "K": lambda t, n: _padded(t.hour % 12, n),
    "z": lambda t, n: "Coordinated Universal Time" if n >= _LONG_NAME else "UTC",
    "Z": lambda t, n: "+0000",
    "X": lambda t, n: "Z",
}

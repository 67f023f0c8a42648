"""Ranges of versions as Maven writes them: `1.2` is that version, `[1,2)` and `(,3]` are ranges."""

import re
from typing import Final

_RANGE: Final = re.compile(r"([\[(])([^,\[\]()]*)(?:(,)([^,\[\]()]*))?([\])])")
_LATEST: Final = "latest"

Key = tuple[tuple[int, int, str], ...]


def includes(wanted: str, version: str) -> bool:
    """True when a version is in a range, or in one of several ranges."""
    if wanted.strip() in ("", _LATEST):
        return bool(wanted.strip())
    found = _RANGE.findall(as_range(wanted))
    return any(_is_between(_key(version), *each) for each in found)


def as_range(wanted: str) -> str:
    """Return a single version as the range that has only this version."""
    text = wanted.strip()
    return text if text[:1] in ("[", "(") else f"[{text},{text}]"


def _is_between(version: Key, start: str, low: str, comma: str, high: str, end: str) -> bool:
    lowest, highest = _key(low), _key(high if comma else low)
    if low.strip() and (version < lowest or (start == "(" and version == lowest)):
        return False
    is_open = comma and not high.strip()
    return bool(is_open) or version < highest or (end == "]" and version == highest)


def _key(version: str) -> Key:
    """Return what versions are compared by: numbers by value, zeros at the end do not count."""
    parts = [part for part in re.split(r"[.\-+]", version.strip().lower()) if part]
    while parts and parts[-1].strip("0") == "":
        parts.pop()
    return tuple((1, int(part), "") if part.isdecimal() else (0, 0, part) for part in parts)

"""Pages of entries in the order of their places: what a state reads and writes in part.

A page has the entries whose places are between its bound and the next page's. Only the pages that a
micro-batch looks into are decoded and encoded; the bytes of the others are copied. A page that is
too large is cut into halves at the place in its middle, and a small one is put to the page before
it, so the pages follow the number and the size of the entries.

A page's bytes are the msgpack of its entries one after the other, without the header of a map or
list: two pages become one by putting their bytes together.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, Final, NamedTuple, TypeAlias

import attrs

PAGE_ENTRIES: Final = 16
PAGE_BYTES: Final = 4_096
"""The limits of a page: a larger one costs more to open, and smaller ones have more bounds."""

Place: TypeAlias = Any
"""What entries are in the order of: a number, or the entry itself."""


class Page(NamedTuple):
    """Entries of neighbouring places as bytes."""

    bound: Place
    """No entry of this page has a lower place; that of the first page does not matter."""
    entries: int
    data: bytes

    def joins(self, count: int, size: int) -> bool:
        """True when this page and one before it fill no more than half a page."""
        limits = PAGE_ENTRIES // 2, PAGE_BYTES // 2
        return self.entries + count <= limits[0] and len(self.data) + size <= limits[1]


@attrs.define(eq=False)
class Pages:
    """Pages in order. They do not change: `replaced` returns others."""

    bounds: list[Place] = attrs.field(factory=list[Place])
    counts: list[int] = attrs.field(factory=list[int])
    sizes: list[int] = attrs.field(factory=list[int])
    data: bytes = b""
    _starts: list[int] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._starts = [0, *accumulate(self.sizes)]
        if not len(self.bounds) == len(self.counts) == len(self.sizes):
            raise ValueError("the pages of a store have unequal numbers of bounds and sizes")
        if self._starts[-1] != len(self.data):
            raise ValueError(f"pages of {self._starts[-1]} bytes are in {len(self.data)} bytes")

    def __len__(self) -> int:
        """Return the number of pages."""
        return len(self.bounds)

    def index(self, place: Place) -> int:
        """Return the number of the page that a place belongs to; 0 when there is no page."""
        return max(0, bisect_right(self.bounds, place) - 1)

    def count(self, index: int) -> int:
        """Return the number of entries of a page; 0 when there is no such page."""
        return self.counts[index] if index < len(self.counts) else 0

    def content(self, index: int) -> bytes:
        """Return the bytes of a page."""
        return self.data[self._starts[index] : self._starts[index + 1]]

    def plain(self) -> list[Any]:
        """Return the pages as plain data."""
        return [self.bounds, self.counts, self.sizes, self.data]

    def replaced(self, changes: Mapping[int, Sequence[Page]]) -> "Pages":
        """Return the pages with others in place of those with these numbers."""
        found = _Joined()
        end = 0
        for index in sorted(changes):
            found.copy(self, end, index)
            for page in changes[index]:
                found.add(page)
            end = index + 1
        found.copy(self, end, len(self))
        return Pages(found.bounds, found.counts, found.sizes, b"".join(found.data))

    def span(self, start: int, end: int) -> memoryview:
        """Return the bytes of pages that follow each other."""
        return memoryview(self.data)[self._starts[start] : self._starts[end]]


class _Joined:
    """Pages that are put together in order."""

    def __init__(self) -> None:
        self.bounds: list[Place] = []
        self.counts: list[int] = []
        self.sizes: list[int] = []
        self.data: list[bytes | memoryview] = []

    def copy(self, pages: Pages, start: int, end: int) -> None:
        """Add pages as they are."""
        if start < end:
            self.bounds += pages.bounds[start:end]
            self.counts += pages.counts[start:end]
            self.sizes += pages.sizes[start:end]
            self.data.append(pages.span(start, end))

    def add(self, page: Page) -> None:
        """Add a page, to the one before it when both are small."""
        if not self.bounds or not page.joins(self.counts[-1], self.sizes[-1]):
            self.bounds.append(page.bound)
            self.counts.append(page.entries)
            self.sizes.append(len(page.data))
        else:
            self.counts[-1] += page.entries
            self.sizes[-1] += len(page.data)
        self.data.append(page.data)


def may_fit(count: int) -> bool:
    """True when this number of entries may be one page, if they are not too large."""
    return count <= PAGE_ENTRIES


def fits(count: int, data: bytes) -> bool:
    """True when entries are one page."""
    return count <= 1 or (may_fit(count) and len(data) <= PAGE_BYTES)


def cut(
    entries: Sequence[Any],
    bound: Place,
    place_of: Callable[[Any], Place],
    packed: Callable[[Sequence[Any]], bytes],
) -> Iterator[Page]:
    """Yield the pages of entries, which are in the order of their places.

    `bound` is that of the first page. Entries of equal places are in one page of any size.
    """
    if not entries:
        return
    data = packed(entries) if may_fit(len(entries)) else b""
    middle = 0 if data and fits(len(entries), data) else _middle(entries, place_of)
    if middle:
        yield from cut(entries[:middle], bound, place_of, packed)
        yield from cut(entries[middle:], place_of(entries[middle]), place_of, packed)
    else:
        yield Page(bound, len(entries), data or packed(entries))


def _middle(entries: Sequence[Any], place_of: Callable[[Any], Place]) -> int:
    """Return the number near the middle where a new place begins; 0 when all places are equal."""
    half = len(entries) // 2
    for number in (*range(half, len(entries)), *range(half - 1, 0, -1)):
        if place_of(entries[number]) != place_of(entries[number - 1]):
            return number
    return 0

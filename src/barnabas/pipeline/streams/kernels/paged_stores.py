"""Stores of kernels that are read and written in pages: maps by key, maps in order, and queues.

A map has its entries by the hash of their keys, so that keys which resemble each other are in
different pages. A queue has them in its own order.
"""

from collections.abc import (
    ItemsView,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    Sequence,
    ValuesView,
)
from decimal import Decimal
from heapq import heapify, heappop, heappush
from math import isfinite
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeAlias, cast

import xxhash

from barnabas.pipeline.streams.kernels.kernel_rows import Value
from barnabas.pipeline.streams.kernels.plain_data import pack, unpack
from barnabas.pipeline.streams.kernels.state_pages import Page, Pages, cut, fits, may_fit

Key: TypeAlias = bytes | str | int

Store: TypeAlias = MutableMapping[Key, Value]
"""Entries of a kernel, mostly by the bytes of the record's key."""

_BITS: Final = 0xFFFF_FFFF
_MISSING: Final = object()
_PLACE: Final = itemgetter(0)
_MAPPING: Final = "map"
_ORDERED: Final = "ordered"
_QUEUE: Final = "queue"


class _Kind(NamedTuple):
    """The first bytes of a map or a list in msgpack, by the number of its entries."""

    few: int
    many: bytes
    most: bytes


_MAP: Final = _Kind(0x80, b"\xde", b"\xdf")
_LIST: Final = _Kind(0x90, b"\xdc", b"\xdd")


class DamagedPageError(Exception):
    """The bytes of a page are not its entries."""


class PagedStore(MutableMapping[Key, Value]):
    """A dict of plain data that decodes the pages that it looks into. It has no order."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self._opened: dict[int, dict[Key, Value]] = {}
        self._closed = sum(pages.counts)  # entries of pages that are not open

    def _page(self, key: Key) -> dict[Key, Value]:
        index = self._pages.index(place_of(key))
        found = self._opened.get(index)
        return self._open(index) if found is None else found

    def _open(self, index: int) -> dict[Key, Value]:
        count = self._pages.count(index)
        found: dict[Key, Value] = _content(self._pages, index, _MAP) if count else {}
        self._closed -= count
        self._opened[index] = found
        return found

    def opened_pages(self) -> Iterator[dict[Key, Value]]:
        """Yield the entries of all pages, which are then open."""
        for index in range(len(self._pages) or 1):
            found = self._opened.get(index)
            yield self._open(index) if found is None else found

    @property
    def opened(self) -> int:
        """Return the number of pages that were looked into."""
        return len(self._opened)

    def __getitem__(self, key: Key) -> Value:
        return self._page(key)[key]

    def __setitem__(self, key: Key, value: Value) -> None:
        self._page(key)[key] = value

    def __delitem__(self, key: Key) -> None:
        del self._page(key)[key]

    def __contains__(self, key: object) -> bool:
        return key in self._page(cast(Key, key))

    def __len__(self) -> int:
        return self._closed + sum(map(len, self._opened.values()))

    def __iter__(self) -> Iterator[Key]:
        for page in self.opened_pages():
            yield from page

    def get(self, key: Key, default: Any = None) -> Value:
        """Return the value of a key, or the default."""
        return self._page(key).get(key, default)

    def pop(self, key: Key, default: Any = _MISSING) -> Value:
        """Remove a key and return its value, or the default. Raises KeyError without either."""
        page = self._page(key)
        return page.pop(key) if default is _MISSING else page.pop(key, default)

    def setdefault(self, key: Key, default: Any = None) -> Value:
        """Return the value of a key, which is now the default when it had none."""
        return self._page(key).setdefault(key, default)

    def items(self) -> ItemsView[Key, Value]:
        """Return the entries, page by page."""
        return _Items(self)

    def values(self) -> ValuesView[Value]:
        """Return the values, page by page."""
        return _Values(self)

    def pages(self) -> Pages:
        """Return the pages as they are now."""
        changes = {
            index: pages_of_map(page, self._pages.bounds[index] if index else 0)
            for index, page in self._opened.items()
        }
        return self._pages.replaced(changes)


class _Items(ItemsView[Key, Value]):
    def __iter__(self) -> Iterator[tuple[Key, Value]]:
        for page in cast(PagedStore, self._mapping).opened_pages():
            yield from page.items()


class _Values(ValuesView[Value]):
    def __iter__(self) -> Iterator[Value]:
        for page in cast(PagedStore, self._mapping).opened_pages():
            yield from page.values()


class OrderedStore(MutableMapping[Key, Value]):
    """A store that yields its entries in the order in which their keys came, as a dict does.

    Each entry is kept with its number.
    """

    def __init__(self, numbered: Store, following: int) -> None:
        self.numbered = numbered
        """[number, value] by key."""
        self.following = following
        """The number of the next key."""

    @classmethod
    def of(cls, entries: Store) -> "OrderedStore":
        """Return a store of entries in their order."""
        numbered: Store = {key: [place, entries[key]] for place, key in enumerate(entries)}
        return cls(numbered, len(numbered))

    def __getitem__(self, key: Key) -> Value:
        return self.numbered[key][1]

    def __setitem__(self, key: Key, value: Value) -> None:
        found = self.numbered.get(key)
        if found is None:
            self.numbered[key] = [self.following, value]
            self.following += 1
        else:
            found[1] = value

    def __delitem__(self, key: Key) -> None:
        del self.numbered[key]

    def __contains__(self, key: object) -> bool:
        return key in self.numbered

    def __len__(self) -> int:
        return len(self.numbered)

    def __iter__(self) -> Iterator[Key]:
        size = len(self)
        for _, key in sorted((entry[0], key) for key, entry in self.numbered.items()):
            if len(self) != size:
                raise RuntimeError("the store changed its size during iteration")
            yield key

    def __reversed__(self) -> Iterator[Key]:
        return reversed(list(self))

    def __repr__(self) -> str:
        return repr(self.copy())

    def popitem(self) -> tuple[Key, Value]:
        """Remove and return the last entry. Raises KeyError when there is none."""
        if not self:
            raise KeyError("popitem(): the store is empty")
        key = next(reversed(self))
        return key, self.pop(key)

    def copy(self) -> dict[Key, Value]:
        """Return the entries as a dict."""
        return dict(self.items())


class DueQueue:
    """Entries in order, of which the first one is taken; they are lists that can be compared."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self._opened: dict[int, list[list[Value]]] = {}  # heaps
        self._count = sum(pages.counts)
        self._first = 0
        """The page with the first entry, or one before it."""

    @classmethod
    def of(cls, entries: Iterable[list[Value]]) -> "DueQueue":
        """Return a queue of entries in any order."""
        found = cls(Pages())
        for entry in sorted(entries):
            found.push(entry)
        return found

    def __eq__(self, other: object) -> bool:
        """True when both have the same entries."""
        return isinstance(other, DueQueue) and sorted(self.entries()) == sorted(other.entries())

    def entries(self) -> Iterator[list[Value]]:
        """Yield all entries, in no order."""
        for index in range(len(self._pages) or 1):
            yield from self._page(index)

    def __len__(self) -> int:
        """Return the number of entries."""
        return self._count

    def _page(self, index: int) -> list[list[Value]]:
        found = self._opened.get(index)
        return self._open(index) if found is None else found

    def _open(self, index: int) -> list[list[Value]]:
        found: list[list[Value]] = (
            _content(self._pages, index, _LIST) if self._pages.count(index) else []
        )
        heapify(found)
        self._opened[index] = found
        return found

    @property
    def opened(self) -> int:
        """Return the number of pages that were looked into."""
        return len(self._opened)

    def push(self, entry: list[Value]) -> None:
        """Add an entry."""
        index = self._pages.index(entry)
        heappush(self._page(index), entry)
        self._first = min(self._first, index)
        self._count += 1

    def _first_page(self) -> list[list[Value]]:
        if not self._count:
            raise IndexError("the queue is empty")
        while not (found := self._page(self._first)):
            self._first += 1
        return found

    @property
    def first(self) -> list[Value]:
        """Return the first entry. Raises IndexError when there is none."""
        return self._first_page()[0]

    def pop(self) -> list[Value]:
        """Remove the first entry and return it. Raises IndexError when there is none."""
        found = heappop(self._first_page())
        self._count -= 1
        return found

    def pages(self) -> Pages:
        """Return the pages as they are now."""
        changes: dict[int, list[Page]] = {}
        for index, page in self._opened.items():
            entries = sorted(page)
            bound = self._pages.bounds[index] if index else entries[:1] and entries[0]
            changes[index] = list(cut(entries, bound, _itself, _packed_list))
        return self._pages.replaced(changes)


def plain_of(store: Store | DueQueue) -> list[Value]:
    """Return a store as plain data, with its pages as bytes."""
    if isinstance(store, DueQueue):
        return [_QUEUE, *store.pages().plain()]
    if isinstance(store, OrderedStore):
        return [_ORDERED, *_pages_of(store.numbered).plain(), store.following]
    return [_MAPPING, *_pages_of(store).plain()]


def _pages_of(store: Store) -> Pages:
    return (
        store.pages()
        if isinstance(store, PagedStore)
        else Pages().replaced({0: pages_of_map(store)})
    )


def store_of(plain: list[Value]) -> Store | DueQueue:
    """Return the store of plain data; a map of one page is a dict.

    Raises DamagedPageError or ValueError when the data is something else.
    """
    kind, bounds, counts, sizes, data, *following = plain
    pages = Pages(bounds, counts, sizes, data)
    if kind == _QUEUE:
        return DueQueue(pages)
    found: Store = PagedStore(pages)
    if len(pages) <= 1:
        found = next(found.opened_pages())
    if kind == _ORDERED:
        return OrderedStore(found, *following)
    if kind == _MAPPING:
        return found
    raise ValueError(f"a store of kind {kind!r} is unknown")


def place_of(key: object) -> int:
    """Return the place of a key: equal keys have equal places, in each process and release."""
    if isinstance(key, bytes):
        return xxhash.xxh32_intdigest(key)
    if isinstance(key, str):
        return xxhash.xxh32_intdigest(key.encode("utf-8", "surrogatepass"))
    if isinstance(key, int):
        return int(key) & _BITS
    if isinstance(key, float | Decimal):
        if isfinite(key) and key == int(key):
            return int(key) & _BITS
        key = float(key)
    return xxhash.xxh32_intdigest(repr(key).encode())


def pages_of_map(entries: Mapping[Key, Value], bound: int = 0) -> list[Page]:
    """Return the pages of the entries of a map."""
    if not entries:
        return []
    if may_fit(len(entries)):
        data = pack(entries)[_header_size(len(entries)) :]
        if fits(len(entries), data):
            return [Page(bound, len(entries), data)]
    placed = sorted(((place_of(key), key, value) for key, value in entries.items()), key=_PLACE)
    return list(cut(placed, bound, _PLACE, _packed_map))


def _packed_map(placed: Sequence[Any]) -> bytes:
    return pack({key: value for _, key, value in placed})[_header_size(len(placed)) :]


def _packed_list(entries: Sequence[Any]) -> bytes:
    return pack(entries)[_header_size(len(entries)) :]


def _itself(entry: Any) -> Any:
    return entry


def _header_size(count: int) -> int:
    """Return the number of bytes before the entries of a map or a list."""
    return 1 if count < 1 << 4 else 3 if count < 1 << 16 else 5


def _content(pages: Pages, index: int, kind: _Kind) -> Any:
    """Return the entries of a page. Raises DamagedPageError when its bytes are others."""
    count = pages.counts[index]
    if count < 1 << 4:
        header = bytes([kind.few | count])
    elif count < 1 << 16:
        header = kind.many + count.to_bytes(2, "big")
    else:
        header = kind.most + count.to_bytes(4, "big")
    try:
        return unpack(header + pages.content(index))
    except ValueError as error:
        raise DamagedPageError(f"page {index} of a store: {error}") from error

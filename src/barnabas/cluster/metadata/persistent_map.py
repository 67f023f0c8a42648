"""A map that is never changed: an update returns another map, which shares most of this one.

Many versions of the map share one large dictionary, and each version has a small dictionary of
changes over it. When the changes become many, the update merges both into a new large dictionary.
An update of one key in n costs about the square root of n. Iteration keeps the order in which keys
were added, as in a dictionary.
"""

from collections.abc import ItemsView, Iterator, Mapping
from typing import Final, TypeVar, cast

K = TypeVar("K")
V = TypeVar("V")

# The changes are merged when their number, squared, exceeds the number of keys times this factor.
_MERGE_FACTOR: Final = 4
_REMOVED: Final = object()
_ABSENT: Final = object()


class PersistentMap(Mapping[K, V]):
    """Takes over `base`, which the caller must not change afterwards."""

    __slots__ = ("_base", "_changes", "_length")

    def __init__(self, base: dict[K, V] | None = None) -> None:
        self._base: dict[K, V] = {} if base is None else base
        self._changes: dict[K, object] = {}
        self._length = len(self._base)

    def updated(self, changes: Mapping[K, V | None]) -> "PersistentMap[K, V]":
        """Return the map after `changes`; a value of None removes the key."""
        merged = dict(self._changes)
        length = self._length
        for key, value in changes.items():
            present = key in self
            if value is not None:
                merged[key] = value
                length += not present
            elif present:
                merged[key] = _REMOVED
                length -= 1
        if len(merged) ** 2 > _MERGE_FACTOR * len(self._base):
            return PersistentMap(_merged(self._base, merged))
        successor: PersistentMap[K, V] = PersistentMap(self._base)
        successor._changes, successor._length = merged, length
        return successor

    def __getitem__(self, key: K) -> V:
        if self._changes:
            value = self._changes.get(key, _ABSENT)
            if value is _REMOVED:
                raise KeyError(key)
            if value is not _ABSENT:
                return cast("V", value)
        return self._base[key]

    def __contains__(self, key: object) -> bool:
        if self._changes:
            value = self._changes.get(cast("K", key), _ABSENT)
            if value is not _ABSENT:
                return value is not _REMOVED
        return key in self._base

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[K]:
        changes = self._changes
        if not changes:
            return iter(self._base)
        return self._keys_with_changes()

    def _keys_with_changes(self) -> Iterator[K]:
        changes, base = self._changes, self._base
        for key in base:
            if changes.get(key) is not _REMOVED:
                yield key
        for key, value in changes.items():
            if value is not _REMOVED and key not in base:
                yield key

    def items(self) -> ItemsView[K, V]:
        """Return the items; without changes, those of the dictionary."""
        return super().items() if self._changes else self._base.items()

    def __repr__(self) -> str:
        return f"PersistentMap({dict(self)!r})"


def persistent(mapping: Mapping[K, V]) -> PersistentMap[K, V]:
    """Return the mapping itself when it is persistent, otherwise a persistent copy."""
    return mapping if isinstance(mapping, PersistentMap) else PersistentMap(dict(mapping))


def _merged(base: dict[K, V], changes: dict[K, object]) -> dict[K, V]:
    merged = dict(base)
    for key, value in changes.items():
        if value is _REMOVED:
            merged.pop(key, None)
        else:
            merged[key] = cast("V", value)
    return merged

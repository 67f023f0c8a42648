"""The consumers with which a process reads the committed offsets of groups."""

import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import Consumer

from barnabas.pipeline.delivery.writing.record_producer import QUIET

_READERS_MAX: Final = 64
_CLOSED_AFTER_S: Final = 60.0


class OffsetReaders:
    """Consumers by cluster, group and isolation, which join no group.

    With more than `limit`, the cache forgets the least recently used one, and after
    `closed_after_s` each one that was not used: it would connect to a server that has ended each
    100 ms. A consumer is closed when the last thread that uses it has finished.
    """

    def __init__(self, limit: int = _READERS_MAX, closed_after_s: float = _CLOSED_AFTER_S) -> None:
        self._readers: OrderedDict[tuple[str, str, bool], tuple[Consumer, float]] = OrderedDict()
        self._limit = limit
        self._closed_after_s = closed_after_s
        self._lock = threading.Lock()
        self._is_watched = False

    def get(self, group_id: str, properties: Mapping[str, Any], *, is_stable: bool) -> Consumer:
        """Return the consumer of a group, made when the cache lacks it."""
        key = (str(properties.get("bootstrap.servers")), group_id, is_stable)
        with self._lock:
            reader, _ = self._readers.pop(key, (None, 0.0))
            if reader is None:
                reader = Consumer(_settings(group_id, properties, is_stable))
            self._readers[key] = reader, time.monotonic()
            while len(self._readers) > self._limit:
                self._readers.popitem(last=False)
            if not self._is_watched:
                self._is_watched = True
                threading.Thread(target=self._watch, daemon=True).start()
            return reader

    def clear(self) -> None:
        """Forget all consumers."""
        with self._lock:
            self._readers.clear()

    def _watch(self) -> None:
        """Close unused consumers until none is left."""
        are_left = True
        while are_left:
            time.sleep(self._closed_after_s)
            are_left = self._close_unused()

    def _close_unused(self) -> bool:
        """Forget unused consumers; return whether others are left to watch."""
        before_s = time.monotonic() - self._closed_after_s
        with self._lock:
            unused = [key for key, (_, used_s) in self._readers.items() if used_s <= before_s]
            closed = [self._readers.pop(key) for key in unused]
            are_left = self._is_watched = bool(self._readers)
        closed.clear()  # outside the lock, since it may take long
        return are_left


def _settings(group_id: str, properties: Mapping[str, Any], is_stable: bool) -> dict[str, Any]:
    return {
        **properties,
        "group.id": group_id,
        "isolation.level": "read_committed" if is_stable else "read_uncommitted",
        "enable.auto.commit": False,
        "logger": QUIET,
    }

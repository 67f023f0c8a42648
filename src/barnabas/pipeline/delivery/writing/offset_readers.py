"""The consumers with which a process reads the committed offsets of groups."""

import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import Consumer

from barnabas.pipeline.delivery.writing.record_producer import QUIET

_READERS_MAX: Final = 64


class OffsetReaders:
    """Consumers by cluster, group and isolation, which join no group.

    With more than `limit`, the cache forgets the least recently used one, which is closed when the
    last thread that uses it has finished.
    """

    def __init__(self, limit: int = _READERS_MAX) -> None:
        self._readers: OrderedDict[tuple[str, str, bool], Consumer] = OrderedDict()
        self._limit = limit
        self._lock = threading.Lock()

    def get(self, group_id: str, properties: Mapping[str, Any], *, is_stable: bool) -> Consumer:
        """Return the consumer of a group, made when the cache lacks it."""
        key = (str(properties.get("bootstrap.servers")), group_id, is_stable)
        with self._lock:
            reader = self._readers.get(key)
            if reader is None:
                reader = self._readers[key] = Consumer(_settings(group_id, properties, is_stable))
                while len(self._readers) > self._limit:
                    self._readers.popitem(last=False)
            self._readers.move_to_end(key)
            return reader

    def clear(self) -> None:
        """Forget all consumers."""
        with self._lock:
            self._readers.clear()


def _settings(group_id: str, properties: Mapping[str, Any], is_stable: bool) -> dict[str, Any]:
    return {
        **properties,
        "group.id": group_id,
        "isolation.level": "read_committed" if is_stable else "read_uncommitted",
        "enable.auto.commit": False,
        "logger": QUIET,
    }

"""The state of a bucket: one task for each partition, with its stream time and its stores.

A task of Kafka Streams holds the keys of one partition and the time of that partition. A bucket
holds a share of the keys of all partitions, so it holds a share of each task. Times of partitions
stay apart: a partition that is behind loses no rows because another is ahead. A kernel that does
not look at time keeps all keys in one task.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final, cast

import attrs

from barnabas.pipeline.streams.kernels.kernel_rows import UNKNOWN_MS, Row, Value
from barnabas.pipeline.streams.kernels.paged_stores import (
    DueQueue,
    Key,
    OrderedStore,
    Store,
    plain_of,
)

__all__ = ["BucketState", "Store", "TaskState"]

USER_STORE: Final = "user "
"""The beginning of the name of a store of a user's processor."""
QUEUE: Final = "due "
"""The beginning of the name of a queue."""


@attrs.define
class TaskState:
    """Stream time and stores of one partition within a bucket."""

    time_ms: int = UNKNOWN_MS
    stores: dict[str, Store | DueQueue] = attrs.field(factory=dict[str, Store | DueQueue])

    def store(self, name: str) -> Store:
        """Return a store, which is empty at first. Its entries have no order."""
        found = self.stores.get(name)
        if found is None:
            found = self.stores[name] = {}
        return cast(Store, found)

    def user_store(self, name: str) -> OrderedStore:
        """Return a store of a user's processor, whose entries are in the order of a dict."""
        found = self.stores.get(f"{USER_STORE}{name}")
        if not isinstance(found, OrderedStore):
            found = self.stores[f"{USER_STORE}{name}"] = OrderedStore.of(cast(Store, found or {}))
        return found

    def queue(self, name: str) -> DueQueue:
        """Return a queue of entries that become due, which is empty at first."""
        found = self.stores.get(f"{QUEUE}{name}")
        if not isinstance(found, DueQueue):
            found = self.stores[f"{QUEUE}{name}"] = DueQueue.of(())
        return found

    def plain(self) -> dict[str, list[Value]]:
        """Return the stores as plain data."""
        return {name: plain_of(store) for name, store in self.stores.items()}

    def observe(self, row: Row) -> int:
        """Return the stream time with this row."""
        self.time_ms = max(self.time_ms, row.timestamp_ms, row.reached_ms)
        return self.time_ms


@attrs.define
class BucketState:
    """The tasks of one bucket, by partition."""

    tasks: dict[int, TaskState] = attrs.field(factory=dict[int, TaskState])
    parts: dict[str, "BucketState"] = attrs.field(factory=dict[str, "BucketState"])
    """The states of the kernels of a chain."""
    dropped: Counter[str] = attrs.field(factory=Counter[str], eq=False)
    """Rows that kernels dropped since the state was read, by reason. It is not kept."""
    is_older: bool = attrs.field(default=False, eq=False)
    """True when the state was read from an earlier format: it must be written in this one."""

    def task(self, partition: int) -> TaskState:
        """Return the task of a partition, which is empty at first."""
        found = self.tasks.get(partition)
        if found is None:
            found = self.tasks[partition] = TaskState()
        return found

    def part(self, name: str) -> "BucketState":
        """Return the state of a kernel of a chain, which is empty at first."""
        found = self.parts.get(name)
        if found is None:
            found = self.parts[name] = BucketState()
        found.dropped = self.dropped
        return found

    def has_stores_of(self, other: "BucketState") -> bool:
        """True when both states differ in no more than the stream times of tasks."""
        stores = [
            {
                (number, name): plain_of(store)
                for number, task in state.tasks.items()
                for name, store in task.stores.items()
                if store
            }
            for state in (self, other)
        ]
        if stores[0] != stores[1] or self.parts.keys() != other.parts.keys():
            return False
        return all(part.has_stores_of(other.parts[name]) for name, part in self.parts.items())

    def __iter__(self) -> Iterator[int]:
        """Yield the partitions that have a task, also in a kernel of a chain."""
        yield from {*self.tasks, *(number for part in self.parts.values() for number in part)}

    def keys(self, store: str) -> Iterator[Key]:
        """Yield the keys of a store in all tasks."""
        for task in self.tasks.values():
            yield from cast(Store, task.stores.get(store, {}))

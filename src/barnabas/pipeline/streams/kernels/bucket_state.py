"""The state of a bucket: one task for each partition, with its stream time and its stores.

A task of Kafka Streams holds the keys of one partition and the time of that partition. A bucket
holds a share of the keys of all partitions, so it holds a share of each task. Times of partitions
stay apart: a partition that is behind loses no rows because another is ahead. A kernel that does
not look at time keeps all keys in one task.
"""

from collections import Counter
from collections.abc import Iterator
from typing import TypeAlias

import attrs

from barnabas.pipeline.streams.kernels.kernel_rows import UNKNOWN_MS, Row, Value

Store: TypeAlias = dict[bytes | str | int, Value]
"""Entries of a kernel, mostly by the bytes of the record's key."""


@attrs.define
class TaskState:
    """Stream time and stores of one partition within a bucket."""

    time_ms: int = UNKNOWN_MS
    stores: dict[str, Store] = attrs.field(factory=dict[str, Store])

    def store(self, name: str) -> Store:
        """Return a store, which is empty at first."""
        found = self.stores.get(name)
        if found is None:
            found = self.stores[name] = {}
        return found

    def heap(self, name: str) -> list[list[Value]]:
        """Return a list in heap order, for entries that become due."""
        found: list[list[Value]] = self.store("heaps").setdefault(name, [])
        return found

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
            {number: task.stores for number, task in state.tasks.items() if task.stores}
            for state in (self, other)
        ]
        if stores[0] != stores[1] or self.parts.keys() != other.parts.keys():
            return False
        return all(part.has_stores_of(other.parts[name]) for name, part in self.parts.items())

    def __iter__(self) -> Iterator[int]:
        """Yield the partitions that have a task, also in a kernel of a chain."""
        yield from {*self.tasks, *(number for part in self.parts.values() for number in part)}

    def keys(self, store: str) -> Iterator[bytes | str | int]:
        """Yield the keys of a store in all tasks."""
        for task in self.tasks.values():
            yield from task.stores.get(store, {})

"""Aggregates of a stream by key, without windows, and deduplication."""

from collections.abc import Mapping
from typing import ClassVar, Final

import attrs

from barnabas.pipeline.streams.kernels.bucket_state import Store, TaskState
from barnabas.pipeline.streams.kernels.kernel_protocol import RowKernel, RowSteps
from barnabas.pipeline.streams.kernels.kernel_rows import (
    UNKNOWN_MS,
    Aggregator,
    Initializer,
    Row,
    Timed,
    Value,
    own,
)

NO_KEY: Final = "no key"
NO_VALUE: Final = "no value"
LATE: Final = "late"


@attrs.frozen
class Aggregation:
    """The functions that turn the values of a key into an aggregate.

    Without an initializer it is a reduction: the first value is the aggregate.
    """

    aggregator: Aggregator
    initializer: Initializer | None = None

    def start(self) -> Value:
        """Return the aggregate of no values, which is None in a reduction."""
        return None if self.initializer is None else self.initializer()

    def add(self, key: bytes, value: Value, aggregate: Value) -> Value:
        """Return the aggregate with one more value."""
        if aggregate is None and self.initializer is None:
            return value
        return self.aggregator(key, value, own(aggregate))


def counting() -> Aggregation:
    """Return the aggregation that counts rows."""
    return Aggregation(lambda key, value, count: count + 1, lambda: 0)


@attrs.frozen
class StreamAggregate(RowKernel):
    """The aggregate of all values of a key. Rows without key or value are dropped."""

    name: ClassVar[str] = "stream-aggregate"
    timed: ClassVar[Timed] = Timed.VALUED
    has_one_task: ClassVar[bool] = True
    aggregation: Aggregation

    def on_row(self, row: Row, task: TaskState) -> RowSteps:
        """Yield the new aggregate, at the largest timestamp of its rows."""
        if row.key is None:
            return NO_KEY
        if row.value is None:
            return NO_VALUE
        aggregates = task.store("aggregates")
        before, time_ms = aggregates.get(row.key, (None, UNKNOWN_MS))
        start = self.aggregation.start() if before is None else before
        value = self.aggregation.add(row.key, row.value, start)
        time_ms = row.timestamp_ms if before is None else max(time_ms, row.timestamp_ms)
        if value is None:
            aggregates.pop(row.key, None)
        else:
            aggregates[row.key] = [value, time_ms]
        yield row._replace(value=value, old=before, timestamp_ms=time_ms)
        return None


@attrs.frozen
class Deduplicate(RowKernel):
    """Rows of a key of which no other row passed within a time. Rows without key are dropped.

    A row that is further behind the stream time of its partition than the window is dropped.
    Rows of all partitions share what passed, which is kept until the slowest one is past it.
    """

    name: ClassVar[str] = "deduplicate"
    version: ClassVar[int] = 2
    has_one_task: ClassVar[bool] = True
    window_ms: int = attrs.field(validator=attrs.validators.ge(0))

    def settings(self) -> Mapping[str, Value]:
        """Return the length of the window."""
        return {"window_ms": self.window_ms}

    def on_row(self, row: Row, task: TaskState) -> RowSteps:
        """Yield the row, unless another row of its key passed within the window."""
        reached = task.store("times")
        newest_ms = max(row.timestamp_ms, row.reached_ms)
        own_ms = reached[row.partition] = max(reached.get(row.partition, UNKNOWN_MS), newest_ms)
        if row.key is None:
            return NO_KEY
        if row.timestamp_ms < own_ms - self.window_ms:
            return LATE
        now_ms = min(reached.values())
        passed = task.store("passed")
        self._forget(passed, task, now_ms)
        times: list[int] = passed.get(row.key, [])
        if any(abs(row.timestamp_ms - time_ms) <= self.window_ms for time_ms in times):
            return "duplicate"
        open_times = [time_ms for time_ms in times if self._may_match(time_ms, now_ms)]
        passed[row.key] = [*open_times, row.timestamp_ms]
        yield row
        return None

    def _may_match(self, time_ms: int, now_ms: int) -> bool:
        """True when a row that is not late may be within the window of this time."""
        return time_ms >= now_ms - 2 * self.window_ms

    def _forget(self, passed: Store, task: TaskState, now_ms: int) -> None:
        """Remove keys that no row can match, once in each window."""
        swept = task.store("swept")
        if now_ms - swept.get("ms", UNKNOWN_MS) <= self.window_ms:
            return
        swept["ms"] = now_ms
        for key in self._ended(passed, now_ms):
            del passed[key]

    def _ended(self, passed: Store, now_ms: int) -> list[bytes | str | int]:
        return [
            key
            for key, times in passed.items()
            if not any(self._may_match(time_ms, now_ms) for time_ms in times)
        ]

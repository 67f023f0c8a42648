"""Counts and sums of tumbling and hopping windows, as one result when a window closes.

It is `TimeWindowAggregate` followed by `until_window_closes` for results that are sums of parts. So
it takes the totals that a task of Spark made of many rows, and keeps its windows by their start:
what closes is one entry.
"""

import decimal
import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

import attrs

from barnabas.pipeline.streams.kernels.bucket_state import BucketState, TaskState
from barnabas.pipeline.streams.kernels.kernel_rows import Value
from barnabas.pipeline.streams.kernels.stream_aggregates import LATE
from barnabas.pipeline.streams.kernels.time_windows import TimeWindows

_EARLIER_STORE: Final = "windows"
"""The store that had the totals of all windows; now each window has a store."""
_STORE: Final = "window "
_DIGITS: Final = decimal.Context(prec=76)  # a sum of two decimals of Spark never rounds


class Partial(NamedTuple):
    """The total of the rows of a key in one window, of one partition of a micro-batch."""

    key: bytes
    start_ms: int
    partition: int
    total: Value
    """A number."""
    rows: int
    newest_ms: int
    """The largest timestamp of the rows."""


class Reached(NamedTuple):
    """The stream time of a partition before and after a micro-batch that closes windows."""

    partition: int
    before_ms: int
    time_ms: int


class Total(NamedTuple):
    """The result of a key in a window that is closed."""

    key: bytes
    start_ms: int
    total: Value
    newest_ms: int


@attrs.frozen
class WindowTotals:
    """The totals of keys in windows that are closed, once for each window.

    A part is late when its window was closed before the micro-batch. Rows that are late by the
    time of the partition that they come from are not in the parts.
    """

    windows: TimeWindows
    has_new_keys: bool = False
    """True when the partition of a part is that of its key: then it has the time of all
    partitions, as a repartition topic has."""

    @property
    def signature(self) -> Mapping[str, Value]:
        """Return what the meaning of the state depends on. The grace period may change."""
        sizes = {"size_ms": self.windows.size_ms, "advance_ms": self.windows.advance_ms}
        return {"kernel": "window-totals", "version": 1, "new_keys": self.has_new_keys, **sizes}

    def step(
        self, partials: Sequence[Partial], reached: Sequence[Reached], state: BucketState
    ) -> Iterator[Total]:
        """Add the parts of a micro-batch, and yield the totals of the windows that it closed."""
        for number in {each.partition for each in partials}:
            state.task(number)
        for task in state.tasks.values():
            _carry_over(task)
        for each in reached:
            self._advance(each.partition, each.before_ms, state)
        for part in partials:
            self._add(part, state)
        for each in reached:
            self._advance(each.partition, each.time_ms, state)
        for task in state.tasks.values():
            yield from self._closed(task)

    def _advance(self, partition: int, time_ms: int, state: BucketState) -> None:
        for number in list(state.tasks) if self.has_new_keys else [partition]:
            if (task := state.tasks.get(number)) is not None:
                task.time_ms = max(task.time_ms, time_ms)

    def _add(self, part: Partial, state: BucketState) -> None:
        task = state.tasks[part.partition]
        if self._is_closed(part.start_ms, task.time_ms):
            state.dropped[LATE] += part.rows
            return
        totals = task.store(f"{_STORE}{part.start_ms}")
        kept = totals.get(part.key)
        if kept is None:
            totals[part.key] = [part.total, part.newest_ms]
        else:
            add = _DIGITS.add if isinstance(part.total, decimal.Decimal) else operator.add
            kept[0], kept[1] = add(kept[0], part.total), max(kept[1], part.newest_ms)

    def _closed(self, task: TaskState) -> Iterator[Total]:
        """Yield the totals of windows that are over, earliest first, and forget them."""
        starts = [int(name.removeprefix(_STORE)) for name in task.stores]
        for start_ms in sorted(each for each in starts if self._is_closed(each, task.time_ms)):
            totals = cast(dict[bytes, list[Any]], task.stores.pop(f"{_STORE}{start_ms}"))
            for key, (total, newest_ms) in totals.items():
                yield Total(key, start_ms, total, newest_ms)

    def _is_closed(self, start_ms: int, time_ms: int) -> bool:
        return start_ms + self.windows.size_ms + self.windows.grace_ms <= time_ms


def _carry_over(task: TaskState) -> None:
    """Replace the store of all windows by one for each window."""
    earlier = cast(dict[Any, Any], task.stores.pop(_EARLIER_STORE, {}))
    for start_ms, totals in earlier.items():
        task.stores[f"{_STORE}{start_ms}"] = totals

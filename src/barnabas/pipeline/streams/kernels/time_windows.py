"""Aggregates in tumbling and hopping windows, which start at multiples of their advance."""

from collections.abc import Mapping
from typing import ClassVar

import attrs

from barnabas.pipeline.streams.kernels.bucket_state import Store, TaskState
from barnabas.pipeline.streams.kernels.kernel_protocol import RowKernel, RowSteps
from barnabas.pipeline.streams.kernels.kernel_rows import UNKNOWN_MS, Row, Timed, Value, Window
from barnabas.pipeline.streams.kernels.stream_aggregates import LATE, NO_KEY, NO_VALUE, Aggregation


@attrs.frozen
class TimeWindows:
    """Windows of one size, each `advance_ms` after the one before. The end is excluded."""

    size_ms: int = attrs.field(validator=attrs.validators.gt(0))
    advance_ms: int = attrs.field(validator=attrs.validators.gt(0))
    grace_ms: int = attrs.field(default=0, validator=attrs.validators.ge(0))

    def __attrs_post_init__(self) -> None:
        if self.advance_ms > self.size_ms:
            raise ValueError(
                f"windows of {self.size_ms} ms cannot advance by {self.advance_ms} ms: rows would "
                "be in no window"
            )

    def of(self, time_ms: int) -> list[Window]:
        """Return the windows of a time, earliest first."""
        first = max(0, time_ms - self.size_ms + self.advance_ms) // self.advance_ms
        starts = range(first * self.advance_ms, time_ms + 1, self.advance_ms)
        return [Window(start_ms, start_ms + self.size_ms) for start_ms in starts]


@attrs.frozen
class TimeWindowAggregate(RowKernel):
    """The aggregate of the values of a key in each window; an output for each change.

    A window closes when stream time is `grace_ms` past its end; later rows are dropped, and counted
    for each window that they miss. Rows without key are dropped.
    """

    name: ClassVar[str] = "time-windows"
    timed: ClassVar[Timed] = Timed.KEYED
    windows: TimeWindows
    aggregation: Aggregation
    skips_nulls: bool = False
    """True when rows without value move stream time only."""

    def settings(self) -> Mapping[str, Value]:
        """Return the form of the windows. The grace period may change."""
        return {"size_ms": self.windows.size_ms, "advance_ms": self.windows.advance_ms}

    def on_row(self, row: Row, task: TaskState) -> RowSteps:
        """Yield the aggregates of the row's open windows."""
        if row.key is None:
            return NO_KEY
        closed_ms = task.observe(row) - self.windows.grace_ms
        kept = task.store("windows")
        sweep(task, "windows", closed_ms - self.windows.size_ms, self.windows.size_ms)
        if self.skips_nulls and row.value is None:
            return NO_VALUE
        of_key: dict[int, Value] = kept.setdefault(row.key, {})
        missed: list[str] = []
        for window in self.windows.of(row.timestamp_ms):
            if window.end_ms <= closed_ms:
                missed.append(LATE)
                continue
            before, time_ms = of_key.get(window.start_ms, (None, UNKNOWN_MS))
            start = self.aggregation.start() if before is None else before
            value = self.aggregation.add(row.key, row.value, start)
            time_ms = max(time_ms, row.timestamp_ms)
            if value is None:
                of_key.pop(window.start_ms, None)
            else:
                of_key[window.start_ms] = [value, time_ms]
            yield row._replace(window=window, value=value, old=before, timestamp_ms=time_ms)
        if not of_key:
            del kept[row.key]
        return missed


def sweep(task: TaskState, store: str, until_ms: int, every_ms: int) -> None:
    """Remove windows that start at `until_ms` or before, once in a while of stream time.

    The store has a dict by the start of windows for each key.
    """
    swept: Store = task.store("swept")
    if until_ms - swept.setdefault(store, until_ms) < every_ms:
        return
    swept[store] = until_ms
    kept = task.store(store)
    for key in list(kept):
        windows = kept[key]
        for start_ms in [start_ms for start_ms in windows if start_ms <= until_ms]:
            del windows[start_ms]
        if not windows:
            del kept[key]

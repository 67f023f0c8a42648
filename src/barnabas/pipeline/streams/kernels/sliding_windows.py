"""Aggregates in sliding windows: one window for each distinct set of rows (KIP-450).

Each row at t ends a window [t - d, t], and begins one [t + 1, t + 1 + d] when that is not empty.
Both ends belong to a window. A window before time 0 cannot be: rows before d share [0, d].
"""

from collections.abc import Iterator, Mapping
from typing import ClassVar, TypeAlias

import attrs

from barnabas.pipeline.streams.kernels.bucket_state import TaskState
from barnabas.pipeline.streams.kernels.kernel_protocol import RowKernel, RowSteps
from barnabas.pipeline.streams.kernels.kernel_rows import Row, Timed, Value, Window, own
from barnabas.pipeline.streams.kernels.stream_aggregates import (
    LATE,
    NO_KEY,
    NO_VALUE,
    Aggregation,
)
from barnabas.pipeline.streams.kernels.time_windows import sweep

_Entry: TypeAlias = list[Value]  # aggregate, largest timestamp of its rows
_Windows: TypeAlias = dict[int, _Entry]  # by start


@attrs.frozen
class SlidingWindowAggregate(RowKernel):
    """The aggregate of the values of a key in each sliding window; an output for each change.

    A window closes when stream time is more than the grace period past its end. Rows without key
    or value are dropped. As in Kafka Streams, a row that is late for the window that it ends is
    added to the open windows that exist, and may be missing in one that a later row creates.
    """

    name: ClassVar[str] = "sliding-windows"
    timed: ClassVar[Timed] = Timed.VALUED
    difference_ms: int = attrs.field(validator=attrs.validators.ge(0))
    aggregation: Aggregation
    grace_ms: int = attrs.field(default=0, validator=attrs.validators.ge(0))

    def settings(self) -> Mapping[str, Value]:
        """Return the length of windows. The grace period may change."""
        return {"difference_ms": self.difference_ms}

    def on_row(self, row: Row, task: TaskState) -> RowSteps:
        """Yield the aggregates of the open windows that the row is in."""
        if row.key is None:
            return NO_KEY
        if row.value is None:
            return NO_VALUE
        closed_ms = task.observe(row) - self.grace_ms
        if row.timestamp_ms + self.difference_ms < closed_ms:
            return LATE
        kept = task.store("windows")
        # The windows before an open one determine which windows a late row creates.
        sweep(task, "windows", closed_ms - 3 * self.difference_ms - 2, self.difference_ms + 1)
        windows: _Windows = kept.setdefault(row.key, {})
        change = _Change(self, row, row.key, windows, closed_ms)
        is_early = row.timestamp_ms < self.difference_ms
        yield from change.early() if is_early else change.usual()
        if not windows:
            del kept[row.key]
        return None


@attrs.frozen
class _Change:
    """One row on its way into the windows of its key."""

    kernel: SlidingWindowAggregate
    row: Row
    key: bytes
    windows: _Windows
    closed_ms: int

    def usual(self) -> Iterator[Row]:
        """Update the windows around the row, latest first, and create those that it lacks."""
        time_ms, length = self.row.timestamp_ms, self.kernel.difference_ms
        right = left = None
        previous_ms = None
        has_left = False
        near = [start for start in self.windows if time_ms - 2 * length <= start <= time_ms]
        for start in sorted(near, reverse=True):
            entry = self.windows[start]
            end = start + length
            if end > time_ms:
                right = right or entry
                yield from self._update(start, entry)
            elif end == time_ms:
                has_left = True
                yield from self._update(start, entry)
                if entry[1] >= time_ms:
                    return  # a row at this time has created all windows
                previous_ms = entry[1]
            else:
                left, previous_ms = entry, entry[1]
                break
        if previous_ms is not None and previous_ms + 1 + length >= time_ms:
            yield from self._create_after(previous_ms)
        if not has_left:
            fits = left is not None and previous_ms is not None and time_ms - length <= previous_ms
            aggregate = left[0] if left is not None and fits else self.kernel.aggregation.start()
            yield from self._update(time_ms - length, [aggregate, time_ms])
        yield from self._create_right(right)

    def early(self) -> Iterator[Row]:
        """Update the windows of a row whose window would begin before time 0."""
        time_ms = self.row.timestamp_ms
        combined = self.windows.get(0)
        right = None
        for start in sorted(start for start in self.windows if 0 < start <= time_ms):
            right = self.windows[start]
            yield from self._update(start, right)
        if right is None and combined is not None and combined[1] > time_ms:
            right = combined
        yield from self._create_right(right)
        if combined is not None and combined[1] < time_ms:
            yield from self._create_after(combined[1])
        start = self.kernel.aggregation.start()
        yield from self._update(0, [start, time_ms] if combined is None else combined)

    def _create_after(self, previous_ms: int) -> Iterator[Row]:
        """Create the window that begins after the previous row, of which this row is the first."""
        if previous_ms + 1 not in self.windows:
            entry = [self.kernel.aggregation.start(), self.row.timestamp_ms]
            yield from self._update(previous_ms + 1, entry)

    def _create_right(self, entry: _Entry | None) -> Iterator[Row]:
        """Create the window that begins after this row, when it has rows."""
        start = self.row.timestamp_ms + 1
        if entry is not None and entry[1] > self.row.timestamp_ms and start not in self.windows:
            self.windows[start] = [own(entry[0]), entry[1]]
            yield self._output(start, None, self.windows[start])

    def _update(self, start: int, entry: _Entry) -> Iterator[Row]:
        """Add the row to a window, unless the window is closed."""
        if start + self.kernel.difference_ms < self.closed_ms:
            return
        before = self.windows.get(start)
        value = self.kernel.aggregation.add(self.key, self.row.value, entry[0])
        changed = [value, max(entry[1], self.row.timestamp_ms)]
        if value is None:
            self.windows.pop(start, None)
        else:
            self.windows[start] = changed
        yield self._output(start, None if before is None else before[0], changed)

    def _output(self, start: int, old: Value, entry: _Entry) -> Row:
        window = Window(start, start + self.kernel.difference_ms)
        return self.row._replace(window=window, value=entry[0], old=old, timestamp_ms=entry[1])

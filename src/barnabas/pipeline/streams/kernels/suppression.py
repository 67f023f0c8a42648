"""Fewer results of a table: the last one of a window, or one of a key in a time."""

from collections.abc import Iterator, Mapping
from typing import ClassVar

import attrs

from barnabas.pipeline.streams.kernels.bucket_state import TaskState
from barnabas.pipeline.streams.kernels.kernel_protocol import RowKernel, RowSteps
from barnabas.pipeline.streams.kernels.kernel_rows import (
    Row,
    Side,
    Timed,
    Value,
    Window,
    identity,
)
from barnabas.pipeline.streams.kernels.stream_aggregates import NO_KEY


@attrs.frozen
class Suppress(RowKernel):
    """Changes of a table, held back; of a key and window only the newest change is kept.

    Use `until_window_closes` or `until_time_limit`. The first change of a key determines when its
    newest one is due. `old` of the output is the value that was sent before.
    """

    name: ClassVar[str] = "suppress"
    acts_on_time: ClassVar[bool] = True
    timed: ClassVar[Timed] = Timed.KEYED
    wait_ms: int = attrs.field(validator=attrs.validators.ge(0))
    is_final: bool = False
    most_records: int | None = None

    @property
    def has_whole_tasks(self) -> bool:
        """True with a limit of records, which counts all keys of a task."""
        return self.most_records is not None

    def settings(self) -> Mapping[str, Value]:
        """Return the kind of suppression. Times and limits may change: they count from now on."""
        limited = {"has_most_records": True} if self.has_whole_tasks else {}
        return {"is_final": self.is_final, **limited}

    def on_row(self, row: Row, task: TaskState) -> RowSteps:
        """Hold the row back, and yield the rows that are due."""
        if row.key is None:
            return NO_KEY
        task.observe(row)
        if self.is_final and row.window is None:
            raise ValueError("final results need windows: call suppress after a windowed aggregate")
        held, name = task.store("held"), identity(row)
        entry = held.get(name)
        if entry is None:
            due_ms = row.window.end_ms if self.is_final and row.window else row.timestamp_ms
            task.queue("due").push([due_ms, name])
        held[name] = _entry(row, row.old if entry is None else entry[4])
        yield from self._due(task)
        return None

    def on_time(self, row: Row, task: TaskState) -> Iterator[Row]:
        """Yield the rows that are due."""
        yield from self._due(task)

    def _due(self, task: TaskState) -> Iterator[Row]:
        held, due = task.store("held"), task.queue("due")
        until_ms = task.time_ms - self.wait_ms
        while due and (due.first[0] <= until_ms or self._is_full(len(due))):
            row = _row(held.pop(due.pop()[1]))
            if row.value is not None or not self.is_final:
                yield row._replace(stream_time_ms=task.time_ms)

    def _is_full(self, count: int) -> bool:
        return self.most_records is not None and count > self.most_records


def until_window_closes(grace_ms: int) -> Suppress:
    """Return the kernel for final results: one row of a window, after its end and the grace.

    For sessions, the grace period includes the gap. Tombstones are dropped: of a window that was
    never sent, there is nothing to delete.
    """
    return Suppress(grace_ms, is_final=True)


def until_time_limit(limit_ms: int, most_records: int | None = None) -> Suppress:
    """Return the kernel for one row of a key in a time.

    With `most_records`, the oldest rows are sent early when more are held in a task. Then buckets
    must hold whole tasks: the bucket of a row is that of its partition, not that of its key.
    """
    return Suppress(limit_ms, most_records=most_records)


def _entry(row: Row, old: Value) -> list[Value]:
    window = None if row.window is None else list(row.window)
    headers = [list(header) for header in row.headers]
    position = [int(row.side), row.partition, row.offset]
    return [row.key, row.value, row.timestamp_ms, window, old, headers, position]


def _row(entry: list[Value]) -> Row:
    key, value, timestamp_ms, window, old, headers, (side, partition, offset) = entry
    return Row(
        key,
        value,
        timestamp_ms,
        Side(side),
        partition,
        offset,
        tuple((name, content) for name, content in headers),
        None if window is None else Window(*window),
        old,
    )

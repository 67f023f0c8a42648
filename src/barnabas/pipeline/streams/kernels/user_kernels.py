"""A user's processor, with its own stores and punctuation by stream time and the wall clock."""

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar, Protocol

import attrs

from barnabas.pipeline.streams.kernels.bucket_state import Store, TaskState
from barnabas.pipeline.streams.kernels.kernel_protocol import RowKernel, RowSteps
from barnabas.pipeline.streams.kernels.kernel_rows import Row, Value


def is_due(before_ms: int, now_ms: int, every_ms: int) -> bool:
    """True when the wall clock reached a multiple of `every_ms` between two times."""
    return now_ms // every_ms > before_ms // every_ms


@attrs.frozen
class ProcessContext:
    """The stores and the stream time of the task that a processor works for."""

    task: TaskState

    @property
    def stream_time_ms(self) -> int:
        """Return the largest timestamp of the partition so far."""
        return self.task.time_ms

    def store(self, name: str) -> Store:
        """Return a store of plain data, which is empty at first. It has the methods of a dict."""
        return self.task.user_store(name)


class Processor(Protocol):
    """A user's processor. It keeps all it remembers in the stores of the context."""

    def process(self, row: Row, context: ProcessContext) -> Iterable[Row]:
        """Return the outputs of a row."""
        ...

    def punctuate(self, row: Row, context: ProcessContext) -> Iterable[Row]:
        """Return the outputs of a point of stream time.

        The row is the one that moved the time; outputs are made with `row._replace`.
        """
        ...

    def punctuate_wall_clock(self, row: Row, context: ProcessContext) -> Iterable[Row]:
        """Return the outputs of a point of the wall clock, which is the row's timestamp."""
        ...


@attrs.frozen
class Process(RowKernel):
    """Rows as a user's processor makes them.

    With `every_ms`, `punctuate` is called after the first row, and after a row with which stream
    time reaches the next multiple of `every_ms`: once, also when it passes several. A row of
    `Side.CLOCK` calls `punctuate_wall_clock` for each task of the bucket.
    """

    name: ClassVar[str] = "process"
    acts_on_time: ClassVar[bool] = True
    processor: Processor
    state_name: str
    state_version: int = 1
    every_ms: int | None = attrs.field(
        default=None, validator=attrs.validators.optional(attrs.validators.gt(0))
    )

    def settings(self) -> Mapping[str, Value]:
        """Return the name and version that the user gave to the state."""
        return {"state_name": self.state_name, "state_version": self.state_version}

    def on_row(self, row: Row, task: TaskState) -> RowSteps:
        """Yield what the processor returns for the row, then for the stream time."""
        task.observe(row)
        yield from self.processor.process(row, ProcessContext(task))
        yield from self._punctuated(row, task)
        return None

    def on_time(self, row: Row, task: TaskState) -> Iterator[Row]:
        """Yield what the processor returns for the stream time."""
        yield from self._punctuated(row, task)

    def on_clock(self, row: Row, task: TaskState) -> Iterator[Row]:
        """Yield what the processor returns for the wall clock."""
        yield from self.processor.punctuate_wall_clock(row, ProcessContext(task))

    def _punctuated(self, row: Row, task: TaskState) -> Iterator[Row]:
        if self.every_ms is None:
            return
        clock = task.store("punctuation")
        next_ms: int = clock.get("next_ms", 0)
        if task.time_ms < next_ms:
            return
        clock["next_ms"] = (task.time_ms // self.every_ms + 1) * self.every_ms
        yield from self.processor.punctuate(row, ProcessContext(task))

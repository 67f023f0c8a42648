"""The kernel: a pure function of ordered rows and the state of a bucket.

A kernel keeps nothing between two calls of `step`: all it remembers is in the state, so that a
step can be repeated from the stored state with the same rows and the same result.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import ClassVar, Protocol, TypeAlias

from barnabas.pipeline.streams.kernels.bucket_state import BucketState, TaskState
from barnabas.pipeline.streams.kernels.kernel_rows import Row, Side, Timed, Value

RowSteps: TypeAlias = Generator[Row, None, str | Sequence[str] | None]
"""Outputs of a row; returns the reason when the row was dropped, one for each window it missed."""


class StateMismatchError(Exception):
    """A stored state is not one of this kernel, or cannot be read."""


class Kernel(Protocol):
    """A pure operator with state."""

    @property
    def signature(self) -> Mapping[str, Value]:
        """Return what the meaning of the state depends on: the kernel, its version, its settings.

        A state with another signature is refused. Values are plain data.
        """
        ...

    @property
    def first(self) -> Side:
        """Return the side whose rows come first where times are equal."""
        ...

    @property
    def timed(self) -> Timed:
        """Return which rows move stream time."""
        ...

    @property
    def acts_on_time(self) -> bool:
        """True when rows of `Side.TIME` may yield output."""
        ...

    def step(self, rows: Sequence[Row], state: BucketState) -> Iterator[Row]:
        """Take rows in the order of `in_stream_order`; yield output rows, change the state."""
        ...


class RowKernel:
    """A kernel that takes one row at a time; the base of the kernels of this package.

    Subclasses override `on_row`, and `on_time` with `acts_on_time` where stream time yields output.
    Those that take the wall clock override `on_clock`.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 1
    first: ClassVar[Side] = Side.LEFT
    timed: ClassVar[Timed] = Timed.ALL
    acts_on_time: ClassVar[bool] = False
    has_one_task: ClassVar[bool] = False
    """True when rows of all partitions share one state: for kernels that do not look at time."""

    @property
    def has_whole_tasks(self) -> bool:
        """True when a bucket must hold all keys of a partition: for limits of a task."""
        return False

    @property
    def signature(self) -> Mapping[str, Value]:
        """Return the kernel's name, version and settings."""
        return {"kernel": self.name, "version": self.version, **self.settings()}

    def settings(self) -> Mapping[str, Value]:
        """Return the settings that the meaning of the state depends on."""
        return {}

    def step(self, rows: Sequence[Row], state: BucketState) -> Iterator[Row]:
        """Take rows in the order of `in_stream_order`; yield output rows, change the state."""
        for row in rows:
            if row.side is Side.CLOCK:
                yield from self._on_clock(row, state)
                continue
            task = state.task(0 if self.has_one_task else row.partition)
            if row.side is Side.TIME:
                task.observe(row)
                yield from self.on_time(row, task)
            elif row.timestamp_ms < 0:
                state.dropped["negative timestamp"] += 1
            else:
                dropped = yield from self.on_row(row, task)
                if dropped is not None:
                    state.dropped.update([dropped] if isinstance(dropped, str) else dropped)

    def on_row(self, row: Row, task: TaskState) -> RowSteps:
        """Yield the outputs of a row; return the reason when it was dropped."""
        raise NotImplementedError

    def on_time(self, row: Row, task: TaskState) -> Iterator[Row]:
        """Yield what becomes due at the task's stream time."""
        yield from ()

    def on_clock(self, row: Row, task: TaskState) -> Iterator[Row]:
        """Yield what becomes due at the time of the wall clock, which is the row's timestamp."""
        yield from ()

    def _on_clock(self, row: Row, state: BucketState) -> Iterator[Row]:
        for partition, task in sorted(state.tasks.items()):
            here = row._replace(partition=partition, stream_time_ms=task.time_ms)
            yield from self.on_clock(here, task)

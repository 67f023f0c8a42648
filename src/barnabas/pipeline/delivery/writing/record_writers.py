"""The writers that a worker keeps: what happens to rows inside a transaction.

A writer stays in the worker process from one batch to the next, because it may hold a connector's
task. One that raised is thrown away.
"""

import contextlib
from collections.abc import Callable, Generator, Mapping
from typing import Any, Final, Generic, Protocol, TypeVar

from barnabas.pipeline.delivery.plan.job_plan import JobKind
from barnabas.pipeline.delivery.plan.worker_plan import TaskPlan
from barnabas.pipeline.delivery.rows.task_figures import Figures
from barnabas.pipeline.delivery.writing.frame_writer import FrameWriter
from barnabas.pipeline.delivery.writing.produced_records import TopicTarget, connector_errors
from barnabas.pipeline.delivery.writing.sink_writer import SinkWriter
from barnabas.pipeline.delivery.writing.topic_writers import BytesCopy, ChainCopy, is_bytes_copy
from barnabas.pipeline.delivery.writing.transactional_producer import Positions


class RecordWriter(Protocol):
    """Takes the rows of one transaction after the other."""

    def open(self, target: TopicTarget, positions: Positions, figures: Figures) -> None:
        """Begin a transaction after its committed positions."""
        ...

    def write(self, rows: Any) -> None:
        """Write rows of one partition, in the form of the job's kind."""
        ...

    def flush(self, offsets: Mapping[tuple[str, int], int]) -> str | None:
        """Make what was written durable; return the note to commit with these next offsets."""
        ...

    def close(self, *, is_committed: bool) -> None:
        """End the transaction."""
        ...

    def stop(self) -> None:
        """Release resources."""
        ...


P = TypeVar("P")
W = TypeVar("W", bound="KeptWriter")


class KeptWriter(Protocol):
    """An object that a worker keeps for a job."""

    def close(self, *, is_committed: bool) -> None:
        """End the work of one task."""
        ...

    def stop(self) -> None:
        """Release resources."""
        ...


class WriterCache(Generic[P, W]):
    """The writers of this worker process, by job and generation.

    `task_of` returns the part of a writer's plan that every job has.
    """

    def __init__(self, create: Callable[[P], W], task_of: Callable[[P], TaskPlan]) -> None:
        self._create = create
        self._task_of = task_of
        self._writers: dict[str, tuple[int, W]] = {}

    @contextlib.contextmanager
    def borrowed(self, plan: P) -> Generator[W]:
        """Lend the writer of a job for one transaction, and close it when that has ended."""
        task = self._task_of(plan)
        writer = self._take(plan, task)
        try:
            yield writer
        except BaseException:
            with contextlib.suppress(Exception):
                writer.close(is_committed=False)
            with contextlib.suppress(Exception):
                writer.stop()
            raise
        writer.close(is_committed=True)
        self._writers[task.job] = (task.generation, writer)

    def clear(self) -> None:
        """Stop and forget the writers that no task has borrowed."""
        while self._writers:
            _, writer = self._writers.popitem()[1]
            writer.stop()

    def _take(self, plan: P, task: TaskPlan) -> W:
        generation, writer = self._writers.pop(task.job, (None, None))
        if writer is not None and generation == task.generation:
            return writer
        if writer is not None:
            writer.stop()
        return self._create(plan)


def create_writer(plan: TaskPlan) -> RecordWriter:
    """Return a new writer for the kind of a job."""
    with connector_errors("START"):
        if plan.kind == JobKind.SINK:
            return SinkWriter(plan)
        if plan.kind == JobKind.STREAM:
            return FrameWriter(plan.target_topic)
        if is_bytes_copy(plan.properties):
            return BytesCopy(plan)
        return ChainCopy(plan)


def _itself(plan: TaskPlan) -> TaskPlan:
    return plan


WRITERS: Final = WriterCache(create_writer, _itself)

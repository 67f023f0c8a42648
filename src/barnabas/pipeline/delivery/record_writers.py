"""Writers of a forward task: what happens to rows inside the transaction.

A writer stays in the worker process from one batch to the next, because it may hold a connector's
task. One that raised is thrown away.
"""

import contextlib
from collections.abc import Callable, Generator, Mapping
from itertools import repeat
from typing import Final, Protocol

from barnabas.pipeline.delivery.arrow_rows import PartitionRows
from barnabas.pipeline.delivery.job_plan import RecordPosition
from barnabas.pipeline.delivery.task_failures import TaskFailureError
from barnabas.pipeline.delivery.task_figures import Figures
from barnabas.pipeline.delivery.transactional_producer import RecordTooLargeError, Transaction
from barnabas.pipeline.delivery.worker_plan import TaskPlan

_BY_KEY: Final = -1  # the partition is chosen by the key


class RecordWriter(Protocol):
    """Takes the rows of one transaction after the other."""

    def open(self, begun: Transaction, figures: Figures) -> None:
        """Begin a transaction behind its committed positions."""
        ...

    def write(self, rows: PartitionRows) -> None:
        """Write rows of one partition."""
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


class BytesCopy:
    """Writes keys, values and headers unchanged to a topic."""

    def __init__(self, plan: TaskPlan) -> None:
        self._topic = plan.target_topic

    def open(self, begun: Transaction, figures: Figures) -> None:
        """Begin a transaction."""
        self._producer = begun.producer
        self._figures = figures

    def write(self, rows: PartitionRows) -> None:
        """Produce each row. Raises TaskFailureError for one that is too large."""
        produce = self._producer.produce
        topic = self._topic or rows.topic
        headers = repeat(None) if rows.headers is None else rows.headers
        index = 0
        try:
            columns = zip(rows.values, rows.keys, rows.timestamps_ms, headers, strict=False)
            for value, key, timestamp_ms, own_headers in columns:
                produce(topic, value, key, _BY_KEY, timestamp_ms, own_headers)
                index += 1
        except RecordTooLargeError as error:
            record = RecordPosition(rows.topic, rows.partition, rows.offsets[index])
            raise TaskFailureError(
                f"the record is too large for {topic}: {error}", is_permanent=True, record=record
            ) from error
        self._producer.poll()
        self._figures.written += len(rows)

    def flush(self, offsets: Mapping[tuple[str, int], int]) -> str | None:
        """Return no note: the transaction holds everything."""
        return None

    def close(self, *, is_committed: bool) -> None:
        """End the transaction."""

    def stop(self) -> None:
        """Release nothing."""


class WriterCache:
    """The writers of this worker process, by job and generation."""

    def __init__(self, create: Callable[[TaskPlan], RecordWriter]) -> None:
        self._create = create
        self._writers: dict[str, tuple[int, RecordWriter]] = {}

    @contextlib.contextmanager
    def borrowed(self, plan: TaskPlan) -> Generator[RecordWriter]:
        """Lend the writer of a job for one transaction, and close it when that has ended."""
        writer = self._take(plan)
        try:
            yield writer
        except BaseException:
            with contextlib.suppress(Exception):
                writer.close(is_committed=False)
            with contextlib.suppress(Exception):
                writer.stop()
            raise
        writer.close(is_committed=True)
        self._writers[plan.job] = (plan.generation, writer)

    def _take(self, plan: TaskPlan) -> RecordWriter:
        generation, writer = self._writers.pop(plan.job, (None, None))
        if writer is not None and generation == plan.generation:
            return writer
        if writer is not None:
            writer.stop()
        return self._create(plan)


WRITERS: Final = WriterCache(BytesCopy)

"""The code of Spark's tasks: the functions that `mapInArrow` calls in the Python workers.

A forward task gets the rows of one topic partition and writes them in one transaction with the
offset behind the last row. It trusts the group's committed offset, not Spark's checkpoint: rows
that an earlier transaction has committed are dropped.
"""

import functools
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, Protocol, Self

from confluent_kafka import TopicPartition

from barnabas.pipeline.delivery import epoch_tasks, lake_rows, slice_tasks, trimmed_offsets
from barnabas.pipeline.delivery import source_rows as row_sources
from barnabas.pipeline.delivery.arrow_rows import runs
from barnabas.pipeline.delivery.collected_rows import CollectedRows
from barnabas.pipeline.delivery.epoch_tasks import EpochPlan
from barnabas.pipeline.delivery.frame_rows import frame_runs
from barnabas.pipeline.delivery.job_plan import RecordPosition
from barnabas.pipeline.delivery.lake_rows import LakePlan
from barnabas.pipeline.delivery.offset_metadata import OffsetMetadata
from barnabas.pipeline.delivery.record_writers import WRITERS, RecordWriter
from barnabas.pipeline.delivery.source_rows import RowsPlan
from barnabas.pipeline.delivery.task_failures import TaskFailureError
from barnabas.pipeline.delivery.task_figures import Figures
from barnabas.pipeline.delivery.transactional_producer import (
    Transaction,
    TransactionSettings,
    committed,
    log_start,
    partitions_of,
    transaction,
)
from barnabas.pipeline.delivery.worker_plan import TaskPlan, transactional_id


def forward(plan: TaskPlan, batches: Iterator[Any]) -> Iterator[Any]:
    """Write the rows of a task in one transaction; yield one row of figures."""
    yield from _forward(plan, (run for batch in batches for run in runs(batch)))


def forward_frame(plan: TaskPlan, batches: Iterator[Any]) -> Iterator[Any]:
    """Write the rows of a user's query in one transaction; yield one row of figures."""
    yield from _forward(plan, (run for batch in batches for run in frame_runs(batch)))


def converted(plan: TaskPlan, batches: Iterator[Any]) -> Iterator[Any]:
    """Yield the outputs and dead letters of rows, for Spark's own sink."""
    for batch in batches:
        with WRITERS.borrowed(plan) as writer:
            outputs = CollectedRows()
            writer.open(outputs, {}, Figures())
            for rows in runs(batch):
                writer.write(rows)
        yield outputs.as_batch()


def epoch(plan: EpochPlan, batches: Iterator[Any]) -> Iterator[Any]:
    """Write the rows of a shuffle partition in one transaction; yield one row of figures."""
    yield epoch_tasks.run(plan, batches).as_batch()


def lake(plan: LakePlan, batches: Iterator[Any]) -> Iterator[Any]:
    """Yield the rows of records for a sink of Spark, then one row of figures."""
    yield from lake_rows.run(plan, batches)


def source_rows(plan: RowsPlan, batches: Iterator[Any]) -> Iterator[Any]:
    """Yield the records of a Spark source's rows, for the tasks that write an epoch."""
    yield from row_sources.run(plan, batches)


def source_slice(plan: TaskPlan, indexes: Iterator[int]) -> Iterator[Figures]:
    """Run one slice of each of a source connector's tasks; yield its figures."""
    for index in indexes:
        yield slice_tasks.run(plan, index)


class SourceRows(Protocol):
    """Consecutive rows of one source partition, in the order of their offsets."""

    repeats_offsets: ClassVar[bool]
    """True when a record may have several rows."""

    @property
    def topic(self) -> str:
        """Return the topic of the records."""
        ...

    @property
    def partition(self) -> int:
        """Return the partition of the records."""
        ...

    @property
    def offsets(self) -> Sequence[int]:
        """Return the offset of each row's record."""
        ...

    @property
    def first_offset(self) -> int:
        """Return the offset of the first row's record."""
        ...

    @property
    def last_offset(self) -> int:
        """Return the offset of the last row's record."""
        ...

    @property
    def oldest_ms(self) -> int | None:
        """Return the lowest timestamp, None without one."""
        ...

    def __len__(self) -> int: ...

    def after(self, offset: int) -> Self:
        """Return the rows at `offset` and behind."""
        ...


def _forward(plan: TaskPlan, rows: Iterator[SourceRows]) -> Iterator[Any]:
    first = next(rows, None)
    if first is not None:
        yield _ForwardTask(plan, first).run(rows).as_batch()


class _ForwardTask:
    """One transaction over the rows of one partition, or of all when the sink needs one task."""

    def __init__(self, plan: TaskPlan, first: SourceRows) -> None:
        self._plan = plan
        self._first = first
        self._figures = Figures()
        self._next: dict[tuple[str, int], int] = {}

    def run(self, others: Iterable[SourceRows]) -> Figures:
        """Write all rows and commit; return what was done."""
        plan = self._plan
        settings = TransactionSettings(plan.group_id, plan.generation, plan.producer, plan.consumer)
        name = transactional_id(plan, self._first.topic, self._first.partition)
        with (
            WRITERS.borrowed(plan) as writer,
            transaction(settings, name, self._partitions()) as begun,
        ):
            writer.open(begun.producer, begun.positions, self._figures)
            self._write(begun, writer, self._first)
            for rows in others:
                self._write(begun, writer, rows)
            note = writer.flush(self._next) or ""
            begun.send_offsets([self._commit(*item, note) for item in self._next.items()])
        self._figures.transactions += 1
        self._figures.fenced += begun.fenced
        return self._figures

    def _partitions(self) -> list[tuple[str, int]]:
        """Return the partitions whose committed offsets the writer must know."""
        if self._plan.is_single_task:
            return partitions_of(self._plan.group_id, self._plan.consumer, self._plan.topic_ids)
        return [(self._first.topic, self._first.partition)]

    def _write(self, begun: Transaction, writer: RecordWriter, rows: SourceRows) -> None:
        where = (rows.topic, rows.partition)
        if where not in begun.positions:
            if not self._plan.is_single_task:
                raise TaskFailureError(
                    f"a task has rows of {self._first.topic}-{self._first.partition} and of "
                    f"{rows.topic}-{rows.partition}: forward needs one partition in each task",
                    is_permanent=True,
                )
            begun.positions[where] = committed(begun.reader, [where])[0]
        following = rows.last_offset + 1
        _check_order(rows, self._next.get(where))
        left = rows.after(begun.positions[where].offset)
        self._figures.records += len(rows)
        self._figures.skipped += len(rows) - len(left)
        if self._plan.counts_trimmed:
            self._figures.trimmed += self._trimmed(begun, left)
        self._next[where] = following
        if len(left):
            writer.write(left)
            if left.oldest_ms is not None:
                self._figures.see_timestamp(left.oldest_ms)

    def _trimmed(self, begun: Transaction, rows: SourceRows) -> int:
        """Return the number of offsets that retention deleted before these rows."""
        where = (rows.topic, rows.partition)
        position = max(begun.positions[where].offset, self._next.get(where, -1))
        if position < 0 or not len(rows):  # nothing was read before
            return 0
        return trimmed_offsets.count(
            rows.offsets, position, functools.partial(log_start, begun.reader, *where)
        )

    def _commit(self, where: tuple[str, int], offset: int, note: str) -> TopicPartition:
        topic, partition = where
        now_ms = int(time.time() * 1000)
        metadata = OffsetMetadata(self._plan.topic_ids.get(topic), note, now_ms).encode()
        return TopicPartition(topic, partition, offset, metadata=metadata)


def _check_order(rows: SourceRows, following: int | None) -> None:
    """Raise TaskFailureError when rows of a partition come out of order."""
    if following is None:
        return
    if rows.first_offset < following - rows.repeats_offsets:
        first = RecordPosition(rows.topic, rows.partition, rows.first_offset)
        message = f"rows of a task are not in the order of offsets: {first} behind {following}"
        raise TaskFailureError(message, is_permanent=True, record=first)

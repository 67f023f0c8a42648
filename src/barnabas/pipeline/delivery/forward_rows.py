"""A forward task of a user's query: Spark reads the records, the task gets rows made of them.

The rows of one topic partition and the offset behind the last of them are one transaction. The task
trusts the group's committed offset, not Spark's checkpoint: rows of records that an earlier
transaction has committed are dropped.
"""

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, Protocol, Self

from barnabas.pipeline.delivery import trimmed_offsets
from barnabas.pipeline.delivery.forward_transaction import ForwardTransaction, forward_transaction
from barnabas.pipeline.delivery.job_plan import RecordPosition
from barnabas.pipeline.delivery.task_failures import TaskFailureError
from barnabas.pipeline.delivery.task_figures import Figures
from barnabas.pipeline.delivery.transactional_producer import log_start
from barnabas.pipeline.delivery.worker_plan import TaskPlan, transactional_id


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


def run(plan: TaskPlan, rows: Iterator[SourceRows]) -> Iterator[Any]:
    """Write the rows of a task in one transaction; yield one row of figures.

    Raises TaskFailureError.
    """
    first = next(rows, None)
    if first is not None:
        yield _run(plan, first, rows).as_batch()


def _run(plan: TaskPlan, first: SourceRows, others: Iterable[SourceRows]) -> Figures:
    where = (first.topic, first.partition)
    with forward_transaction(plan, transactional_id(plan, *where), [where]) as current:
        _write(plan, current, first)
        for rows in others:
            if (rows.topic, rows.partition) != where:
                raise TaskFailureError(
                    f"a task has rows of {first.topic}-{first.partition} and of "
                    f"{rows.topic}-{rows.partition}: forward needs one partition in each task",
                    is_permanent=True,
                )
            _write(plan, current, rows)
    return current.figures


def _write(plan: TaskPlan, current: ForwardTransaction, rows: SourceRows) -> None:
    where = (rows.topic, rows.partition)
    _check_order(rows, current.following.get(where))
    left = rows.after(current.committed(where))
    figures = current.figures
    figures.records += len(rows)
    figures.skipped += len(rows) - len(left)
    if plan.counts_trimmed:
        figures.trimmed += _trimmed(current, left)
    current.following[where] = rows.last_offset + 1
    if len(left):
        current.writer.write(left)
        if left.oldest_ms is not None:
            figures.see_timestamp(left.oldest_ms)


def _trimmed(current: ForwardTransaction, rows: SourceRows) -> int:
    """Return the number of offsets that retention deleted before these rows."""
    where = (rows.topic, rows.partition)
    position = max(current.committed(where), current.following.get(where, -1))
    if position < 0 or not len(rows):  # nothing was read before
        return 0
    read_start = functools.partial(log_start, current.begun.reader, *where)
    return trimmed_offsets.count(rows.offsets, position, read_start)


def _check_order(rows: SourceRows, following: int | None) -> None:
    """Raise TaskFailureError when rows of a partition come out of order."""
    if following is None:
        return
    if rows.first_offset < following - rows.repeats_offsets:
        first = RecordPosition(rows.topic, rows.partition, rows.first_offset)
        message = f"rows of a task are not in the order of offsets: {first} behind {following}"
        raise TaskFailureError(message, is_permanent=True, record=first)

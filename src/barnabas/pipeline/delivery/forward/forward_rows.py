"""A forward task of a user's query: Spark reads the records, the task gets rows made of them.

Rows of one topic partition and the offset after the last of them are one transaction. The task
trusts the group's committed offset, not Spark's checkpoint: rows of records that an earlier
transaction has committed are dropped. So a task that takes long has several transactions, one after
the other: none exceeds its timeout when functions of the user are slow, and records become visible.
"""

import functools
import time
from collections.abc import Iterable, Iterator
from typing import Any

from barnabas.pipeline.delivery.driver import trimmed_offsets
from barnabas.pipeline.delivery.forward.forward_transaction import (
    ForwardTransaction,
    forward_transaction,
)
from barnabas.pipeline.delivery.plan.job_plan import RecordPosition
from barnabas.pipeline.delivery.plan.offset_ranges import Partition
from barnabas.pipeline.delivery.plan.task_failures import TaskFailureError
from barnabas.pipeline.delivery.plan.worker_plan import TaskPlan, transactional_id
from barnabas.pipeline.delivery.rows.frame_rows import FrameRows
from barnabas.pipeline.delivery.writing.transactional_producer import log_start


def run(plan: TaskPlan, rows: Iterator[FrameRows]) -> Iterator[Any]:
    """Write the rows of a task; yield a row of figures for each transaction.

    Raises TaskFailureError.
    """
    reached: dict[Partition, int] = {}
    left = _of_one_partition(rows)
    first = next(left, None)
    while first is not None:
        where = first.where
        with forward_transaction(plan, transactional_id(plan, *where), [where]) as current:
            current.following.update(reached)
            first = _write_some(plan, current, first, left)
            reached[where] = current.following[where]
            # Another instance may be ahead: from an earlier position both would write again.
            current.following[where] = max(reached[where], current.committed(where))
        yield current.figures.as_batch()


def _of_one_partition(runs: Iterable[FrameRows]) -> Iterator[FrameRows]:
    """Yield the rows of a task. Raises TaskFailureError when they are of two partitions."""
    where: Partition | None = None
    for rows in runs:
        where = where or rows.where
        if rows.where != where:
            raise TaskFailureError(
                f"a task has rows of {where[0]}-{where[1]} and of "
                f"{rows.topic}-{rows.partition}: forward needs one partition in each task",
                is_permanent=True,
            )
        yield rows


def _write_some(
    plan: TaskPlan, current: ForwardTransaction, first: FrameRows, others: Iterator[FrameRows]
) -> FrameRows | None:
    """Write rows until the time of a transaction is over; return the next ones.

    The rows of one record are in one transaction.
    """
    until_s = time.monotonic() + plan.limit_s
    rows: FrameRows | None = first
    while rows is not None:
        _write(plan, current, rows)
        rows = next(others, None)
        is_over = time.monotonic() >= until_s
        if is_over and rows is not None and rows.first_offset >= current.following[rows.where]:
            break
    return rows


def _write(plan: TaskPlan, current: ForwardTransaction, rows: FrameRows) -> None:
    where = rows.where
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


def _trimmed(current: ForwardTransaction, rows: FrameRows) -> int:
    """Return the number of offsets that retention deleted before these rows."""
    where = rows.where
    position = max(current.committed(where), current.following.get(where, -1))
    if position < 0 or not len(rows):  # nothing was read before
        return 0
    read_start = functools.partial(log_start, current.begun.reader, *where)
    return trimmed_offsets.count(rows.offsets, position, read_start)


def _check_order(rows: FrameRows, following: int | None) -> None:
    """Raise TaskFailureError when rows come out of order; a record may have several rows."""
    if following is None:
        return
    if rows.first_offset < following - 1:
        first = RecordPosition(rows.topic, rows.partition, rows.first_offset)
        message = f"rows of a task are not in the order of offsets: {first} comes after {following}"
        raise TaskFailureError(message, is_permanent=True, record=first)

"""A forward task of a user's query: Spark reads the records, the task gets rows made of them.

The rows of one topic partition and the offset after the last of them are one transaction. The task
trusts the group's committed offset, not Spark's checkpoint: rows of records that an earlier
transaction has committed are dropped.
"""

import functools
from collections.abc import Iterable, Iterator
from typing import Any

from barnabas.pipeline.delivery.driver import trimmed_offsets
from barnabas.pipeline.delivery.forward.forward_transaction import (
    ForwardTransaction,
    forward_transaction,
)
from barnabas.pipeline.delivery.plan.job_plan import RecordPosition
from barnabas.pipeline.delivery.plan.task_failures import TaskFailureError
from barnabas.pipeline.delivery.plan.worker_plan import TaskPlan, transactional_id
from barnabas.pipeline.delivery.rows.frame_rows import FrameRows
from barnabas.pipeline.delivery.rows.task_figures import Figures
from barnabas.pipeline.delivery.writing.transactional_producer import log_start


def run(plan: TaskPlan, rows: Iterator[FrameRows]) -> Iterator[Any]:
    """Write the rows of a task in one transaction; yield one row of figures.

    Raises TaskFailureError.
    """
    first = next(rows, None)
    if first is not None:
        yield _run(plan, first, rows).as_batch()


def _run(plan: TaskPlan, first: FrameRows, others: Iterable[FrameRows]) -> Figures:
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
        # Another instance of the job may be ahead: from an earlier position both would write again.
        current.following[where] = max(current.following[where], current.committed(where))
    return current.figures


def _write(plan: TaskPlan, current: ForwardTransaction, rows: FrameRows) -> None:
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


def _trimmed(current: ForwardTransaction, rows: FrameRows) -> int:
    """Return the number of offsets that retention deleted before these rows."""
    where = (rows.topic, rows.partition)
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

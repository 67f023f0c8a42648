"""Rows of a query, and a process that forwards them: `python -m` this BOOTSTRAP NAME COUNT.

It prints a line after each transaction, so that a test can kill it between and within them.
"""

import sys
from collections.abc import Iterator

import pyarrow as pa

from barnabas.pipeline.delivery.forward import forward_rows
from barnabas.pipeline.delivery.plan.worker_plan import TaskPlan
from barnabas.pipeline.delivery.rows.frame_rows import FrameRows

_ROWS = 50
_HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])


def plan_of(bootstrap: str, name: str) -> TaskPlan:
    """Return a query whose transactions end after each batch of rows."""
    client = {"bootstrap.servers": bootstrap}
    return TaskPlan(
        name, 1, "stream", name, name, client, client, {},
        target_topic=f"{name}-to", topic_ids={name: "id"}, limit_s=0.0,
    )  # fmt: skip


def rows(plan: TaskPlan, *offsets: int, partition: int = 0) -> FrameRows:
    """Return rows of records, whose values are their offsets."""
    count = len(offsets)
    columns = {
        "key": pa.array([None] * count, pa.binary()),
        "value": pa.array([str(offset).encode() for offset in offsets], pa.binary()),
        "headers": pa.array([None] * count, pa.list_(_HEADER)),
        "timestamp_ms": pa.array([1_000] * count, pa.int64()),
        "_offset": pa.array(list(offsets), pa.int64()),
        "_kept": pa.array([True] * count, pa.bool_()),
    }
    return FrameRows(plan.job, partition, pa.RecordBatch.from_pydict(columns))


def batches(plan: TaskPlan, count: int) -> Iterator[FrameRows]:
    """Yield batches of a task that reads `count` records from the first one."""
    for first in range(0, count, _ROWS):
        yield rows(plan, *range(first, min(first + _ROWS, count)))


def main(bootstrap: str, name: str, count: int) -> None:
    plan = plan_of(bootstrap, name)
    for _ in forward_rows.run(plan, batches(plan, count)):
        print("committed", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))

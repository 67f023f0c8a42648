"""The code of Spark's tasks: the functions that Spark calls in the Python workers."""

from collections.abc import Iterator, Sequence
from typing import Any

from barnabas.pipeline.delivery.forward import forward_ranges, forward_rows
from barnabas.pipeline.delivery.forward.forward_ranges import ForwardResult
from barnabas.pipeline.delivery.lake import lake_rows
from barnabas.pipeline.delivery.lake import source_rows as row_sources
from barnabas.pipeline.delivery.lake.lake_rows import LakePlan
from barnabas.pipeline.delivery.lake.source_rows import RowsPlan
from barnabas.pipeline.delivery.micro_batches import micro_batch_tasks
from barnabas.pipeline.delivery.micro_batches.micro_batch_tasks import MicroBatchPlan
from barnabas.pipeline.delivery.plan.offset_ranges import OffsetRange
from barnabas.pipeline.delivery.plan.worker_plan import TaskPlan
from barnabas.pipeline.delivery.rows.frame_rows import frame_runs
from barnabas.pipeline.delivery.rows.task_figures import Figures
from barnabas.pipeline.delivery.slices import slice_tasks


def forward(
    plan: TaskPlan, tasks: Sequence[Sequence[OffsetRange]], indexes: Iterator[int]
) -> Iterator[ForwardResult]:
    """Copy the records of each task's ranges in one transaction; yield what was done."""
    for index in indexes:
        yield forward_ranges.run(plan, tasks[index])


def forward_frame(plan: TaskPlan, batches: Iterator[Any]) -> Iterator[Any]:
    """Write the rows of a user's query; yield a row of figures for each transaction."""
    source = next(iter(plan.topic_ids), "")
    runs = (run for batch in batches for run in frame_runs(batch, source))
    yield from forward_rows.run(plan, runs)


def micro_batch(plan: MicroBatchPlan, batches: Iterator[Any]) -> Iterator[Any]:
    """Write the rows of a shuffle partition in one transaction; yield one row of figures."""
    yield micro_batch_tasks.run(plan, batches).as_batch()


def lake(plan: LakePlan, batches: Iterator[Any]) -> Iterator[Any]:
    """Yield the rows of records for a sink of Spark, then one row of figures."""
    yield from lake_rows.run(plan, batches)


def source_rows(plan: RowsPlan, batches: Iterator[Any]) -> Iterator[Any]:
    """Yield the records of a Spark source's rows, for the tasks that write a micro-batch."""
    yield from row_sources.run(plan, batches)


def source_slice(plan: TaskPlan, indexes: Iterator[int]) -> Iterator[Figures]:
    """Run one slice of each of a source connector's tasks; yield its figures."""
    for index in indexes:
        yield slice_tasks.run(plan, index)

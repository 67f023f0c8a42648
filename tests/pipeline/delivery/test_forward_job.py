"""The figures of a forward job while a batch runs, with Spark replaced."""

import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from barnabas.pipeline.delivery.forward.forward_job import ForwardJob
from barnabas.pipeline.delivery.forward.forward_ranges import ForwardResult
from barnabas.pipeline.delivery.plan.job_plan import JobKind, JobPlan, PartitionLag
from barnabas.pipeline.delivery.plan.worker_plan import TaskPlan
from barnabas.pipeline.delivery.rows.task_figures import Figures

PLAN = JobPlan("job", 1, JobKind.COPY, "h:1", group_id="job", transactional_id="job")
TASK = TaskPlan("job", 1, "copy", "job", "job", {}, {}, {})


class Partitions:
    """One partition with 100 records."""

    def __init__(self) -> None:
        self.positions = {("t", 0): 0}
        self.topic_ids = {"t": "id"}
        self.trimmed = 0

    def ends(self) -> dict[tuple[str, int], int]:
        return {("t", 0): 100}

    def refresh(self) -> bool:
        return False

    def changed(self) -> None:
        return None


def session(collect: Callable[[], list[ForwardResult]]) -> Any:
    """Return a session whose Spark jobs are calls of `collect`."""
    rows = SimpleNamespace(collect=collect)
    rows.mapPartitions = lambda function: rows
    context = SimpleNamespace(
        setJobGroup=lambda *arguments, **options: None, parallelize=lambda *arguments: rows
    )
    return SimpleNamespace(sparkContext=context)


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_records_of_a_batch_that_runs_are_lag() -> None:
    """A target that does not answer would be shown as a job that has nothing to do."""
    is_released = threading.Event()

    def collect() -> list[ForwardResult]:
        assert is_released.wait(60)
        return [ForwardResult(Figures(records=100, written=100), {("t", 0): 100})]

    partitions: Any = Partitions()
    job = ForwardJob(session(collect), PLAN, TASK, partitions)
    job.start()
    try:
        eventually(lambda: job.progress().lag == (PartitionLag("t", 0, 0, 100),))
        is_released.set()
        eventually(lambda: job.progress().lag == (PartitionLag("t", 0, 100, 100),))
    finally:
        is_released.set()
        job.stop()

"""Run a source connector in slices: bounded Spark jobs, one Spark task for each connector task.

A thread of the runner starts one Spark job after the other. A slice ends early when its source has
no records now, so that an idle connector holds no core; the pause between slices then grows.
"""

import contextlib
import functools
import threading
import time
import uuid
from typing import Final

import attrs
from confluent_kafka import KafkaException

from barnabas.config import ConfigError
from barnabas.pipeline.delivery import task_failures, worker_tasks
from barnabas.pipeline.delivery.cluster_state import ClusterState
from barnabas.pipeline.delivery.job_plan import JobFailure, JobPlan, JobProgress
from barnabas.pipeline.delivery.spark_library import SparkSession
from barnabas.pipeline.delivery.task_failures import refused
from barnabas.pipeline.delivery.task_figures import SUMS, Figures
from barnabas.pipeline.delivery.task_plans import task_plan
from barnabas.pipeline.delivery.worker_plan import TaskPlan

_IDLE_PAUSE_MAX_S: Final = 1.0


def start(session: SparkSession, plan: JobPlan) -> "SlicesJob":
    """Start the slices. Raises JobStartError."""
    if not plan.task_configs:
        raise refused("the connector has no tasks", is_permanent=False)
    try:
        task = task_plan(plan, topic_ids={})
        cluster = ClusterState(task.consumer)
        cluster.create_dead_letter_topic(plan.properties)
        missing = cluster.topics([plan.offsets_topic])[plan.offsets_topic] is None
    except (ConfigError, KafkaException) as error:
        raise refused(str(error), is_permanent=isinstance(error, ConfigError)) from error
    if missing:
        raise refused(f"topic {plan.offsets_topic} does not exist", is_permanent=False)
    job = SlicesJob(session, plan, task)
    job.start()
    return job


class SlicesJob:
    """A source connector that runs slice by slice."""

    def __init__(self, session: SparkSession, plan: JobPlan, task: TaskPlan) -> None:
        self._context = session.sparkContext
        self._plan = plan
        self._task = task
        self._group = f"{plan.name}-{plan.generation}-{uuid.uuid4().hex[:8]}"
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=self._group, daemon=True)
        self._progress = JobProgress()
        self._failure: JobFailure | None = None

    @property
    def plan(self) -> JobPlan:
        """Return the plan that the job was started with."""
        return self._plan

    def start(self) -> None:
        """Start the first slice."""
        self._thread.start()

    def is_running(self) -> bool:
        """True until the job was stopped or failed."""
        return self._thread.is_alive()

    def progress(self) -> JobProgress:
        """Return the totals up to now."""
        return self._progress

    def failure(self) -> JobFailure | None:
        """Return why the slices ended by themselves, or None."""
        return self._failure

    def stop(self, timeout_s: float = 30.0) -> None:
        """End after the running slice, or cancel it when the time is over."""
        self._stopping.set()
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            with contextlib.suppress(Exception):
                self._context.cancelJobGroup(self._group)
            self._thread.join(timeout_s)

    def _run(self) -> None:
        pause_s = self._plan.trigger_ms / 1000
        try:
            self._context.setJobGroup(self._group, self._plan.name, interruptOnCancel=True)
            while not self._stopping.is_set():
                records = self._slice()
                idle_s = min(_IDLE_PAUSE_MAX_S, 2 * pause_s)
                pause_s = self._plan.trigger_ms / 1000 if records else idle_s
                self._stopping.wait(pause_s if not records else 0.0)
        except Exception as error:
            if not self._stopping.is_set():
                self._failure = task_failures.from_text(str(error))

    def _slice(self) -> int:
        """Run one Spark job; return the number of records."""
        started = time.monotonic()
        count = len(self._plan.task_configs)
        run = functools.partial(worker_tasks.source_slice, self._task)
        figures: list[Figures] = (
            self._context.parallelize(range(count), count).mapPartitions(run).collect()
        )
        records = sum(each.records for each in figures)
        if records:
            self._add(figures, records, time.monotonic() - started)
        return records

    def _add(self, figures: list[Figures], records: int, elapsed_s: float) -> None:
        total = self._progress
        sums = {name: sum(getattr(each, name) for each in figures) for name in SUMS}
        self._progress = attrs.evolve(
            total,
            **{name: getattr(total, name) + added for name, added in sums.items()},
            batches=total.batches + 1,
            batch_ms=int(elapsed_s * 1000),
            records_per_second=records / elapsed_s if elapsed_s else 0.0,
            updated_ms=int(time.time() * 1000),
        )

"""Run a source connector in slices: bounded Spark jobs, one Spark task for each connector task.

A thread of the runner starts one Spark job after the other. A slice ends early when its source has
no records now, so that an idle connector holds no core; the pause between slices then grows.
"""

import functools
import time
from typing import Final

from confluent_kafka import KafkaException

from barnabas.config import ConfigError
from barnabas.pipeline.delivery import worker_tasks
from barnabas.pipeline.delivery.driver.cluster_state import ClusterState
from barnabas.pipeline.delivery.driver.looped_job import LoopedJob
from barnabas.pipeline.delivery.driver.spark_library import SparkSession
from barnabas.pipeline.delivery.plan.job_plan import JobPlan, JobProgress
from barnabas.pipeline.delivery.plan.task_failures import refused
from barnabas.pipeline.delivery.plan.task_plans import task_plan
from barnabas.pipeline.delivery.plan.worker_plan import TaskPlan
from barnabas.pipeline.delivery.rows.task_figures import Figures

_IDLE_PAUSE_MIN_S: Final = 0.01
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


class SlicesJob(LoopedJob):
    """A source connector that runs slice by slice."""

    def __init__(self, session: SparkSession, plan: JobPlan, task: TaskPlan) -> None:
        super().__init__(session, plan, JobProgress())
        self._task = task
        self._first_pause_s = max(_IDLE_PAUSE_MIN_S, plan.trigger_ms / 1000)
        self._pause_s = self._first_pause_s

    def _turn(self) -> float:
        """Run one slice of each task; pauses of an idle connector grow."""
        started = time.monotonic()
        count = len(self._plan.task_configs)
        run = functools.partial(worker_tasks.source_slice, self._task)
        figures: list[Figures] = (
            self._context.parallelize(range(count), count).mapPartitions(run).collect()
        )
        if any(each.records for each in figures):
            self._add(figures, time.monotonic() - started, {})
            self._pause_s = self._first_pause_s
            return 0.0
        self._pause_s = max(self._first_pause_s, min(_IDLE_PAUSE_MAX_S, 2 * self._pause_s))
        return self._pause_s

"""Start a forward job: batches without a shuffle, one Spark task for each topic partition.

A thread of the runner plans a batch and runs it as a Spark job: it reads the ends of the partitions
and gives each task the range of offsets that it shall read. The tasks read the records themselves,
since records cost more on their way through Spark's rows to Python than in librdkafka. The group's
committed offsets are the only position that is kept.
"""

import contextlib
import functools
import time
from typing import Final

import attrs
from confluent_kafka import KafkaException

from barnabas.config import ConfigError
from barnabas.pipeline.delivery import worker_tasks
from barnabas.pipeline.delivery.driver.cluster_state import ClusterState
from barnabas.pipeline.delivery.driver.kafka_queries import batch_limits
from barnabas.pipeline.delivery.driver.looped_job import LoopedJob
from barnabas.pipeline.delivery.driver.spark_library import SparkSession
from barnabas.pipeline.delivery.forward.forward_ranges import ForwardResult
from barnabas.pipeline.delivery.forward.source_partitions import SourcePartitions
from barnabas.pipeline.delivery.plan import kafka_properties
from barnabas.pipeline.delivery.plan.job_plan import (
    Guarantee,
    JobFailure,
    JobKind,
    JobPlan,
    JobProgress,
    OnTrim,
    PartitionLag,
    RunningJob,
)
from barnabas.pipeline.delivery.plan.offset_ranges import OffsetRange, Partition, to_read
from barnabas.pipeline.delivery.plan.task_failures import refused
from barnabas.pipeline.delivery.plan.task_plans import consumer_properties, task_plan
from barnabas.pipeline.delivery.plan.worker_plan import TaskPlan
from barnabas.pipeline.delivery.writing.record_producer import error_of
from barnabas.pipeline.delivery.writing.sink_writer import sink_task_class

_CHECK_EVERY_S: Final = 1.0
_WATCH_EVERY_S: Final = 5.0
_RESTING_S: Final = 60.0
"""A job without records for this time looks for new ones less often."""
_RESTING_TRIGGER_S: Final = 1.0
_TRIGGER_MIN_S: Final = 0.01
_SHOWN_S: Final = 10.0
"""The figures of the newest batch are shown for this time, when no other follows."""
_UNREACHABLE_S: Final = 30.0
_RETRY_S: Final = 0.5
_REFUSED: Final = ("AUTHORIZATION_FAILED", "_AUTHENTICATION")


def start(session: SparkSession, plan: JobPlan) -> RunningJob:
    """Start the job. Raises JobStartError."""
    try:
        cluster = ClusterState(kafka_properties.for_librdkafka(consumer_properties(plan)))
        partitions = SourcePartitions(cluster, plan)
        cluster.create_dead_letter_topic(plan.properties)
        bytes_max = cluster.record_bytes_max(plan.target_topic) if plan.target_topic else None
        task = task_plan(
            plan,
            topic_ids=partitions.topic_ids,
            record_bytes_max=bytes_max,
            is_single_task=is_single_task(plan),
        )
    except (ConfigError, KafkaException) as error:
        raise refused(str(error), is_permanent=isinstance(error, ConfigError)) from error
    task = attrs.evolve(
        task,
        skips_trimmed=plan.on_trim is OnTrim.SKIP,
        is_at_least_once=plan.guarantee is Guarantee.AT_LEAST_ONCE,
    )
    job = ForwardJob(session, plan, task, partitions)
    job.start()
    return job


class ForwardJob(LoopedJob):
    """A copy or a sink, batch by batch."""

    def __init__(
        self, session: SparkSession, plan: JobPlan, task: TaskPlan, partitions: SourcePartitions
    ) -> None:
        progress = JobProgress(trimmed=partitions.trimmed, topic_ids=dict(partitions.topic_ids))
        super().__init__(session, plan, progress)
        self._task = task
        self._partitions = partitions
        self._records_max, trigger_ms = batch_limits(plan)
        self._trigger_s = max(_TRIGGER_MIN_S, trigger_ms / 1000)
        self._batches = 0
        self._checked_s = self._busy_s = time.monotonic()

    def progress(self) -> JobProgress:
        """Return the totals up to now; end the job when one of its topics is gone."""
        now_s = time.monotonic()
        if self.is_running() and now_s - self._checked_s >= _WATCH_EVERY_S:
            self._checked_s = now_s
            with contextlib.suppress(KafkaException):  # the cluster does not answer
                if failure := self._partitions.changed():
                    self._fail(failure)
        return super().progress()

    def _explained(self, failure: JobFailure) -> JobFailure:
        """Return the failure of the topics where they are why a batch failed."""
        if not failure.is_permanent:
            with contextlib.suppress(KafkaException):
                if changed := self._partitions.changed():
                    return attrs.evolve(changed, trace=failure.trace)
        return failure

    def _turn(self) -> float:
        began_s = time.monotonic()
        self._refresh(began_s)
        ends = self._ends()
        ranges = to_read(self._partitions.positions, ends, self._records_max, self._batches)
        if self._stopping.is_set():  # while the cluster did not answer
            return 0.0
        if ranges:
            self._report(ends)  # the target may take long
            self._run_batch(ranges, began_s)
        self._report(ends)
        is_resting = time.monotonic() - self._busy_s > _RESTING_S
        trigger_s = max(self._trigger_s, _RESTING_TRIGGER_S if is_resting else 0.0)
        return max(0.0, began_s + trigger_s - time.monotonic())

    def _refresh(self, now_s: float) -> None:
        """Look for new partitions. Raises JobStartError when a topic is gone."""
        if now_s - self._checked_s < _CHECK_EVERY_S:
            return
        with contextlib.suppress(KafkaException):  # repeated at the next turn
            if self._partitions.refresh():
                ids = dict(self._partitions.topic_ids)
                self._task = attrs.evolve(self._task, topic_ids=ids)
                self._progress = attrs.evolve(self._progress, topic_ids=ids)
            self._checked_s = now_s

    def _ends(self) -> dict[Partition, int]:
        """Return the ends of all partitions; leaders may be elected meanwhile.

        Raises JobStartError when the cluster refuses, or does not answer.
        """
        deadline = time.monotonic() + _UNREACHABLE_S
        while True:
            try:
                return self._partitions.ends()
            except KafkaException as error:
                is_refused = error_of(error).name().endswith(_REFUSED)
                if is_refused or time.monotonic() > deadline or self._stopping.wait(_RETRY_S):
                    text = f"the ends of the source topics cannot be read: {error_of(error).str()}"
                    raise refused(text, is_permanent=is_refused) from error

    def _run_batch(self, ranges: list[OffsetRange], began_s: float) -> None:
        tasks = [ranges] if self._task.is_single_task else [[each] for each in ranges]
        run = functools.partial(worker_tasks.forward, self._task, tasks)
        planned_s = time.monotonic()
        results: list[ForwardResult] = (
            self._context.parallelize(range(len(tasks)), len(tasks)).mapPartitions(run).collect()
        )
        self._busy_s = time.monotonic()
        self._batches += 1
        for result in results:
            self._partitions.positions.update(result.positions)
        phases_ms = {
            "latestOffset": int((planned_s - began_s) * 1000),
            "addBatch": int((self._busy_s - planned_s) * 1000),
            "triggerExecution": int((self._busy_s - began_s) * 1000),
        }
        self._add([each.figures for each in results], self._busy_s - began_s, phases_ms)

    def _report(self, ends: dict[Partition, int]) -> None:
        """Note the distance from the ends; an idle job has no rate."""
        lag = [
            PartitionLag(*where, position, max(position, ends.get(where, position)))
            for where, position in self._partitions.positions.items()
        ]
        self._progress = attrs.evolve(self._progress, lag=tuple(lag))
        if time.monotonic() - self._busy_s > _SHOWN_S:
            self._progress = attrs.evolve(self._progress, records_per_second=0.0, lag_s=0.0)


def is_single_task(plan: JobPlan) -> bool:
    """True when one task must write the records of all partitions, as to one file."""
    return plan.kind is JobKind.SINK and sink_task_class(plan.connector_class).needs_all_partitions

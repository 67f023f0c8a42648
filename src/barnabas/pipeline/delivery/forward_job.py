"""Start a forward job: a query without a shuffle, one Spark task for each topic partition.

The query starts at the group's committed offsets, so its checkpoint is scratch. The write is inside
the plan (`mapInArrow`), and the query's own sink takes nothing: the tasks' figures arrive as
observed metrics.
"""

import functools
import json
import shutil
import uuid
from pathlib import Path
from typing import Any, Final

from confluent_kafka import KafkaException

from barnabas.config import ConfigError
from barnabas.pipeline.delivery import (
    collected_rows,
    kafka_properties,
    start_positions,
    worker_tasks,
)
from barnabas.pipeline.delivery.cluster_state import (
    ClusterState,
    Topic,
    changed_topic,
    check_topic,
)
from barnabas.pipeline.delivery.group_positions import GroupPositions
from barnabas.pipeline.delivery.job_plan import (
    Guarantee,
    JobFailure,
    JobKind,
    JobPlan,
    JobProgress,
)
from barnabas.pipeline.delivery.query_job import QueryJob
from barnabas.pipeline.delivery.query_progress import FIGURES
from barnabas.pipeline.delivery.sink_writer import sink_task_class
from barnabas.pipeline.delivery.spark_library import (
    DataFrame,
    SparkSession,
    StreamingQuery,
    pyspark,
)
from barnabas.pipeline.delivery.start_positions import StartPositions
from barnabas.pipeline.delivery.task_failures import JobStartError, refused
from barnabas.pipeline.delivery.task_figures import SCHEMA, SUMS
from barnabas.pipeline.delivery.task_plans import consumer_properties, task_plan
from barnabas.pipeline.delivery.topic_writers import is_bytes_copy
from barnabas.pipeline.delivery.worker_plan import TaskPlan
from barnabas.pipeline.delivery.worker_rows import map_in_workers

OFFSETS_REMEDY: Final = "reset the offsets of the job"


def start(session: SparkSession, plan: JobPlan, work_directory: Path) -> QueryJob:
    """Start the query. Raises JobStartError."""
    try:
        properties = kafka_properties.for_librdkafka(consumer_properties(plan))
        cluster = ClusterState(properties)
        topics = existing_topics(cluster, plan)
        states = cluster.partition_states(plan.group_id, topics)
        cluster.create_dead_letter_topic(plan.properties)
        bytes_max = cluster.record_bytes_max(plan.target_topic) if plan.target_topic else None
    except (ConfigError, KafkaException) as error:
        raise refused(str(error), is_permanent=isinstance(error, ConfigError)) from error
    positions = start_positions.decide(states, plan.offset_reset, plan.on_trim)
    if isinstance(positions, JobFailure):
        raise JobStartError(positions)
    scratch = work_directory / "checkpoints" / f"{plan.name}-{uuid.uuid4().hex}"
    scratch.mkdir(parents=True)
    is_at_least_once = plan.kind is JobKind.COPY and plan.guarantee is Guarantee.AT_LEAST_ONCE
    topic_ids = {topic.name: topic.topic_id for topic in topics}
    task = task_plan(
        plan, topic_ids=topic_ids, record_bytes_max=bytes_max, is_single_task=is_single_task(plan)
    )
    try:
        rows = _rows(session, plan, positions)
        if is_at_least_once:
            query = _at_least_once(rows, plan, task, scratch)
        else:
            query = _exactly_once(rows, plan, task, scratch)
    except Exception as error:
        shutil.rmtree(scratch, ignore_errors=True)
        raise refused(str(error), is_permanent=False) from error
    return QueryJob(
        plan,
        query,
        progress=JobProgress(trimmed=positions.trimmed, topic_ids=topic_ids),
        watch=functools.partial(changed_topic, cluster, topic_ids, OFFSETS_REMEDY),
        on_batch=(
            GroupPositions(plan.group_id, properties, topic_ids).commit
            if is_at_least_once
            else None
        ),
        scratch=scratch,
    )


def source_options(plan: JobPlan, positions: StartPositions) -> dict[str, str]:
    """Return the options of Spark's Kafka source.

    `minPartitions` and `maxRecordsPerPartition` must never be among them: they cut a partition into
    several tasks, of which the last commits the offset of the first. Raises ConfigError.
    """
    subscription = (
        {"subscribePattern": plan.topics_pattern}
        if plan.topics_pattern is not None
        else {"subscribe": ",".join(plan.topics)}
    )
    client = {
        **kafka_properties.SPARK_READER,
        **consumer_properties(plan),
        "isolation.level": "read_committed",
    }
    return {
        **kafka_properties.for_spark(client),
        **subscription,
        "startingOffsets": json.dumps(positions.offsets),
        "failOnDataLoss": "true",
        "includeHeaders": "true",
        "maxOffsetsPerTrigger": str(batch_limits(plan)[0]),
    }


def batch_limits(plan: JobPlan) -> tuple[int, int]:
    """Return the largest number of records of a batch, and the least ms from one to the next."""
    rate, trigger_ms = plan.records_per_second_max, plan.trigger_ms
    if not rate:
        return plan.max_records_per_batch, trigger_ms
    # Fewer than one batch of one record: the batches are further apart.
    trigger_ms = max(trigger_ms, 100, -(-1000 // rate))
    return max(1, min(plan.max_records_per_batch, rate * trigger_ms // 1000)), trigger_ms


def figures_of(frame: DataFrame) -> DataFrame:
    """Return the tasks' rows with their sums observed."""
    functions = pyspark("sql.functions")
    sums = [functions.sum(name).alias(name) for name in SUMS]
    return frame.observe(FIGURES, *sums, functions.min("oldest_ms").alias("oldest_ms"))


def _rows(session: SparkSession, plan: JobPlan, positions: StartPositions) -> DataFrame:
    return session.readStream.format("kafka").options(**source_options(plan, positions)).load()


def _exactly_once(rows: DataFrame, plan: JobPlan, task: TaskPlan, scratch: Path) -> StreamingQuery:
    """Start the query whose tasks write in transactions."""
    if task.is_single_task:
        rows = rows.coalesce(1)
    write: Any = functools.partial(worker_tasks.forward, task)
    written = figures_of(map_in_workers(rows, write, SCHEMA))
    return started(written.writeStream.format("noop"), plan, scratch)


def _at_least_once(rows: DataFrame, plan: JobPlan, task: TaskPlan, scratch: Path) -> StreamingQuery:
    """Start the query that writes with Spark's own sink, which repeats records after a failure."""
    functions = pyspark("sql.functions")
    count = functions.count(functions.lit(1))
    oldest = functions.min(functions.unix_millis("timestamp"))
    seen = rows.observe(
        FIGURES, count.alias("records"), count.alias("written"), oldest.alias("oldest_ms")
    )
    if is_bytes_copy(plan.properties) and plan.target_topic is not None:
        target = functions.lit(plan.target_topic).alias("topic")
        outputs = seen.select("key", "value", "headers", target)
    else:
        convert: Any = functools.partial(worker_tasks.converted, task)
        outputs = map_in_workers(seen, convert, collected_rows.SCHEMA)
    producer = {
        **plan.client_properties,
        **plan.producer_overrides,
        "bootstrap.servers": plan.bootstrap,
    }
    options = {**kafka_properties.for_spark(producer), "includeHeaders": "true"}
    return started(outputs.writeStream.format("kafka").options(**options), plan, scratch)


def started(writer: Any, plan: JobPlan, scratch: Path) -> StreamingQuery:
    """Start a query with its checkpoint in `scratch`."""
    return (
        writer.queryName(f"{plan.name}-{plan.generation}-{scratch.name[-8:]}")
        .option("checkpointLocation", str(scratch))
        .trigger(processingTime=f"{batch_limits(plan)[1]} milliseconds")
        .start()
    )


def is_single_task(plan: JobPlan) -> bool:
    """True when one task must write the records of all partitions, as to one file."""
    return plan.kind is JobKind.SINK and sink_task_class(plan.connector_class).needs_all_partitions


def existing_topics(cluster: ClusterState, plan: JobPlan) -> list[Topic]:
    """Return the source topics. Raises JobStartError when one does not exist."""
    found = cluster.source_topics(plan.topics, plan.topics_pattern)
    for topic in found:
        check_topic(topic, plan.topic_ids.get(topic.name), OFFSETS_REMEDY)
    if not found:
        raise refused("no topic matches the subscription", is_permanent=False)
    return found

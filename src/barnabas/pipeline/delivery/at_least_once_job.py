"""Start a copy that delivers at least once, with Spark's own source and sink.

The query starts at the group's committed offsets, which follow each batch, so its checkpoint is
scratch. Records are repeated after a failure.
"""

import functools
import shutil
import uuid
from pathlib import Path
from typing import Any

from barnabas.pipeline.delivery import collected_rows, kafka_properties, worker_tasks
from barnabas.pipeline.delivery.group_positions import GroupPositions
from barnabas.pipeline.delivery.job_plan import JobPlan, JobProgress
from barnabas.pipeline.delivery.kafka_queries import source_options, started
from barnabas.pipeline.delivery.query_job import QueryJob
from barnabas.pipeline.delivery.query_progress import FIGURES
from barnabas.pipeline.delivery.source_partitions import SourcePartitions
from barnabas.pipeline.delivery.spark_library import SparkSession, StreamingQuery, pyspark
from barnabas.pipeline.delivery.start_positions import StartPositions
from barnabas.pipeline.delivery.task_failures import refused
from barnabas.pipeline.delivery.topic_writers import is_bytes_copy
from barnabas.pipeline.delivery.worker_plan import TaskPlan
from barnabas.pipeline.delivery.worker_rows import map_in_workers


def start(
    session: SparkSession,
    plan: JobPlan,
    task: TaskPlan,
    partitions: SourcePartitions,
    work_directory: Path,
) -> QueryJob:
    """Start the query. Raises JobStartError, ConfigError."""
    scratch = work_directory / "checkpoints" / f"{plan.name}-{uuid.uuid4().hex}"
    scratch.mkdir(parents=True)
    try:
        query = _query(session, plan, task, partitions, scratch)
    except Exception as error:
        shutil.rmtree(scratch, ignore_errors=True)
        raise refused(str(error), is_permanent=False) from error
    return QueryJob(
        plan,
        query,
        progress=JobProgress(trimmed=partitions.trimmed, topic_ids=partitions.topic_ids),
        watch=partitions.changed,
        on_batch=GroupPositions(plan.group_id, task.consumer, partitions.topic_ids).commit,
        scratch=scratch,
    )


def _query(
    session: SparkSession,
    plan: JobPlan,
    task: TaskPlan,
    partitions: SourcePartitions,
    scratch: Path,
) -> StreamingQuery:
    offsets: dict[str, dict[int, int]] = {}
    for (topic, number), offset in partitions.positions.items():
        offsets.setdefault(topic, {})[number] = offset
    options = source_options(plan, StartPositions(offsets))
    rows = session.readStream.format("kafka").options(**options).load()
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

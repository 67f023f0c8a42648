"""Start a job with a shuffle: an aggregate or a join, written micro-batch by micro-batch.

Spark's checkpoint holds the source's position and the state. Each task commits its rows with a
marker of the micro-batch, so one that is repeated after a failure writes only what is missing.
"""

import functools
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from confluent_kafka import KafkaException

from barnabas.config import ConfigError
from barnabas.pipeline.delivery import worker_tasks
from barnabas.pipeline.delivery.driver import chained_states
from barnabas.pipeline.delivery.driver.cluster_state import ClusterState, changed_topic, check_topic
from barnabas.pipeline.delivery.driver.group_positions import GroupPositions
from barnabas.pipeline.delivery.driver.kafka_queries import figures_of
from barnabas.pipeline.delivery.driver.query_job import QueryJob
from barnabas.pipeline.delivery.driver.spark_library import DataFrame, pyspark
from barnabas.pipeline.delivery.driver.worker_rows import map_in_workers
from barnabas.pipeline.delivery.micro_batches import (
    marker_records,
    micro_batch_markers,
    micro_batch_tasks,
    query_version,
    repeatable_rows,
    stream_times,
)
from barnabas.pipeline.delivery.micro_batches.checkpoint_files import CheckpointFiles, check
from barnabas.pipeline.delivery.micro_batches.micro_batch_markers import Marker
from barnabas.pipeline.delivery.micro_batches.micro_batch_tasks import MicroBatchPlan
from barnabas.pipeline.delivery.micro_batches.query_version import QueryVersion
from barnabas.pipeline.delivery.plan import start_positions
from barnabas.pipeline.delivery.plan.job_plan import (
    REBUILD,
    JobFailure,
    JobKind,
    JobPlan,
    JobProgress,
)
from barnabas.pipeline.delivery.plan.start_positions import PartitionState, Remedies
from barnabas.pipeline.delivery.plan.task_failures import JobStartError, TaskFailureError, refused
from barnabas.pipeline.delivery.plan.task_plans import task_plan
from barnabas.pipeline.delivery.plan.worker_plan import TaskPlan
from barnabas.pipeline.delivery.rows.collected_rows import FAILED
from barnabas.pipeline.delivery.rows.task_figures import SCHEMA
from barnabas.pipeline.delivery.writing.record_producer import AbortableError, FencedError
from barnabas.pipeline.delivery.writing.transactional_producer import committed_after

_SHUFFLE_PARTITIONS: Final = "spark.sql.shuffle.partitions"
_BATCH_POLL_S: Final = 0.01
_HEADERS: Final = "array<struct<key: string, value: binary>>"


def start(
    plan: JobPlan,
    frame: DataFrame,
    checkpoint: str,
    output_mode: str = "update",
    version: QueryVersion | None = None,
) -> QueryJob:
    """Start the query that writes the rows of `frame`. Raises JobStartError.

    The columns `key` and `value` are bytes or text. The columns `topic`, `partition`,
    `timestamp_ms` and `headers` are optional: without them a row goes to the plan's target topic,
    to the partition of its key, with the present time and no headers. `version` is what the state
    depends on, by default what `frame` shows.
    """
    repeatable_rows.check(frame)
    session = frame.sparkSession
    version = version or query_version.of_frame(frame, output_mode)
    try:
        task = task_plan(plan, topic_ids={})
        shuffle_partitions = int(session.conf.get(_SHUFFLE_PARTITIONS))
        batch_plan, trimmed, settled = _prepared(
            plan, task, shuffle_partitions, checkpoint, version
        )
    except ConfigError as error:
        raise refused(str(error)) from error
    except (KafkaException, AbortableError, FencedError, TimeoutError) as error:
        raise refused(str(error), is_permanent=False) from error
    except TaskFailureError as error:
        raise JobStartError(error.failure) from error
    session.conf.set(_SHUFFLE_PARTITIONS, str(batch_plan.partitions))
    query = _query(plan, frame, batch_plan, output_mode, settled)
    positions = GroupPositions(plan.group_id, task.consumer)
    topics = ClusterState(task.consumer)
    return QueryJob(
        plan,
        query,
        progress=JobProgress(trimmed=trimmed, topic_ids=batch_plan.topic_ids),
        watch=functools.partial(changed_topic, topics, batch_plan.topic_ids, REBUILD),
        on_batch=positions.commit,
        settle=functools.partial(_wait_end_of_batch, CheckpointFiles(checkpoint)),
    )


def _wait_end_of_batch(files: CheckpointFiles, timeout_s: float) -> None:
    """Wait until all tasks of the running micro-batch have ended: a new version may begin then."""
    deadline = time.monotonic() + timeout_s
    batch = files.newest_batch()
    while batch >= 0 and not files.is_committed(batch) and time.monotonic() < deadline:
        time.sleep(_BATCH_POLL_S if files.is_local else 10 * _BATCH_POLL_S)


def _prepared(
    plan: JobPlan, task: TaskPlan, partitions: int, checkpoint: str, version: QueryVersion
) -> tuple[MicroBatchPlan, int, int | None]:
    """Create the topic of the markers, and check that they and the job belong to the checkpoint.

    Returns the tasks' plan, the number of offsets that retention deleted, and the newest
    micro-batch when tasks have written it and Spark has not completed it.

    Raises JobStartError, TaskFailureError, KafkaException, AbortableError, FencedError,
    TimeoutError.
    """
    topic = markers_topic(plan.name)
    cluster = ClusterState(task.consumer)
    cluster.create_topic(topic, partitions, marker_records.TOPIC_CONFIG)
    found = cluster.topics([topic])[topic]
    partitions = found.partitions if found is not None else 0
    of_offsets = _offset_markers(task, topic, partitions)
    records = marker_records.newest(task.consumer, topic, range(partitions))
    of_records = [record.marker for record in records]
    known = dict(plan.topic_ids)
    for record in records:
        known |= record.topic_ids
    topics = cluster.source_topics(plan.topics, plan.topics_pattern)
    for each in topics:
        check_topic(each, known.get(each.name), REBUILD)
    files = CheckpointFiles(checkpoint)
    check(files, [*of_records, *of_offsets])
    batch = files.newest_batch()
    written = max(_written(of_records, batch), _written(of_offsets, batch))
    is_open = written > 0 and not files.is_committed(batch)
    is_partly_written = is_open and written < partitions
    query_version.check(files, version, is_partly_written=is_partly_written)
    trimmed = _trimmed(plan, cluster.log_ranges(topics), files.positions())
    topic_ids = {each.name: each.topic_id for each in topics}
    batch_plan = MicroBatchPlan(task, topic, partitions, checkpoint, topic_ids)
    return batch_plan, trimmed, batch if is_open else None


def _trimmed(
    plan: JobPlan,
    ranges: Mapping[tuple[str, int], tuple[int, int]],
    positions: Mapping[str, Mapping[int, int]],
) -> int:
    """Return the number of offsets that retention deleted before the query read them.

    Raises JobStartError when there are some, unless the job skips them.
    """
    states = [
        PartitionState(topic, partition, start, end, position, None, None)
        for (topic, partition), (start, end) in ranges.items()
        if (position := positions.get(topic, {}).get(partition)) is not None
    ]
    is_app = plan.kind is JobKind.STREAM
    remedies = Remedies(REBUILD, "set App(on_trim='skip')" if is_app else "set on.trim=skip")
    found = start_positions.decide(states, plan.offset_reset, plan.on_trim, remedies)
    if isinstance(found, JobFailure):
        raise JobStartError(found)
    return found.trimmed


def _written(markers: Sequence[Marker], batch: int) -> int:
    """Return the number of tasks that have written a micro-batch."""
    return sum(marker.next_batch == batch + 1 for marker in markers)


def _offset_markers(task: TaskPlan, topic: str, partitions: int) -> list[Marker]:
    """Return the markers in the group's offsets. Ends the transactions of killed tasks."""
    settings = micro_batch_tasks.transaction_settings(task)
    ids = [micro_batch_tasks.transactional_id(task, number) for number in range(partitions)]
    pairs = [(topic, number) for number in range(partitions)]
    found = committed_after(settings, ids, pairs)
    markers = (micro_batch_markers.decode(entry.offset, entry.metadata) for entry in found)
    return [marker for marker in markers if marker is not None]


def markers_topic(job: str) -> str:
    """Return the topic of a job's markers."""
    return f"{job}-epochs"


def _query(
    plan: JobPlan,
    frame: DataFrame,
    batch_plan: MicroBatchPlan,
    output_mode: str,
    settled: int | None,
) -> Any:
    write: Any = functools.partial(worker_tasks.micro_batch, batch_plan)
    written = map_in_workers(_outputs(frame, plan.target_topic), write, SCHEMA)
    writer = (
        figures_of(written)
        .writeStream.format("noop")
        .outputMode(output_mode)
        .queryName(f"{plan.name}-{plan.generation}")
        .option("checkpointLocation", batch_plan.checkpoint)
        .trigger(processingTime=f"{plan.trigger_ms} milliseconds")
    )
    known = stream_times.known_to_tasks(frame.sparkSession, batch_plan.checkpoint, settled)
    with chained_states.allowed(frame), known:
        return writer.start()


def _outputs(frame: DataFrame, target_topic: str | None) -> DataFrame:
    """Return the rows in the columns that the tasks read. Raises JobStartError."""
    functions = pyspark("sql.functions")
    if target_topic is None and "topic" not in frame.columns:
        raise refused("the rows have no column `topic`, and the job has no target topic")
    defaults = {"topic": functions.lit(target_topic), "partition": functions.lit(None)}
    defaults |= {"timestamp_ms": functions.lit(None), "headers": functions.lit(None)}
    defaults[FAILED] = functions.lit(False)
    types = {"topic": "string", "partition": "int", "timestamp_ms": "bigint", "headers": _HEADERS}
    types[FAILED] = "boolean"
    optional = [
        (frame[name] if name in frame.columns else defaults[name]).cast(kind).alias(name)
        for name, kind in types.items()
    ]
    return frame.select(
        *[frame[name].cast("binary").alias(name) for name in ("key", "value")], *optional
    )

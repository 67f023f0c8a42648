"""Start a job with a shuffle: an aggregate or a join, whose results are written epoch by epoch.

Spark's checkpoint holds the source's position and the state. Each task commits its rows with a
marker of the epoch, so an epoch that is repeated after a failure writes only what is missing.
"""

import functools
import re
from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import KafkaException

from barnabas.config import ConfigError
from barnabas.pipeline.delivery import epoch_markers, worker_tasks
from barnabas.pipeline.delivery.checkpoint_files import CheckpointFiles, check
from barnabas.pipeline.delivery.cluster_state import ClusterState
from barnabas.pipeline.delivery.epoch_markers import Marker
from barnabas.pipeline.delivery.epoch_tasks import EpochPlan
from barnabas.pipeline.delivery.forward_job import figures_of
from barnabas.pipeline.delivery.group_positions import GroupPositions
from barnabas.pipeline.delivery.job_plan import JobPlan, JobProgress
from barnabas.pipeline.delivery.query_job import QueryJob
from barnabas.pipeline.delivery.spark_library import DataFrame, pyspark
from barnabas.pipeline.delivery.task_failures import refused
from barnabas.pipeline.delivery.task_figures import SCHEMA
from barnabas.pipeline.delivery.task_plans import task_plan
from barnabas.pipeline.delivery.transactional_producer import committed, offset_reader

_SHUFFLE_PARTITIONS: Final = "spark.sql.shuffle.partitions"
# A node of a logical plan that deals rows out in no order that a repeated epoch would keep.
_ROUND_ROBIN: Final = re.compile(r"^[ :+-]*Repartition \d+, ", re.MULTILINE)


def start(
    plan: JobPlan, frame: DataFrame, checkpoint: str, output_mode: str = "update"
) -> QueryJob:
    """Start the query that writes the rows of `frame`. Raises JobStartError.

    The columns `key` and `value` are bytes or text. The columns `topic`, `partition` and
    `timestamp_ms` are optional: without them a row goes to the plan's target topic, to the
    partition of its key, with the present time.
    """
    if _ROUND_ROBIN.search(str(frame._jdf.queryExecution().analyzed().toString())):
        raise refused(
            "repartition() without columns deals rows out differently when an epoch is repeated: "
            "name the columns"
        )
    topic = f"{plan.name}-epochs"
    session = frame.sparkSession
    try:
        task = task_plan(plan, topic_ids={})
        cluster = ClusterState(task.consumer)
        cluster.create_topic(
            topic, int(session.conf.get(_SHUFFLE_PARTITIONS)), {"cleanup.policy": "compact"}
        )
        found = cluster.topics([topic])[topic]
        partitions = found.partitions if found is not None else 0
        check(
            CheckpointFiles(checkpoint), _markers(task.consumer, plan.group_id, topic, partitions)
        )
    except ConfigError as error:
        raise refused(str(error)) from error
    except KafkaException as error:
        raise refused(str(error), is_permanent=False) from error
    session.conf.set(_SHUFFLE_PARTITIONS, str(partitions))
    epoch_plan = EpochPlan(task, topic, partitions, checkpoint)
    query = _query(plan, frame, epoch_plan, output_mode)
    positions = GroupPositions(plan.group_id, task.consumer)
    return QueryJob(plan, query, progress=JobProgress(), on_batch=positions.commit)


def _markers(
    consumer: Mapping[str, Any], group_id: str, topic: str, partitions: int
) -> list[Marker]:
    pairs = [(topic, number) for number in range(partitions)]
    found = committed(offset_reader(group_id, consumer), pairs)
    markers = (epoch_markers.decode(entry.offset, entry.metadata) for entry in found)
    return [marker for marker in markers if marker is not None]


def _query(plan: JobPlan, frame: DataFrame, epochs: EpochPlan, output_mode: str) -> Any:
    write: Any = functools.partial(worker_tasks.epoch, epochs)
    written = _outputs(frame, plan.target_topic).mapInArrow(write, SCHEMA)
    return (
        figures_of(written)
        .writeStream.format("noop")
        .outputMode(output_mode)
        .queryName(f"{plan.name}-{plan.generation}")
        .option("checkpointLocation", epochs.checkpoint)
        .trigger(processingTime=f"{plan.trigger_ms} milliseconds")
        .start()
    )


def _outputs(frame: DataFrame, target_topic: str | None) -> DataFrame:
    """Return the rows in the columns that the tasks read. Raises JobStartError."""
    functions = pyspark("sql.functions")
    if target_topic is None and "topic" not in frame.columns:
        raise refused("the rows have no column `topic`, and the job has no target topic")
    defaults = {"topic": functions.lit(target_topic), "partition": functions.lit(None)}
    defaults["timestamp_ms"] = functions.lit(None)
    types = {"topic": "string", "partition": "int", "timestamp_ms": "bigint"}
    optional = [
        (frame[name] if name in frame.columns else defaults[name]).cast(kind).alias(name)
        for name, kind in types.items()
    ]
    return frame.select(
        *[frame[name].cast("binary").alias(name) for name in ("key", "value")], *optional
    )

"""Start a job that writes the rows of a user's query whose rows stay in their task.

Each row names the record that it comes from, so the job is a forward job: the rows of a source
partition and the offset after them are one transaction, the group's offsets are the position, and
the checkpoint is scratch.
"""

import functools
import shutil
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
from confluent_kafka import KafkaException

from barnabas.config import ConfigError
from barnabas.pipeline.delivery import worker_tasks
from barnabas.pipeline.delivery.driver import frame_sources
from barnabas.pipeline.delivery.driver.cluster_state import ClusterState, changed_topic
from barnabas.pipeline.delivery.driver.frame_sources import KafkaSource
from barnabas.pipeline.delivery.driver.group_positions import GroupPositions
from barnabas.pipeline.delivery.driver.kafka_queries import figures_of, started
from barnabas.pipeline.delivery.driver.query_job import QueryJob
from barnabas.pipeline.delivery.driver.query_progress import FIGURES
from barnabas.pipeline.delivery.driver.spark_library import DataFrame, pyspark
from barnabas.pipeline.delivery.driver.worker_rows import map_in_workers
from barnabas.pipeline.delivery.plan import kafka_properties, start_positions
from barnabas.pipeline.delivery.plan.job_plan import (
    Guarantee,
    JobFailure,
    JobPlan,
    JobProgress,
    OnTrim,
)
from barnabas.pipeline.delivery.plan.start_positions import (
    PartitionState,
    Remedies,
    StartPositions,
)
from barnabas.pipeline.delivery.plan.task_failures import JobStartError, refused
from barnabas.pipeline.delivery.plan.task_plans import consumer_properties, task_plan
from barnabas.pipeline.delivery.rows.frame_rows import SOURCE_TOPIC, TARGET
from barnabas.pipeline.delivery.rows.task_figures import SCHEMA

_SINK_COLUMNS: Final = ("key", "value", "headers", "topic", "partition")


def start(
    plan: JobPlan,
    frame: DataFrame,
    work_directory: Path,
    remember: Callable[[Mapping[str, str]], None],
    *,
    has_all_records: bool,
    is_one_target: bool,
) -> QueryJob:
    """Start the query that writes the rows of `frame`. Raises JobStartError.

    The frame has the columns of `streams.output_frames`; `plan.topics` are those of its sources.
    `remember` takes the ids of the topics before the first record is read, for `plan.topic_ids` of
    the next run: a topic that is deleted takes the group's offsets with it. `has_all_records` says
    that each record of the sources has a row: only then a gap is a record that is gone.
    `is_one_target` says that all rows go to `plan.target_topic`, and their keys choose partitions.
    """
    sources = frame_sources.kafka_sources(frame)
    _check_sources(sources)
    try:
        consumer = kafka_properties.for_librdkafka(consumer_properties(plan))
        cluster = ClusterState(consumer)
        topics = cluster.source_topics(plan.topics, None)
        resets = {source.offset_reset for source in sources}
        states = cluster.partition_states(
            plan.group_id,
            topics,
            plan.topic_ids,
            offset_reset="earliest" if resets == {"earliest"} else "latest",
        )
        bytes_max = cluster.record_bytes_max(plan.target_topic) if plan.target_topic else None
        topic_ids = {topic.name: topic.topic_id for topic in topics}
        task = task_plan(plan, topic_ids=topic_ids, record_bytes_max=bytes_max)
        counts_trimmed = has_all_records and plan.on_trim is OnTrim.SKIP
        task = attrs.evolve(task, counts_trimmed=counts_trimmed)
        positions = _positions(sources, states, plan)
        remember(topic_ids)
    except (ConfigError, KafkaException, TimeoutError) as error:
        raise refused(str(error), is_permanent=isinstance(error, ConfigError)) from error
    scratch = work_directory / "checkpoints" / f"{plan.name}-{uuid.uuid4().hex}"
    frame_sources.write_checkpoint(scratch, sources, positions.offsets)
    is_at_least_once = plan.guarantee is Guarantee.AT_LEAST_ONCE
    try:
        if is_at_least_once:
            writer = _at_least_once(frame, plan)
        else:
            rows = frame.drop(*_constant(sources, is_one_target=is_one_target))
            write: Any = functools.partial(worker_tasks.forward_frame, task)
            writer = figures_of(map_in_workers(rows, write, SCHEMA)).writeStream.format("noop")
        query = started(writer, plan, scratch)
    except Exception as error:
        shutil.rmtree(scratch, ignore_errors=True)
        raise refused(str(error), is_permanent=False) from error
    group = GroupPositions(plan.group_id, consumer, topic_ids) if is_at_least_once else None
    return QueryJob(
        plan,
        query,
        progress=JobProgress(trimmed=positions.trimmed, topic_ids=topic_ids),
        watch=functools.partial(changed_topic, cluster, topic_ids, _remedies(plan).positions),
        on_batch=group.commit if group is not None else None,
        scratch=scratch,
    )


def _constant(sources: Sequence[KafkaSource], *, is_one_target: bool) -> list[str]:
    """Return the columns that have one value in all rows, which the tasks know."""
    topics = [topic for source in sources for topic in source.topics]
    return [*(TARGET if is_one_target else ()), *([SOURCE_TOPIC] if len(topics) == 1 else ())]


def _check_sources(sources: Sequence[KafkaSource]) -> None:
    """Raise JobStartError when one partition would be read by two tasks."""
    counts = Counter(topic for source in sources for topic in source.topics)
    twice = [topic for topic, count in counts.items() if count > 1]
    if twice:
        raise refused(
            f"topic {twice[0]} has two sources in one query: write two queries, or read it once"
        )


def _positions(
    sources: Sequence[KafkaSource], states: Sequence[PartitionState], plan: JobPlan
) -> StartPositions:
    """Return the first offset of each partition. Raises JobStartError."""
    offsets: dict[str, Mapping[int, int]] = {}
    trimmed = 0
    for source in sources:
        own = [state for state in states if state.topic in source.topics]
        found = start_positions.decide(
            own, source.offset_reset, plan.on_trim, _remedies(plan), source.first_offsets
        )
        if isinstance(found, JobFailure):
            raise JobStartError(found)
        offsets |= start_positions.resolved(found.offsets, own)
        trimmed += found.trimmed
    return StartPositions(offsets, trimmed)


def _remedies(plan: JobPlan) -> Remedies:
    return Remedies(
        f"`barnabas group reset-offsets {plan.group_id} --topic {{topic}} --to earliest` lets it "
        "read the topic from its start",
        "set App(on_trim='skip')",
    )


def _at_least_once(frame: DataFrame, plan: JobPlan) -> Any:
    """Return the writer of Spark's own sink, which repeats records after a failure."""
    functions = pyspark("sql.functions")
    count = functions.count(functions.lit(1))
    kept = functions.count_if("_kept")
    oldest = functions.min("timestamp_ms")
    seen = frame.observe(
        FIGURES, count.alias("records"), kept.alias("written"), oldest.alias("oldest_ms")
    )
    client = {**plan.client_properties, **plan.producer_overrides}
    options = kafka_properties.for_spark({**client, "bootstrap.servers": plan.bootstrap})
    rows = seen.filter("_kept").select(*_SINK_COLUMNS)
    return rows.writeStream.format("kafka").options(**options, includeHeaders="true")

"""Commits the offsets of idle partitions again, before they expire.

Kafka removes an offset that nothing has committed for `offsets.retention.minutes` (7 days), unless
a consumer of the group subscribes to the topic. Jobs have no such consumers, so the offset of a
partition without new records would expire, and the job would read the partition from its start.
Offsets are committed by the producer that a task would use: a task that runs at the same time is
fenced and repeated, and never set back.
"""

import time
from collections.abc import Iterator, Sequence
from typing import Final

import attrs
from confluent_kafka import TopicPartition

from barnabas.pipeline.delivery.driver.cluster_state import ClusterState
from barnabas.pipeline.delivery.forward.forward_job import is_single_task
from barnabas.pipeline.delivery.plan import kafka_properties, offset_metadata
from barnabas.pipeline.delivery.plan.job_plan import FORWARD_KINDS, JobKind, JobPlan
from barnabas.pipeline.delivery.plan.task_plans import consumer_properties, task_plan
from barnabas.pipeline.delivery.plan.worker_plan import TaskPlan, transactional_id
from barnabas.pipeline.delivery.writing.transactional_producer import (
    PRODUCERS,
    TransactionSettings,
    committed,
    offset_reader,
    transaction,
)

FIRST_S: Final = 60.0
EVERY_S: Final = 3_600.0
"""Seconds until the first look at the offsets of all jobs, and from one look to the next."""
_OLD_MS: Final = 24 * 3_600_000
_KINDS: Final = (*FORWARD_KINDS, JobKind.STREAM, JobKind.QUERY)

Place = tuple[str, int]


def refresh(plan: JobPlan, *, older_than_ms: int = _OLD_MS) -> int:
    """Commit the offsets of a job that are older than a day; return their number.

    A query of SQL may have parts with state, whose positions are in checkpoints: they have no
    offsets of the topics that they read. Do not call it for another plan with state.
    Raises ConfigError, KafkaException, or what a transaction raises.
    """
    if plan.kind not in _KINDS:
        return 0
    cluster = ClusterState(kafka_properties.for_librdkafka(consumer_properties(plan)))
    limit_ms = int(time.time() * 1000) - older_than_ms
    return sum(_refresh(part, cluster, limit_ms) for part in _parts(plan, cluster))


def _parts(plan: JobPlan, cluster: ClusterState) -> Iterator[JobPlan]:
    """Yield the plan, and those of the queries that write the topics between parts of a query."""
    yield plan
    if plan.kind is JobKind.QUERY:
        between = cluster.topics_between(plan.name)
        topics = (*plan.topics, *between)
        for name in between:
            yield attrs.evolve(plan, name=name, group_id=name, transactional_id=name, topics=topics)


def _refresh(plan: JobPlan, cluster: ClusterState, limit_ms: int) -> int:
    topics = cluster.source_topics(plan.topics, plan.topics_pattern)
    places = [(topic.name, number) for topic in topics for number in range(topic.partitions)]
    task = task_plan(plan, topic_ids={}, is_single_task=is_single_task(plan))
    reader = offset_reader(task.group_id, task.consumer)
    old = [entry for entry in committed(reader, places) if _is_old(entry, limit_ms)]
    groups = [old] if task.is_single_task else [[entry] for entry in old]
    for group in groups:
        if group:
            _commit_again(task, [(entry.topic, entry.partition) for entry in group])
    return len(old)


def _is_old(entry: TopicPartition, limit_ms: int) -> bool:
    if entry.offset < 0:
        return False
    return offset_metadata.decode(entry.metadata).committed_ms < limit_ms


def _commit_again(task: TaskPlan, places: Sequence[Place]) -> None:
    settings = TransactionSettings(task.group_id, task.generation, task.producer, task.consumer)
    name = transactional_id(task, *places[0])
    now_ms = int(time.time() * 1000)
    with transaction(settings, name, places) as begun:
        begun.send_offsets(
            [
                TopicPartition(*where, at.offset, metadata=_renewed(at.metadata, now_ms))
                for where, at in begun.positions.items()
            ]
        )
    PRODUCERS.discard(name, task.generation)


def _renewed(metadata: str | None, now_ms: int) -> str:
    return attrs.evolve(offset_metadata.decode(metadata), committed_ms=now_ms).encode()

"""Committed offsets of idle partitions are committed again, by the producers of the tasks."""

import json
import time
import uuid

import attrs
import pytest
from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from barnabas.pipeline.delivery.forward.offset_refresh import refresh
from barnabas.pipeline.delivery.plan import offset_metadata
from barnabas.pipeline.delivery.plan.job_plan import JobKind, JobPlan
from barnabas.pipeline.delivery.plan.offset_metadata import OffsetMetadata
from barnabas.pipeline.delivery.writing.transactional_producer import committed, offset_reader
from barnabas.testing import Node

DAY_MS = 24 * 3_600_000


@pytest.fixture
def plan(node: Node) -> JobPlan:
    name = f"job-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    admin.create_topics([NewTopic(name, 4, 1)])[name].result(30)
    return JobPlan(name, 1, JobKind.COPY, node.bootstrap, name, name, topics=(name,))


def commit(plan: JobPlan, partition: int, offset: int, age_ms: int, topic_id: str) -> None:
    committed_ms = int(time.time() * 1000) - age_ms
    metadata = OffsetMetadata(topic_id, "note", committed_ms).encode()
    reader = offset_reader(plan.group_id, {"bootstrap.servers": plan.bootstrap})
    place = TopicPartition(plan.topics[0], partition, offset, metadata=metadata)
    reader.commit(offsets=[place], asynchronous=False)


def positions(plan: JobPlan) -> dict[int, TopicPartition]:
    reader = offset_reader(plan.group_id, {"bootstrap.servers": plan.bootstrap})
    found = committed(reader, [(plan.topics[0], number) for number in range(4)])
    return {each.partition: each for each in found}


@pytest.mark.parametrize("kind", [JobKind.COPY, JobKind.STREAM, JobKind.QUERY])
def test_old_offsets_are_committed_again_and_others_are_not(plan: JobPlan, kind: JobKind) -> None:
    plan = attrs.evolve(plan, kind=kind)
    commit(plan, 0, 17, 2 * DAY_MS, "id")
    commit(plan, 1, 18, DAY_MS // 2, "id")
    before = positions(plan)
    assert refresh(plan) == 1
    after = positions(plan)
    assert [after[number].offset for number in range(4)] == [17, 18, -1001, -1001]
    renewed = offset_metadata.decode(after[0].metadata)
    assert (renewed.topic_id, renewed.note) == ("id", "note")
    assert abs(renewed.committed_ms - time.time() * 1000) < DAY_MS // 2
    assert after[1].metadata == before[1].metadata
    assert refresh(plan) == 0


def test_offsets_of_the_parts_of_a_query_are_committed_again(plan: JobPlan) -> None:
    """A job that is paused has no part that runs; another job may have a name that begins alike."""
    part, other = f"{plan.name}-grouped-repartition", f"{plan.name}x-grouped-repartition"
    admin = AdminClient({"bootstrap.servers": plan.bootstrap})
    for future in admin.create_topics([NewTopic(name, 1, 1) for name in (part, other)]).values():
        future.result(30)
    plans = [attrs.evolve(plan, group_id=each) for each in (part, other)]
    for each in plans:
        commit(each, 3, 23, 2 * DAY_MS, "id")
    assert refresh(attrs.evolve(plan, kind=JobKind.QUERY)) == 1
    times = [offset_metadata.decode(positions(each)[3].metadata).committed_ms for each in plans]
    assert times[0] - times[1] > DAY_MS
    assert refresh(attrs.evolve(plan, kind=JobKind.STREAM)) == 0


def test_task_that_runs_at_the_same_time_is_fenced(plan: JobPlan) -> None:
    """Its transaction ends with an error, so the refreshed offset is not behind its records."""
    commit(plan, 2, 5, 2 * DAY_MS, "id")
    task = Producer(
        {"bootstrap.servers": plan.bootstrap, "transactional.id": f"{plan.name}:{plan.name}-2"}
    )
    task.init_transactions(30)
    task.begin_transaction()
    task.produce(plan.topics[0], b"record", partition=3)
    task.flush(30)
    assert refresh(plan) == 1
    with pytest.raises(KafkaException, match=r"(?i)fenced"):
        task.commit_transaction(30)


def test_sources_have_no_offsets_to_refresh(plan: JobPlan) -> None:
    assert refresh(attrs.evolve(plan, kind=JobKind.SOURCE)) == 0


def test_metadata_of_other_programs_has_no_time() -> None:
    for text in ("", "x", "[]", json.dumps({"ms": "soon"}), None):
        assert offset_metadata.decode(text).committed_ms == 0

"""The partitions that a forward job reads, against a node."""

import time
import uuid

import pytest
from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from barnabas.pipeline.delivery.driver import cluster_state
from barnabas.pipeline.delivery.driver.cluster_state import ClusterState
from barnabas.pipeline.delivery.forward.source_partitions import SourcePartitions
from barnabas.pipeline.delivery.plan.job_plan import JobKind, JobPlan
from barnabas.pipeline.delivery.plan.task_failures import JobStartError
from barnabas.pipeline.delivery.writing.transactional_producer import offset_reader
from barnabas.testing import Node


@pytest.fixture
def name() -> str:
    return f"t-{uuid.uuid4().hex[:8]}"


def create(admin: AdminClient, name: str, partitions: int = 1) -> None:
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(60)


def opened(
    node: Node, name: str, pattern: str | None = None, reset: str = "earliest"
) -> SourcePartitions:
    plan = JobPlan(
        f"job-{name}",
        1,
        JobKind.COPY,
        node.bootstrap,
        group_id=f"job-{name}",
        transactional_id=name,
        topics=() if pattern else (name,),
        topics_pattern=pattern,
        offset_reset=reset,
    )
    return SourcePartitions(ClusterState({"bootstrap.servers": node.bootstrap}), plan)


def test_latest_is_the_last_stable_offset(node: Node, admin: AdminClient, name: str) -> None:
    """The records of a transaction that commits after the start of the job belong to the job."""
    create(admin, name)
    producer = Producer({"bootstrap.servers": node.bootstrap, "transactional.id": name})
    producer.init_transactions(60)
    for _ in range(2):
        producer.begin_transaction()
        producer.produce(name, b"v")
        producer.flush(60)
        found = opened(node, name, reset="latest")
        assert found.positions == {(name, 0): found.ends()[name, 0]}
        producer.commit_transaction(60)
    assert found.positions == {(name, 0): 2}
    assert found.ends() == {(name, 0): 4}


def test_pattern_selects_no_internal_topics(node: Node, admin: AdminClient, name: str) -> None:
    """A job that reads `__consumer_offsets` would read what it commits."""
    create(admin, name)
    offset_reader(f"job-{name}", {"bootstrap.servers": node.bootstrap}).committed([], 60)
    producer = Producer({"bootstrap.servers": node.bootstrap, "transactional.id": name})
    producer.init_transactions(60)
    names = {topic for topic, _ in opened(node, name, ".*").positions}
    assert name in names
    assert not [each for each in names if each.startswith("__")]


def test_new_partitions_and_topics_are_read_from_their_start(
    node: Node, admin: AdminClient, name: str
) -> None:
    create(admin, name)
    found = opened(node, name, f"{name}.*", "latest")
    assert not found.refresh()
    admin.create_partitions([NewPartitions(name, 2)])[name].result(60)
    create(admin, f"{name}-more")
    producer = Producer({"bootstrap.servers": node.bootstrap})
    producer.produce(f"{name}-more", b"v")
    producer.flush(60)
    assert found.refresh()
    assert found.positions == {(name, 0): 0, (name, 1): 0, (f"{name}-more", 0): 0}
    assert {*found.topic_ids} == {name, f"{name}-more"}


def test_topic_that_was_recreated_ends_the_job(node: Node, admin: AdminClient, name: str) -> None:
    create(admin, name)
    found = opened(node, name)
    admin.delete_topics([name])[name].result(60)
    create(admin, name)
    with pytest.raises(JobStartError, match="was recreated") as caught:
        found.refresh()
    assert caught.value.failure.is_permanent


def test_cluster_that_does_not_answer_is_an_error_of_kafka(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cluster_state, "_TIMEOUT_S", 0.01)
    with pytest.raises(KafkaException, match="_TIMED_OUT"):
        ClusterState({"bootstrap.servers": "127.0.0.1:1"}).ends([("t", 0)])


@pytest.mark.parametrize("reset", ["earliest", "latest"])
def test_position_is_known_while_the_transaction_of_a_killed_worker_is_open(
    node: Node, admin: AdminClient, name: str, reset: str
) -> None:
    """The broker ends the transaction after a minute; the first task of the job ends it at once."""
    create(admin, name)
    settings = {"bootstrap.servers": node.bootstrap, "transactional.id": name}
    killed, reader = Producer(settings), offset_reader(f"job-{name}", {**settings, "group.id": "g"})
    killed.init_transactions(60)
    for offset in (3, 5):
        killed.begin_transaction()
        for _ in range(4):
            killed.produce(name, b"v")
        place = TopicPartition(name, 0, offset)
        killed.send_offsets_to_transaction([place], reader.consumer_group_metadata(), 60)
        if offset == 3:
            killed.commit_transaction(60)
    began = time.monotonic()
    assert opened(node, name, reset=reset).positions == {(name, 0): 3}
    assert time.monotonic() - began < 40
    killed.abort_transaction(60)

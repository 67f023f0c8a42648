"""Topics between two queries of an app, on a node: creation, deletion of records, what is whole."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.pipeline.delivery.driver.cluster_state import ClusterState
from barnabas.pipeline.delivery.driver.group_positions import GroupPositions
from barnabas.pipeline.delivery.plan.job_plan import PartitionLag
from barnabas.pipeline.delivery.plan.task_failures import JobStartError
from barnabas.pipeline.streams import repartition_topics
from barnabas.pipeline.streams.repartition_topics import RepartitionTrimmer
from barnabas.testing import Node

RECORDS = 10


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node() as found:
        yield found


@pytest.fixture(scope="module")
def cluster(node: Node) -> ClusterState:
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    sources = {"narrow": 1, "wide": 2}
    created = admin.create_topics([NewTopic(name, count, 1) for name, count in sources.items()])
    for each in created.values():
        each.result(30)
    return ClusterState({"bootstrap.servers": node.bootstrap})


def filled(node: Node, cluster: ClusterState, topic: str) -> str:
    """Return a topic with records in both partitions."""
    repartition_topics.create(cluster, topic, ["narrow", "wide"])
    producer = Producer({"bootstrap.servers": node.bootstrap})
    for number in range(2 * RECORDS):
        producer.produce(topic, b"{}", partition=number % 2)
    assert producer.flush(30) == 0
    return topic


def commit(node: Node, group: str, topic: str, *offsets: int) -> None:
    settings = {"bootstrap.servers": node.bootstrap, "group.id": group}
    consumer = Consumer({**settings, "enable.auto.commit": False})
    places = [TopicPartition(topic, number, at) for number, at in enumerate(offsets)]
    consumer.commit(offsets=places, asynchronous=False)
    consumer.close()


def starts(cluster: ClusterState, topic: str) -> list[int]:
    return list(cluster.log_starts([(topic, 0), (topic, 1)]).values())


def trimmer(node: Node, topic: str, *groups: str) -> RepartitionTrimmer:
    return RepartitionTrimmer({"bootstrap.servers": node.bootstrap}, {topic: groups})


def test_records_are_deleted_one_interval_after_all_queries_have_read_them(
    node: Node, cluster: ClusterState
) -> None:
    topic = filled(node, cluster, "app-both-repartition")
    found = trimmer(node, topic, "first", "second")
    commit(node, "first", topic, 7, 5)
    found.trim()
    found.trim()
    assert starts(cluster, topic) == [0, 0]
    commit(node, "second", topic, 4)
    found.trim()
    assert starts(cluster, topic) == [0, 0]
    commit(node, "second", topic, 6, 3)
    found.trim()
    assert starts(cluster, topic) == [4, 0]
    found.trim()
    assert starts(cluster, topic) == [6, 3]


def test_topic_has_the_most_partitions_of_its_sources(node: Node, cluster: ClusterState) -> None:
    topic = filled(node, cluster, "app-wide-repartition")
    found = cluster.topics([topic])[topic]
    assert found is not None
    assert found.partitions == 2
    with pytest.raises(JobStartError, match="topic absent does not exist"):
        repartition_topics.create(cluster, "app-absent-repartition", ["absent"])


def test_query_without_positions_needs_a_topic_with_all_records(
    node: Node, cluster: ClusterState
) -> None:
    topic = filled(node, cluster, "app-whole-repartition")
    repartition_topics.check_whole(cluster, topic, "late")
    cluster.delete_records({(topic, 1): 2})
    with pytest.raises(JobStartError, match=f"{topic} has lost records that query late has not"):
        repartition_topics.check_whole(cluster, topic, "late")


def test_position_in_a_topic_that_two_sources_read_is_the_least(
    node: Node, cluster: ClusterState
) -> None:
    topic = filled(node, cluster, "app-twice-repartition")
    positions = GroupPositions("twice", {"bootstrap.servers": node.bootstrap})
    positions.commit([PartitionLag(topic, 0, at, RECORDS) for at in (6, 3, 5)])
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "twice"})
    (found,) = consumer.committed([TopicPartition(topic, 0)], 30)
    consumer.close()
    assert found.offset == 3

"""The offsets at which a query starts that reads only what comes after its statement."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from barnabas.pipeline.delivery.driver.cluster_state import ClusterState
from barnabas.pipeline.delivery.plan.start_positions import EARLIEST, offsets_of
from barnabas.pipeline.sql.planning.first_offsets import encoded, topic_ends, usable
from barnabas.pipeline.streams.topic_reading import starting_offsets
from barnabas.testing import Node
from tests.pipeline.sql.test_query_analysis import plan


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with Node() as node:
        yield node.bootstrap


def fill(bootstrap: str, topic: str, *counts: int) -> ClusterState:
    """Create a topic with as many records in each partition as said."""
    client = {"bootstrap.servers": bootstrap}
    admin = AdminClient(client)
    admin.create_topics([NewTopic(topic, len(counts))])[topic].result(30)
    producer = Producer(client)
    for partition, count in enumerate(counts):
        for _ in range(count):
            producer.produce(topic, b"v", partition=partition)
    assert producer.flush(30) == 0
    return ClusterState(client)


def test_ends_are_those_of_the_streams_of_a_plan(bootstrap: str) -> None:
    fill(bootstrap, "t", 5)
    cluster = fill(bootstrap, "s", 3, 0)
    joined = plan("SELECT s.id, name, team FROM s JOIN t ON s.id = t.id")
    assert topic_ends(cluster, joined) == {"s": {0: 3, 1: 0}}


def test_offset_that_a_partition_does_not_have_is_its_earliest(bootstrap: str) -> None:
    cluster = fill(bootstrap, "changed", 3, 3, 3, 3)
    cluster.delete_records({("changed", 1): 2, ("changed", 2): 2})
    added = NewPartitions("changed", 5)
    client = AdminClient({"bootstrap.servers": bootstrap})
    client.create_partitions([added])["changed"].result(30)
    noted = {"changed": {0: 3, 1: 1, 2: 2, 3: 4}, "gone": {0: 1}}
    expected = {0: 3, 1: EARLIEST, 2: 2, 3: EARLIEST, 4: EARLIEST}
    assert usable(cluster, noted) == {"changed": expected, "gone": {}}


def test_offsets_are_a_property_of_a_job() -> None:
    offsets = {"a": {0: 3, 10: 0}, "b": {}}
    assert offsets_of(encoded(offsets)) == offsets


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "1", '{"a": 1}', '{"a": {"x": 1}}', '{"a":{"0":[]}}']
)
def test_other_text_is_not_taken_for_offsets(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the messages are Python's
        offsets_of(text)


def test_start_of_a_topic_is_what_spark_takes() -> None:
    assert starting_offsets("t", "latest") == "latest"
    assert starting_offsets("t", {0: 5, 1: EARLIEST}) == '{"t": {"0": 5, "1": -2}}'
    with pytest.raises(ValueError, match="an offset for each partition, not 'soon'"):
        starting_offsets("t", "soon")

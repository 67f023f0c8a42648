"""Eligible leader replicas (KIP-966) after the same kills, here and on three Apache Kafka nodes.

The expected states were read from Apache Kafka 4.3.0 by this test: `ELR_ON=kafka` runs it there
(a minute: Kafka fences a killed broker after nine seconds).
"""

import os
import time
from collections.abc import Iterator

import attrs
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from barnabas.testing.eventually import wait_until
from compat_tests import wire
from compat_tests.cluster.clusters import CLUSTERS, TrialCluster

pytestmark = pytest.mark.timeout(240)


@attrs.frozen
class State:
    """The state of the partition; the sets have no order."""

    leader: int
    isr: frozenset[int]
    elr: frozenset[int]
    last_known: frozenset[int]


def state(leader: int, isr: set[int], elr: set[int], last_known: set[int] | None = None) -> State:
    return State(leader, frozenset(isr), frozenset(elr), frozenset(last_known or ()))


@pytest.fixture
def cluster() -> Iterator[TrialCluster]:
    made = CLUSTERS[os.environ.get("ELR_ON", "barnabas")]()
    try:
        made.start()
        yield made
    finally:
        made.close()


def observed(cluster: TrialCluster) -> State:
    """Return the partition's state as node 1 describes it."""
    topic = DescribeTopicPartitionsRequest.TopicRequest(name="t")
    request = DescribeTopicPartitionsRequest(topics=[topic])
    (partition,) = wire.call(cluster.addresses[1], request, 0).topics[0].partitions
    return State(
        partition.leader_id,
        frozenset(partition.isr_nodes),
        frozenset(partition.eligible_leader_replicas or ()),
        frozenset(partition.last_known_elr or ()),
    )


def reaches(cluster: TrialCluster, wanted: State) -> None:
    try:
        wait_until(lambda: observed(cluster) == wanted, 60)
    except TimeoutError:
        raise AssertionError(f"{observed(cluster)}, not {wanted}") from None


def test_replicas_become_eligible_and_lose_that_as_in_apache_kafka(cluster: TrialCluster) -> None:
    """The quorum keeps two voters: 1, and 2 or 3 in turn."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    topic = NewTopic("t", 1, replica_assignment=[[2, 3]], config={"min.insync.replicas": "2"})
    admin.create_topics([topic])["t"].result(60)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    producer.produce("t", b"x")
    assert producer.flush(60) == 0
    reaches(cluster, state(2, {2, 3}, set()))

    cluster.nodes[3].kill()  # below min.insync.replicas: it stays eligible
    reaches(cluster, state(2, {2}, {3}))
    cluster.nodes[3].start()  # a kill is unclean: out of the ELR, then in sync again
    reaches(cluster, state(2, {2, 3}, set()))

    assert cluster.nodes[3].stop() in (0, 143)  # clean: eligible, and it stays so
    reaches(cluster, state(2, {2}, {3}))
    cluster.nodes[3].start()
    reaches(cluster, state(2, {2, 3}, set()))

    assert cluster.nodes[3].stop() in (0, 143)
    reaches(cluster, state(2, {2}, {3}))
    cluster.nodes[3].start()
    reaches(cluster, state(2, {2, 3}, set()))
    cluster.nodes[2].kill()  # the follower leads, the former leader is eligible
    reaches(cluster, state(3, {3}, {2}))
    time.sleep(1)
    cluster.nodes[2].start()
    reaches(cluster, state(3, {2, 3}, set()))

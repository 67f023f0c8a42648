"""A broker that is cut off by a firewall, which then has forgotten its connections.

After the cut, both ends keep the connections open, and no byte passes. Only new ones work.
"""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Producer

from barnabas.testing.known_brokers import known_brokers
from compat_tests.cluster import observation
from compat_tests.cluster.clusters import ProxiedCluster
from compat_tests.cluster.steps.trial import active_controller, create_topic, wait_in_sync

pytestmark = [pytest.mark.barnabas_only, pytest.mark.timeout(300)]

CONFIG = {
    "broker.session.timeout.ms": "5000",
    "broker.heartbeat.interval.ms": "1000",
    "transaction.state.log.num.partitions": "3",
}
COORDINATORS = 6
"""Transactional ids: each node most likely coordinates one of them."""
FEW_SECONDS = 10.0
"""Measured: 0.3 to 5 s. Without new connections, nothing moves for 30 s, metadata for minutes."""


@pytest.fixture
def cluster() -> Iterator[ProxiedCluster]:
    with ProxiedCluster(CONFIG) as started:
        yield started


def test_broker_is_back_soon_when_its_connections_are_forgotten(cluster: ProxiedCluster) -> None:
    controller = active_controller(cluster)
    victim = next(each for each in cluster.nodes if each != controller)
    witness, cut_off = cluster.addresses[controller], cluster.addresses[victim]
    topic, everywhere = create_topic(cluster, 1, leader=victim), create_topic(cluster, 3)
    producers = [
        transactional_producer(cluster.bootstrap, number) for number in range(COORDINATORS)
    ]
    for producer in producers:
        transact(producer, topic, everywhere)
    cluster.proxy.cut({victim}, set(cluster.nodes) - {victim})
    observation.seconds_until(lambda: observation.leader(witness, topic) != victim, 60)

    cluster.proxy.heal_without_resets()
    with ThreadPoolExecutor(COORDINATORS) as pool:
        ends = [pool.submit(transact, each, topic, everywhere) for each in producers]
        unfenced_s = observation.seconds_until(lambda: victim in known_brokers(witness), 60)
        informed_s = observation.seconds_until(
            lambda: observation.leader(cut_off, topic) == observation.leader(witness, topic), 60
        )
        transactions_s = max(each.result() for each in ends)
    wait_in_sync(cluster, topic)
    wait_in_sync(cluster, everywhere)
    found = unfenced_s, unfenced_s + informed_s, transactions_s
    assert max(found) < FEW_SECONDS, found


def transactional_producer(bootstrap: str, number: int) -> Producer:
    producer = Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": f"silent-{number}", "log_level": 0}
    )
    producer.init_transactions(60)
    return producer


def transact(producer: Producer, topic: str, everywhere: str) -> float:
    """Write to leaders on all nodes in one transaction; return its duration."""
    began = time.monotonic()
    producer.begin_transaction()
    producer.produce(topic, b"value", partition=0)
    for partition in range(3):
        producer.produce(everywhere, b"value", partition=partition)
    producer.commit_transaction(60)
    return time.monotonic() - began

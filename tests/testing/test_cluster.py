"""Clusters for tests: in one process, and of several processes."""

import time
from contextlib import closing
from http.client import HTTPConnection

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.testing import Cluster
from barnabas.testing.eventually import wait_until
from barnabas.testing.free_ports import free_ports
from barnabas.testing.process import ClusterProcess

SETTINGS = {"min.insync.replicas": "2"}


def create(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 1, 3, config=SETTINGS)])[topic].result(60)


def produce(bootstrap: str, topic: str, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 0})
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(30) == 0


def read(bootstrap: str, topic: str, count: int) -> list[bytes | None]:
    settings = {"bootstrap.servers": bootstrap, "group.id": "reader", "log_level": 0}
    consumer = Consumer(settings)
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[bytes | None] = []
        deadline = time.monotonic() + 90
        while len(found) < count and time.monotonic() < deadline:
            found += [each.value() for each in consumer.consume(count, 1) if not each.error()]
        return found
    finally:
        consumer.close()


def test_cluster_in_one_process_survives_the_loss_of_a_leader() -> None:
    with Cluster(nodes=3) as cluster:
        create(cluster.bootstrap, "t")
        produce(cluster.bootstrap, "t", [b"1", b"2"])
        leader = cluster.leader_of("t", 0)
        cluster.kill(leader)
        assert sorted(cluster.running) == sorted({1, 2, 3} - {leader})
        wait_until(lambda: cluster.leader_of("t", 0) not in (leader, -1))
        produce(cluster.bootstrap, "t", [b"3"])
        cluster.restart(leader)
        cluster.wait_in_sync("t", 0)
        assert read(cluster.bootstrap, "t", 3) == [b"1", b"2", b"3"]


def test_cluster_that_replicates_topics_gives_a_topic_without_settings_three_replicas() -> None:
    with Cluster(nodes=3, replicates_topics=True) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic("t", 1)])["t"].result(60)
        wait_until(lambda: len(cluster.partition("t", 0).replicas) == 3)
        cluster.kill(cluster.leader_of("t", 0))
        produce(cluster.bootstrap, "t", [b"1"])


def test_cluster_process_keeps_ports_and_data_over_a_kill_of_all() -> None:
    with ClusterProcess(nodes=3) as cluster:
        create(cluster.bootstrap, "t")
        produce(cluster.bootstrap, "t", [b"1", b"2"])
        cluster.nodes[1].suspend()
        cluster.nodes[1].resume()
        cluster.kill_all()
        assert not any(node.is_running for node in cluster.nodes.values())
        cluster.start()
        assert read(cluster.bootstrap, "t", 2) == [b"1", b"2"]


def status(port: int, path: str) -> int:
    connection = HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()


def test_node_without_a_majority_is_live_and_not_ready_and_stops() -> None:
    (port,) = free_ports(1)
    metrics = {1: {"barnabas.metrics.port": str(port)}}
    with closing(ClusterProcess(nodes=3, node_config=metrics)) as cluster:
        node = cluster.nodes[1]
        node.launch()
        wait_until(lambda: any("serving metrics" in line for line in node.log))
        assert (status(port, "/livez"), status(port, "/readyz")) == (200, 503)
        assert status(port, "/metrics") == 503
        assert node.stop() == 0
        cluster.nodes[2].launch()
        node.start()
        wait_until(lambda: status(port, "/readyz") == 200)
        assert status(port, "/metrics") == 200

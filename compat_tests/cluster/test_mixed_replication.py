"""Brokers of barnabas and of Apache Kafka in one cluster: their replicas are equal as files."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.testing.free_ports import free_ports
from barnabas.testing.known_brokers import known_brokers
from barnabas.testing.process import ClusterProcess, NodeProcess
from compat_tests import jars
from compat_tests.cluster.clusters import KafkaCluster, KafkaNode

pytestmark = [pytest.mark.barnabas_only, pytest.mark.timeout(300)]

TOPIC = "mixed"
FIRST, SECOND = 1, 2  # the node with the controller, and the broker that joins it
# A killed broker's session ends soon, so that the test does not wait for it.
CONFIG = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}
EPOCHS = "leader-epoch-checkpoint"


def broker_properties(cluster: ClusterProcess, data: Path, port: int) -> dict[str, str]:
    """Return the properties of a broker of Apache Kafka whose controller is barnabas."""
    listener = f"PLAINTEXT://127.0.0.1:{port}"
    return {
        **CONFIG,
        "process.roles": "broker",
        "node.id": str(SECOND),
        "controller.quorum.bootstrap.servers": (
            f"127.0.0.1:{cluster.layout.plan.nodes[0].controller_port}"
        ),
        "controller.listener.names": "CONTROLLER",
        "listeners": listener,
        "advertised.listeners": listener,
        "log.dirs": str(data),
    }


def property_of(file: Path, name: str) -> str:
    lines = file.read_text().splitlines()
    return next(line.partition("=")[2] for line in lines if line.startswith(f"{name}="))


def new_broker(kafka: KafkaCluster, data: Path) -> NodeProcess:
    """Return a broker of barnabas that joins the cluster, with a formatted directory."""
    node = kafka.nodes[FIRST]
    assert isinstance(node, KafkaNode)
    (port,) = free_ports(1)
    properties = {
        **CONFIG,
        "process.roles": "broker",
        "node.id": str(SECOND),
        "controller.quorum.bootstrap.servers": property_of(
            node.file, "controller.quorum.bootstrap.servers"
        ),
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "log.dirs": str(data),
    }
    file = data.with_suffix(".properties")
    file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    cluster_id = property_of(kafka.directory(FIRST) / "meta.properties", "cluster.id")
    command = ["format", "--cluster-id", cluster_id, "--config", str(file)]
    subprocess.run(
        [sys.executable, "-m", "barnabas", *command, "--no-initial-controllers"], check=True
    )
    return NodeProcess(data, properties)


@attrs.frozen
class Mixed:
    """Two brokers; `bootstrap` has both addresses, `quorum` that of the one with the controller."""

    quorum: str
    bootstrap: str
    directories: tuple[Path, Path]

    def states(self) -> list[tuple[int, list[int]]]:
        """Return leader and ISR of each partition, as the controller's node has them."""
        admin = AdminClient({"bootstrap.servers": self.quorum})
        try:
            found = admin.list_topics(TOPIC, timeout=5).topics[TOPIC].partitions
        except KafkaException:
            return []
        return [(each.leader, sorted(each.isrs)) for each in found.values()]

    def create(self) -> None:
        """Create a topic of which each broker leads one partition.

        A broker may not list itself yet, and a client drops a broker that another one does not
        list, with the requests to it.
        """
        for address in self.bootstrap.split(","):
            wait_for(lambda at=address: known_brokers(at) == {FIRST, SECOND})
        admin = AdminClient({"bootstrap.servers": self.quorum})
        new = NewTopic(TOPIC, 2, replica_assignment=[[FIRST, SECOND], [SECOND, FIRST]])
        admin.create_topics([new])[TOPIC].result(60)
        wait_for(lambda: [leader for leader, _ in self.states()] == [FIRST, SECOND])

    def equal_records(self) -> bytes:
        """Return the records of both partitions, which are equal on both brokers."""
        records = b""
        for partition in range(2):
            wait_for(
                lambda number=partition: len({len(one) for one, _ in self._files(number)}) == 1
            )
            first, second = self._files(partition)
            assert first == second
            records += first[0]
        return records

    def _files(self, partition: int) -> list[tuple[bytes, list[str]]]:
        """Return the records and the leader epochs of each replica."""
        directories = [root / f"{TOPIC}-{partition}" for root in self.directories]
        return [
            (
                b"".join(file.read_bytes() for file in sorted(directory.glob("*.log"))),
                (directory / EPOCHS).read_text().split(),
            )
            for directory in directories
        ]


def wait_for(condition: Callable[[], bool], timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "the condition does not hold in time"
        time.sleep(0.1)


def produce(mixed: Mixed, prefix: str, count: int = 2000) -> list[bytes]:
    """Produce records to both partitions with acks=all; return the acknowledged ones."""
    acked: list[bytes] = []
    producer = Producer({"bootstrap.servers": mixed.bootstrap, "enable.idempotence": True})
    for number in range(count):
        value = f"{prefix}-{number:05}".encode()
        producer.produce(
            TOPIC,
            value,
            partition=number % 2,
            on_delivery=lambda error, message: error or acked.append(message.value()),
        )
    assert producer.flush(30) == 0
    return acked


def test_broker_of_barnabas_replicates_in_a_cluster_of_apache_kafka(tmp_path: Path) -> None:
    kafka = KafkaCluster(CONFIG, nodes=1)
    kafka_node = kafka.nodes[FIRST]
    assert isinstance(kafka_node, KafkaNode)
    kafka_node.compiler = jars.SHORT_LIVED
    try:
        kafka.start()
        with new_broker(kafka, tmp_path / "node-2") as barnabas:
            both = f"{kafka.bootstrap},{barnabas.bootstrap}"
            mixed = Mixed(kafka.bootstrap, both, (kafka.directory(FIRST), barnabas.data))
            mixed.create()
            acked = produce(mixed, "both")
            barnabas.kill()
            wait_for(lambda: mixed.states() == [(FIRST, [FIRST])] * 2)
            acked += produce(mixed, "kafka")
            barnabas.start()
            wait_for(lambda: [isr for _, isr in mixed.states()] == [[FIRST, SECOND]] * 2)
            acked += produce(mixed, "again")
            records = mixed.equal_records()
    finally:
        kafka.close()
    assert len(acked) == 6000
    assert [value for value in acked if records.count(value) != 1] == []


def test_broker_of_apache_kafka_replicates_in_a_cluster_of_barnabas(tmp_path: Path) -> None:
    with ClusterProcess(1) as cluster:
        node = cluster.nodes[FIRST]
        (port,) = free_ports(1)
        broker = KafkaNode(
            broker_properties(cluster, tmp_path / "kafka", port), tmp_path / "kafka", port
        )
        broker.compiler = jars.SHORT_LIVED
        cluster_id = property_of(node.data / "meta.properties", "cluster.id")
        identity = ("-t", cluster_id, "-c", str(broker.file), "--no-initial-controllers")
        jars.java("kafka.tools.StorageTool", "format", *identity)
        try:
            broker.start()
            both = f"{cluster.bootstrap},127.0.0.1:{port}"
            mixed = Mixed(cluster.bootstrap, both, (node.data, tmp_path / "kafka"))
            mixed.create()
            acked = produce(mixed, "both")
            records = mixed.equal_records()
        finally:
            broker.kill()
    assert len(acked) == 2000
    assert [value for value in acked if records.count(value) != 1] == []

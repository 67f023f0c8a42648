"""A broker of barnabas beside Apache Kafka, which leads the quorum: replicas are equal as files."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.testing.cluster_layout import free_ports
from barnabas.testing.process import NodeProcess
from compat_tests.cluster.clusters import KafkaCluster, KafkaNode

pytestmark = [pytest.mark.barnabas_only, pytest.mark.timeout(120)]

TOPIC = "mixed"
KAFKA, BARNABAS = 1, 2
# A killed broker's session ends soon, so that the test does not wait for it.
CONFIG = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}
EPOCHS = "leader-epoch-checkpoint"


def property_of(file: Path, name: str) -> str:
    lines = file.read_text().splitlines()
    return next(line.partition("=")[2] for line in lines if line.startswith(f"{name}="))


def new_broker(kafka: KafkaCluster, data: Path) -> NodeProcess:
    """Return a broker of barnabas that joins the cluster, with a formatted directory."""
    node = kafka.nodes[KAFKA]
    assert isinstance(node, KafkaNode)
    (port,) = free_ports(1)
    properties = {
        **CONFIG,
        "process.roles": "broker",
        "node.id": str(BARNABAS),
        "controller.quorum.bootstrap.servers": property_of(
            node.file, "controller.quorum.bootstrap.servers"
        ),
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "log.dirs": str(data),
    }
    file = data.with_suffix(".properties")
    file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    cluster_id = property_of(kafka.directory(KAFKA) / "meta.properties", "cluster.id")
    command = ["format", "--cluster-id", cluster_id, "--config", str(file)]
    subprocess.run(
        [sys.executable, "-m", "barnabas", *command, "--no-initial-controllers"], check=True
    )
    return NodeProcess(data, properties)


@attrs.frozen
class Mixed:
    """Apache Kafka as node 1, the controller and a broker; barnabas as node 2, a broker."""

    kafka: KafkaCluster
    barnabas: NodeProcess

    @property
    def bootstrap(self) -> str:
        return f"{self.kafka.bootstrap},{self.barnabas.bootstrap}"

    def states(self) -> list[tuple[int, list[int]]]:
        """Return leader and ISR of each partition, as Apache Kafka has them."""
        admin = AdminClient({"bootstrap.servers": self.kafka.bootstrap})
        try:
            found = admin.list_topics(TOPIC, timeout=5).topics[TOPIC].partitions
        except KafkaException:
            return []
        return [(each.leader, sorted(each.isrs)) for each in found.values()]

    def files(self, partition: int) -> list[tuple[bytes, list[str]]]:
        """Return the records and the leader epochs of each replica."""
        directories = [
            self.kafka.directory(KAFKA) / f"{TOPIC}-{partition}",
            self.barnabas.data / f"{TOPIC}-{partition}",
        ]
        return [
            (
                b"".join(file.read_bytes() for file in sorted(directory.glob("*.log"))),
                (directory / EPOCHS).read_text().split(),
            )
            for directory in directories
        ]


@pytest.fixture
def mixed(tmp_path: Path) -> Iterator[Mixed]:
    kafka = KafkaCluster(CONFIG, nodes=1)
    try:
        kafka.start()
        with new_broker(kafka, tmp_path / "node-2") as barnabas:
            yield Mixed(kafka, barnabas)
    finally:
        kafka.close()


def wait_for(condition: Callable[[], bool], timeout_s: float = 30) -> None:
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


def test_barnabas_and_apache_kafka_replicate_each_other(mixed: Mixed) -> None:
    admin = AdminClient({"bootstrap.servers": mixed.kafka.bootstrap})
    new = NewTopic(TOPIC, 2, replica_assignment=[[KAFKA, BARNABAS], [BARNABAS, KAFKA]])
    admin.create_topics([new])[TOPIC].result(20)
    acked = produce(mixed, "both")
    assert [leader for leader, _ in mixed.states()] == [KAFKA, BARNABAS]
    mixed.barnabas.kill()
    wait_for(lambda: mixed.states() == [(KAFKA, [KAFKA])] * 2)
    acked += produce(mixed, "kafka")
    mixed.barnabas.start()
    wait_for(lambda: [isr for _, isr in mixed.states()] == [[KAFKA, BARNABAS]] * 2)
    acked += produce(mixed, "again")

    assert len(acked) == 6000
    records = b""
    for partition in range(2):
        wait_for(lambda number=partition: len({len(each[0]) for each in mixed.files(number)}) == 1)
        kafka, barnabas = mixed.files(partition)
        assert kafka == barnabas
        records += kafka[0]
    assert [value for value in acked if records.count(value) != 1] == []

"""docs/cluster.md, "From a single node to three": an old directory grows to a cluster of four.

The directory is the one that commit 7f096a2 wrote (`tests/data/make_old_directory.py`). The
commands are those of the page.
"""

import sys
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.log.checkpoints import META_PROPERTIES, MetaProperties
from barnabas.testing.eventually import wait_until
from barnabas.testing.free_ports import free_ports
from barnabas.testing.known_brokers import known_brokers
from barnabas.testing.process import NodeProcess
from compat_tests.cluster import observation
from compat_tests.cluster.machines import Machine, barnabas

ARCHIVE = Path(__file__).parents[2] / "tests" / "data" / "directory-7f096a2.tar.xz"
CODECS = ("none", "gzip", "lz4", "zstd", "snappy")
INTERNAL = ("__consumer_offsets", "__transaction_state")
TOPICS = {"plain": 3, "compacted": 1, "transactional": 1, **dict.fromkeys(INTERNAL, 1)}
# The records are as old as the archive: nothing of it may expire. The page's file has the others.
PROPERTIES = {
    "log.retention.hours": "-1",
    "offsets.retention.minutes": "1000000000",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}


class Cluster:
    """The nodes by id; `bootstrap` has those that run."""

    def __init__(self, directory: Path) -> None:
        with tarfile.open(ARCHIVE) as tar:
            tar.extractall(directory, filter="data")
        self.directory = directory
        ports = free_ports(8)
        self.ports = {number: (ports[number - 1], ports[number + 3]) for number in range(1, 5)}
        self.nodes: dict[int, NodeProcess] = {}
        data = directory / "data"
        self.cluster_id = MetaProperties.decode((data / META_PROPERTIES).read_bytes()).cluster_id
        self.nodes[1] = first = NodeProcess(data, {**PROPERTIES, **self._quorum(1)})
        first.port = self.ports[1][0]

    def _quorum(self, node_id: int) -> dict[str, str]:
        clients, controllers = self.ports[node_id]
        return {
            "listeners": f"PLAINTEXT://127.0.0.1:{clients},CONTROLLER://127.0.0.1:{controllers}",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{controllers}",
        }

    @property
    def bootstrap(self) -> str:
        return ",".join(node.bootstrap for node in self.nodes.values() if node.is_running)

    def run(self, *arguments: str) -> str:
        return barnabas(*arguments, bootstrap=self.bootstrap)

    def join(self, node_id: int, *, roles: str, options: tuple[str, ...] = ()) -> Machine:
        """Format and start another node."""
        quorum = f"127.0.0.1:{self.ports[1][1]}"
        node = Machine(
            self.directory, node_id, self.ports[node_id], quorum, PROPERTIES, roles=roles
        )
        node.format(self.cluster_id, *options)
        self.nodes[node_id] = node.start()
        return node

    def wait_in_sync(self, *replicas: int) -> None:
        """Wait until each partition has these replicas, all in sync."""

        def is_in_sync() -> bool:
            return all(
                set(each.isr) == set(each.replicas) and (not replicas or {*replicas} == {*each.isr})
                for topic in TOPICS
                for each in observation.partitions(self.nodes[1].bootstrap, topic).values()
            )

        wait_until(is_in_sync)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    with ExitStack() as stack:
        yield made
        for node in made.nodes.values():
            stack.callback(node.kill)
            sys.stdout.write("".join(node.log[-30:]))


def read(bootstrap: str, topic: str) -> list[str]:
    """Return the committed values of a topic, partition by partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader-of-the-test",
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    found: list[str] = []
    for number in range(TOPICS[topic]):
        consumer.assign([TopicPartition(topic, number, 0)])
        while True:
            message = consumer.poll(30)
            assert message is not None, f"{topic}-{number} is silent"
            if message.error() is not None:
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                break
            value = message.value()
            assert value is not None
            found.append(value.decode())
    consumer.close()
    return found


def check(cluster: Cluster, transactions: list[str]) -> None:
    """All that the old directory had is there, and the transactions since."""
    bootstrap = cluster.bootstrap
    assert read(bootstrap, "plain") == [
        f"{codec}-{number}"
        for partition in range(3)
        for codec in CODECS
        for number in range(partition, 20, 3)
    ]
    assert len(read(bootstrap, "compacted")) == 100
    names = ["first", "second", *transactions]
    expected = [f"{name}-{number}" for name in names for number in range(5)]
    assert read(bootstrap, "transactional") == expected
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for group in ("readers", "others"):
        wanted = [ConsumerGroupTopicPartitions(group)]
        found = admin.list_consumer_group_offsets(wanted)[group].result(30).topic_partitions
        assert {each.partition: each.offset for each in found} == {0: 7, 1: 8, 2: 9}


def transact(bootstrap: str, name: str) -> None:
    """Write one transaction with the transactional id of the old directory."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "writer"})
    producer.init_transactions(30)
    producer.begin_transaction()
    for number in range(5):
        producer.produce("transactional", f"{name}-{number}")
    producer.commit_transaction(30)


def test_old_single_node_grows_to_three_and_a_broker_is_replaced(cluster: Cluster) -> None:
    cluster.nodes[1].start()
    controllers = "broker,controller"
    second, third = (
        cluster.join(node_id, roles=controllers, options=("--no-initial-controllers",))
        for node_id in (2, 3)
    )
    cluster.run("cluster", "features", "eligible.leader.replicas.version=1")
    cluster.run("cluster", "reassign", "--to", "1,2,3", "--replicas", "3", "--yes")
    cluster.run("cluster", "elect", "--yes")
    for node in (second, third):
        cluster.run("cluster", "voters", "add", node.voter)
    cluster.wait_in_sync(1, 2, 3)
    assert observation.quorum(second.bootstrap).log_ends.keys() == {1, 2, 3}
    check(cluster, [])
    transact(cluster.bootstrap, "third")

    cluster.nodes[1].kill()  # the directory that was alone: nothing depends on it now
    transact(cluster.bootstrap, "fourth")
    check(cluster, ["third", "fourth"])
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic("new", 1, 2)])["new"].result(30)
    cluster.nodes[1].start()
    cluster.wait_in_sync(1, 2, 3)

    cluster.join(4, roles="broker")
    cluster.run("cluster", "reassign", "--drain", "3", "--yes")
    cluster.run("cluster", "voters", "remove", f"3:{third.stored.directory_id}")
    assert third.stop() == 0
    cluster.run("cluster", "unregister", "3", "--yes")
    cluster.wait_in_sync(1, 2, 4)
    wait_until(lambda: known_brokers(second.bootstrap) == {1, 2, 4})
    assert observation.quorum(second.bootstrap).log_ends.keys() == {1, 2}
    transact(cluster.bootstrap, "fifth")
    check(cluster, ["third", "fourth", "fifth"])

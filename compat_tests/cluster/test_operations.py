"""docs/cluster.md, literally: replacing a node, backup, rolling restart and upgrade.

Three machines are set up as the page says, with its file of properties and its commands.
"""

import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.testing.eventually import wait_until
from barnabas.testing.free_ports import free_ports
from barnabas.testing.known_brokers import wait_until_topic_known
from compat_tests.cluster import observation
from compat_tests.cluster.machines import BOTH_ROLES, Machine, barnabas

ROOT = Path(__file__).parents[2]
RELEASE_BEFORE = "9c56d98"
"""A commit before this one whose nodes form clusters."""
PROPERTIES = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}


class Cluster:
    """Three machines, formatted with one list of initial controllers, and running."""

    def __init__(self, directory: Path, source: Path | None = None) -> None:
        self.directory = directory
        self.ports = free_ports(6)
        self.cluster_id = barnabas("format", "--random-uuid").strip()
        quorum = ",".join(f"127.0.0.1:{self.ports[each + 2]}" for each in (1, 2, 3))
        self.machines = {
            number: Machine(
                directory,
                number,
                (self.ports[number - 1], self.ports[number + 2]),
                quorum,
                {**PROPERTIES, "broker.rack": f"machine-{number}"},
                roles=BOTH_ROLES,
            )
            for number in (1, 2, 3)
        }
        ids = {number: barnabas("format", "--random-uuid").strip() for number in self.machines}
        voters = ",".join(
            f"{number}@127.0.0.1:{machine.controller_port}:{ids[number]}"
            for number, machine in self.machines.items()
        )
        for machine in self.machines.values():
            machine.source = source
            machine.format(self.cluster_id, "--initial-controllers", voters)
            machine.launch()
        for machine in self.machines.values():
            machine.wait_ready()

    @property
    def bootstrap(self) -> str:
        return ",".join(each.bootstrap for each in self.machines.values() if each.is_running)

    def create(self, topic: str) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        new = NewTopic(topic, 3, 3, config={"min.insync.replicas": "2"})
        admin.create_topics([new])[topic].result(30)
        wait_until_topic_known(self.bootstrap.split(","), topic)

    def produce(self, topic: str, values: range) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "acks": "all"})
        for number in values:
            producer.produce(topic, str(number), partition=number % 3)
        assert producer.flush(60) == 0

    def read(self, topic: str) -> set[int]:
        consumer = Consumer(
            {"bootstrap.servers": self.bootstrap, "group.id": "test", "enable.partition.eof": True}
        )
        found: list[int] = []
        for number in range(3):
            consumer.assign([TopicPartition(topic, number, 0)])
            while (message := consumer.poll(30)) is not None and not message.error():
                value = message.value()
                assert value is not None
                found.append(int(value))
            assert message is not None
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
        consumer.close()
        assert len(found) == len(set(found))
        return set(found)

    def wait_in_sync(self, *topics: str) -> None:
        address = next(each for each in self.machines.values() if each.is_running).bootstrap
        wait_until(
            lambda: all(
                set(each.isr) == {1, 2, 3}
                for topic in topics
                for each in observation.partitions(address, topic).values()
            ),
            60,
        )

    def kill(self) -> None:
        for machine in self.machines.values():
            machine.kill()
            sys.stdout.write("".join(machine.log[-30:]))


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    yield made
    made.kill()


def test_node_whose_disk_is_lost_is_replaced_by_an_empty_one(cluster: Cluster) -> None:
    cluster.create("t")
    cluster.produce("t", range(100))
    lost = cluster.machines[3]
    voter = f"3:{lost.stored.directory_id}"
    lost.kill()
    shutil.rmtree(lost.data)
    lost.format(cluster.cluster_id, "--no-initial-controllers")
    lost.start()
    cluster.wait_in_sync("t")
    assert 3 in observation.quorum(cluster.machines[1].bootstrap).observers
    barnabas("cluster", "voters", "remove", voter, bootstrap=cluster.bootstrap)
    barnabas("cluster", "voters", "add", lost.voter, bootstrap=cluster.bootstrap)
    described = observation.quorum(cluster.machines[1].bootstrap)
    assert described.log_ends.keys() == {1, 2, 3}
    assert not described.observers
    cluster.machines[1].kill()  # the new voter counts for the majority, and has all records
    cluster.produce("t", range(100, 200))
    assert cluster.read("t") == set(range(200))


def test_backup_of_all_nodes_is_restored(cluster: Cluster) -> None:
    """All nodes are stopped and copied, and started again; later all go back."""
    cluster.create("t")
    cluster.produce("t", range(100))
    for machine in cluster.machines.values():
        assert machine.stop() == 0
    for number, machine in cluster.machines.items():
        with tarfile.open(cluster.directory / f"node-{number}.tar.gz", "w:gz") as tar:
            tar.add(machine.data, arcname=Path(machine.data).name)
        machine.launch()
    for machine in cluster.machines.values():
        machine.wait_ready()
    cluster.wait_in_sync("t")
    cluster.produce("t", range(100, 200))
    for machine in cluster.machines.values():
        machine.kill()
    for number, machine in cluster.machines.items():
        shutil.rmtree(machine.data)
        with tarfile.open(cluster.directory / f"node-{number}.tar.gz") as tar:
            tar.extractall(cluster.directory, filter="data")
        machine.launch()
    for machine in cluster.machines.values():
        machine.wait_ready()
    cluster.wait_in_sync("t")
    assert cluster.read("t") == set(range(100))
    cluster.produce("t", range(100, 150))
    assert cluster.read("t") == set(range(150))


@pytest.fixture(scope="module")
def release_before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The code of an earlier commit; a shallow clone does not have it."""
    archive = tmp_path_factory.mktemp("release") / "code.tar"
    command = ["git", "-C", str(ROOT), "archive", "-o", str(archive), RELEASE_BEFORE, "src"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"no commit {RELEASE_BEFORE}: {done.stderr.strip()}")
    with tarfile.open(archive) as tar:
        tar.extractall(archive.parent, filter="data")
    return archive.parent / "src"


def test_rolling_upgrade_from_the_release_before_shows_no_error(
    release_before: Path, tmp_path: Path
) -> None:
    cluster = Cluster(tmp_path, release_before)
    try:
        cluster.create("t")
        errors: list[object] = []
        # Without idempotence, a retry after a closed connection may write a record twice.
        settings = {"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True}
        producer = Producer(settings)
        written = 0

        def write(seconds: float) -> None:
            nonlocal written
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                producer.produce(
                    "t",
                    str(written),
                    partition=written % 3,
                    on_delivery=lambda error, _: errors.append(error) if error else None,
                )
                written += 1
                producer.poll(0.005)

        for machine in cluster.machines.values():
            write(0.5)
            assert machine.stop() == 0
            machine.source = None
            machine.start()
            write(0.5)
            cluster.wait_in_sync("t")
        assert producer.flush(60) == 0
        assert errors == []
        assert cluster.read("t") == set(range(written))
        barnabas("cluster", "features", "metadata.version=30", bootstrap=cluster.bootstrap)
    finally:
        cluster.kill()

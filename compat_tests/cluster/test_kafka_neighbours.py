"""Apache Kafka and barnabas as nodes of one cluster: observers, voters, and replicas of partitions.

Kafka's directories are formatted without the features of share and streams groups.
"""

import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.protocol.types import Uuid
from barnabas.testing.eventually import wait_until
from barnabas.testing.free_ports import free_ports
from barnabas.testing.known_brokers import known_brokers
from compat_tests import jars, kdc
from compat_tests.cluster.secured import USERS, Security

pytestmark = jars.needed

FEATURES = ("-f", "share.version=0", "-f", "streams.version=0")
PARTITIONS = 3


class MixedCluster:
    """Nodes by id; `kafkas` run Apache Kafka. `voters` are combined nodes, others brokers.

    With `kerberos`, a login module, the nodes log in at each other with tickets.
    """

    def __init__(
        self,
        data: Path,
        ids: tuple[int, ...],
        voters: set[int],
        kafkas: set[int],
        security: str = "",
        kerberos: str = "",
    ) -> None:
        self.data = data
        self.security: Mapping[str, str] = {}
        self.client_security: dict[str, str] = {}
        self.host = "127.0.0.1"
        if security:
            self.security, self.client_security = Security(data).of(security)
        if kerberos:
            files = Security(data)
            self.security, self.host = files.kerberos_nodes(kerberos), kdc.HOST
            self.client_security = files.sasl_client()
        self.users = USERS if security == "sasl" or kerberos else {}
        self.voters = voters
        self.kafkas = kafkas
        ports = free_ports(2 * len(ids))
        self.ports = {node: (ports[2 * i], ports[2 * i + 1]) for i, node in enumerate(ids)}
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self.cluster_id = str(Uuid.random())
        self.initial = ",".join(
            f"{node}@{self.host}:{self.ports[node][1]}:{Uuid.random()}" for node in sorted(voters)
        )
        for node in ids:
            self._format(node)

    def _file(self, node: int) -> Path:
        return self.data / f"{node}.properties"

    def _format(self, node: int) -> None:
        client, controller = self.ports[node]
        is_voter = node in self.voters
        name = self.security.get("inter.broker.listener.name", "PLAINTEXT")
        listeners = f"{name}://{self.host}:{client}"
        if is_voter:
            listeners += f",CONTROLLER://{self.host}:{controller}"
        bootstrap = (f"{self.host}:{self.ports[each][1]}" for each in sorted(self.voters))
        lines = {
            "process.roles": "broker,controller" if is_voter else "broker",
            "node.id": node,
            "listeners": listeners,
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "controller.quorum.bootstrap.servers": ",".join(bootstrap),
            "log.dirs": self.data / str(node),
            "min.insync.replicas": 1,
            **self.security,
        }
        self._file(node).write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        jars.java(
            "kafka.tools.StorageTool",
            *("format", "-t", self.cluster_id, "-c", self._file(node)),
            *(("--initial-controllers", self.initial) if is_voter else ("-N",)),
            *FEATURES,
            *(
                f"--add-scram=SCRAM-SHA-512=[name={name},password={password}]"
                for name, password in self.users.items()
            ),
        )

    def start(self, *nodes: int) -> None:
        for node in nodes:
            command = [sys.executable, "-m", "barnabas", "serve", "--config", str(self._file(node))]
            if node in self.kafkas:
                options = ["-Xmx400m", *jars.SHORT_LIVED]
                options += [*jars.archive_options(), *jars.LOG_OPTIONS]
                kafka = ["java", *options, "-cp", jars.classpath()]
                command = [*kafka, "kafka.Kafka", str(self._file(node))]
            with (self.data / f"{node}.log").open("ab") as log:
                process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
            self.processes[node] = process
        # A client drops a broker that another one does not list, with the requests to it.
        wait_until(lambda: self.has_ended() or self.are_known(*nodes), 90)
        assert not self.has_ended(), [self.log_of(node) for node in nodes]

    def has_ended(self) -> bool:
        """True when a process has ended by itself."""
        return any(process.poll() is not None for process in self.processes.values())

    def are_known(self, *nodes: int) -> bool:
        """True when each of these nodes lists all of them."""
        return all(set(nodes) <= self.brokers(node) for node in nodes)

    def log_of(self, node: int) -> str:
        return (self.data / f"{node}.log").read_text(errors="replace")[-3000:]

    def kill(self, node: int) -> None:
        self.processes[node].kill()
        self.processes.pop(node).wait()

    def close(self) -> None:
        # A clean stop of the last nodes would wait for a quorum that has ended.
        for node in list(self.processes):
            self.kill(node)

    def client(self, node: int) -> dict[str, str | int]:
        address = f"127.0.0.1:{self.ports[node][0]}"
        return {"bootstrap.servers": address, "log_level": 0, **self.client_security}

    def brokers(self, node: int) -> set[int]:
        """Return the brokers that a node lists; none while it does not answer."""
        return known_brokers(f"127.0.0.1:{self.ports[node][0]}", self.client_security)

    def create(self, node: int, topic: str, replicas: int) -> None:
        wanted = NewTopic(topic, PARTITIONS, replicas)
        admin = AdminClient(self.client(node))
        admin.create_topics([wanted])[topic].result(60)

    def in_sync(self, node: int, topic: str) -> list[list[int]]:
        try:
            found = AdminClient(self.client(node)).list_topics(topic, timeout=5).topics[topic]
        except KafkaException:
            return []
        return [sorted(each.isrs) for _, each in sorted(found.partitions.items())]

    def quorum_leader(self, node: int) -> int:
        described = jars.java(
            "org.apache.kafka.tools.MetadataQuorumCommand",
            *("--bootstrap-controller", f"127.0.0.1:{self.ports[node][1]}"),
            *("describe", "--replication"),
        )
        rows = (line.split() for line in described.stdout.splitlines())
        return next(int(row[0]) for row in rows if row and row[-1] == "Leader")

    def produce(self, topic: str, values: range) -> None:
        """Produce with acks=all; raise unless all are acknowledged."""
        servers = ",".join(f"127.0.0.1:{self.ports[node][0]}" for node in self.processes)
        settings = {
            "bootstrap.servers": servers,
            "enable.idempotence": True,
            "log_level": 0,
            **self.client_security,
        }
        producer = Producer(settings)
        errors: list[object] = []
        for value in values:
            producer.produce(
                topic,
                str(value).encode(),
                partition=value % PARTITIONS,
                on_delivery=lambda error, _: errors.append(error),
            )
            producer.poll(0)
        assert producer.flush(60) == 0
        assert errors == [None] * len(values)

    def read(self, node: int, topic: str, count: int) -> list[int]:
        # Two brokers cannot hold the three replicas of the offsets' topic: nothing is committed.
        settings = {
            **self.client(node),
            "group.id": "g",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
        consumer = Consumer(settings)
        consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
        values: list[int] = []
        deadline = time.monotonic() + 60
        while len(values) < count and time.monotonic() < deadline:
            message = consumer.poll(0.5)
            if message is not None and message.error() is None:
                values.append(int(message.value() or b"-1"))
        consumer.close()
        return sorted(values)


@pytest.fixture
def clusters(tmp_path: Path) -> Iterator[list[MixedCluster]]:
    made: list[MixedCluster] = []
    yield made
    for cluster in made:
        with suppress(Exception):
            cluster.close()


@pytest.mark.parametrize(
    ("kafkas", "security"),
    [({1}, ""), ({2}, ""), ({1}, "sasl"), ({2}, "mutual")],
    ids=["Kafka's quorum", "our quorum", "Kafka's quorum over SASL_SSL", "our quorum with mTLS"],
)
def test_broker_of_one_kind_joins_a_quorum_of_the_other(
    tmp_path: Path, clusters: list[MixedCluster], kafkas: set[int], security: str
) -> None:
    cluster = MixedCluster(tmp_path, (1, 2), {1}, kafkas, security)
    clusters.append(cluster)
    cluster.start(1, 2)
    cluster.create(2, "shared", 2)
    cluster.produce("shared", range(300))
    wait_until(lambda: cluster.in_sync(1, "shared") == [[1, 2]] * PARTITIONS)
    assert cluster.read(1, "shared", 300) == list(range(300))
    assert all(process.poll() is None for process in cluster.processes.values())


@kdc.needed
def test_nodes_of_both_kinds_log_in_at_each_other_with_kerberos(
    tmp_path: Path, clusters: list[MixedCluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each node leads partitions, so each fetches from the other."""
    with kdc.realm(tmp_path) as realm:
        option = f"-Djava.security.krb5.conf={realm.config}"
        monkeypatch.setattr(jars, "LOG_OPTIONS", [*jars.LOG_OPTIONS, option])
        line = kdc.module_line(f"{kdc.SERVICE}@{realm.realm}", realm.keytab(kdc.SERVICE))
        cluster = MixedCluster(tmp_path, (1, 2), {1}, {1}, kerberos=line)
        clusters.append(cluster)
        cluster.start(1, 2)
        cluster.create(2, "shared", 2)
        cluster.produce("shared", range(300))
        wait_until(lambda: cluster.in_sync(1, "shared") == [[1, 2]] * PARTITIONS)
        found = AdminClient(cluster.client(1)).list_topics("shared", timeout=30).topics["shared"]
        assert {each.leader for each in found.partitions.values()} == {1, 2}
        assert cluster.read(1, "shared", 300) == list(range(300))


def test_quorum_of_both_kinds_survives_the_kill_of_each_leader(
    tmp_path: Path, clusters: list[MixedCluster]
) -> None:
    cluster = MixedCluster(tmp_path, (1, 2, 3), {1, 2, 3}, {3})
    clusters.append(cluster)
    cluster.start(1, 2, 3)
    cluster.create(1, "shared", 3)
    produced = 0
    led: set[int] = set()
    for _ in range(3):
        survivor = next(node for node in (1, 2) if node in cluster.processes)
        leader = cluster.quorum_leader(survivor)
        led.add(leader)
        cluster.kill(leader)
        cluster.produce("shared", range(produced, produced + 100))
        produced += 100
        cluster.start(leader)
        wait_until(lambda: cluster.in_sync(1, "shared") == [[1, 2, 3]] * PARTITIONS, 60)
    for node in (1, 2, 3):
        assert cluster.read(node, "shared", produced) == list(range(produced))
    assert all(process.poll() is None for process in cluster.processes.values())
    assert len(led) > 1

"""docs/security.md: a running cluster goes from PLAINTEXT to TLS and SASL, node by node."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import trustme
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from barnabas.protocol.messages.describe_quorum import DescribeQuorumRequest
from barnabas.testing.eventually import wait_until
from barnabas.testing.free_ports import free_ports
from barnabas.testing.node_process_control import NodeProcess
from barnabas.testing.process import ClusterProcess
from compat_tests import wire
from compat_tests.cluster.pinger import Pinger, faults
from compat_tests.cluster.replicated_topics import partitions
from compat_tests.cluster.secured import (
    AUTHORIZER,
    CLIENT,
    NODES,
    PLAIN,
    SCRAM,
    USERS,
    Security,
)

PARTITIONS = 2
BROKER = 'username="broker" password="broker-secret"'
MAP = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL,SECURE:SASL_SSL"
METADATA = "__cluster_metadata"


class Migration:
    """Three nodes, and the properties of each step of the page."""

    def __init__(self, directory: Path) -> None:
        self.security = Security(directory)
        self.cluster = ClusterProcess(3, directory / "data", replicates_topics=True)
        ports = free_ports(6)
        self.secure = {
            number: (ports[2 * number - 2], ports[2 * number - 1]) for number in (1, 2, 3)
        }
        self.plain = {
            node.node_id: (node.port, node.controller_port)
            for node in self.cluster.layout.plan.nodes
        }

    @property
    def bootstrap(self) -> str:
        """The addresses with TLS."""
        return ",".join(f"127.0.0.1:{client}" for client, _ in self.secure.values())

    def listeners(self, number: int, *, plain: bool) -> str:
        """The listeners with TLS, and the others where they are there too."""
        client, controller = self.secure[number]
        found = [f"SASL_SSL://127.0.0.1:{client}", f"SECURE://127.0.0.1:{controller}"]
        if plain:
            client, controller = self.plain[number]
            found += [f"PLAINTEXT://127.0.0.1:{client}", f"CONTROLLER://127.0.0.1:{controller}"]
        return ",".join(found)

    def add_listeners(self, number: int) -> dict[str, str]:
        return {
            **self.security.stores(),
            "listeners": self.listeners(number, plain=True),
            "listener.security.protocol.map": MAP,
            "controller.listener.names": "CONTROLLER,SECURE",
            "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
            "sasl.mechanism.controller.protocol": "PLAIN",
            "listener.name.sasl_ssl.sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": f"{SCRAM} {BROKER};",
            "listener.name.secure.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.secure.plain.sasl.jaas.config": (
                f'{PLAIN} {BROKER} user_broker="broker-secret";'
            ),
        }

    def use_them(self, number: int) -> dict[str, str]:
        servers = (f"127.0.0.1:{controller}" for _, controller in self.secure.values())
        return {
            "inter.broker.listener.name": "SASL_SSL",
            "controller.listener.names": "SECURE,CONTROLLER",
            "controller.quorum.bootstrap.servers": ",".join(servers),
        }

    def remove_others(self, number: int) -> dict[str, str]:
        return {
            "listeners": self.listeners(number, plain=False),
            "controller.listener.names": "SECURE",
            "authorizer.class.name": AUTHORIZER,
            "super.users": "User:broker;User:alice",
        }

    def roll(self, changes: Callable[[int], dict[str, str]], admin: AdminClient) -> None:
        """Restart each node with changed properties, once its replicas are in sync."""
        for number, node in self.cluster.nodes.items():
            wait_until(lambda: self.is_complete(admin), 60)
            node.stop()
            node.config |= changes(number)
            node.start()
        wait_until(lambda: self.is_complete(admin), 60)

    def is_complete(self, admin: AdminClient) -> bool:
        return all(isr == [1, 2, 3] for _, isr in partitions(admin, "t").values())

    def voter_listeners(self) -> list[set[str]]:
        """The names of the listeners of each voter, as the quorum has recorded them."""
        asked = DescribeQuorumRequest
        topic = asked.TopicData(
            topic_name=METADATA, partitions=[asked.PartitionData(partition_index=0)]
        )
        answer = wire.call(f"127.0.0.1:{self.plain[1][0]}", asked(topics=[topic]), 2)
        return [{each.name for each in node.listeners} for node in answer.nodes]


def create_users(admin: AdminClient) -> None:
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    wanted = [
        UserScramCredentialUpsertion(user, info, password.encode())
        for user, password in USERS.items()
    ]
    for future in admin.alter_user_scram_credentials(wanted).values():
        future.result(30)


def test_cluster_moves_from_plaintext_to_tls_and_sasl_without_a_lost_write(tmp_path: Path) -> None:
    migration = Migration(tmp_path)
    client = migration.security.sasl_client()
    with migration.cluster as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic("t", PARTITIONS, 3)])["t"].result(60)
        create_users(admin)
        with Pinger(cluster.bootstrap, "t", PARTITIONS) as plain:
            migration.roll(migration.add_listeners, admin)
            wait_until(lambda: migration.voter_listeners() == [{"CONTROLLER", "SECURE"}] * 3, 30)
            migration.roll(migration.use_them, admin)
            plain.wait_for_acks(time.monotonic())
        config: dict[str, object] = {**client}
        secure_admin = AdminClient(
            {"bootstrap.servers": migration.bootstrap, "log_level": 0, **client}
        )
        with Pinger(migration.bootstrap, "t", PARTITIONS, config=config) as secure:
            migration.roll(migration.remove_others, secure_admin)
            secure.wait_for_acks(time.monotonic())
        assert (plain.ledger.failed, secure.ledger.failed) == ({}, {})
        ledgers = plain.ledger, secure.ledger
        assert faults(migration.bootstrap, "t", PARTITIONS, *ledgers, config=config) == []
        for node in cluster.nodes.values():
            assert isinstance(node, NodeProcess)
            assert "secret" not in "".join(node.log)


def test_cluster_moves_to_another_authority_without_a_lost_write(tmp_path: Path) -> None:
    """Each step replaces files; SIGHUP has a node read them, and a restarted node connects."""
    old, new = Security(tmp_path), trustme.CA()
    both = old.ca.read_bytes() + new.cert_pem.bytes()
    nodes = {**old.mutual_nodes(), "ssl.allow.dn.changes": "true"}
    trusted = tmp_path / "clients-trust.pem"
    trusted.write_bytes(both)
    client = {**old.mutual_client(), "ssl.ca.location": str(trusted)}
    config: dict[str, object] = {**client}
    with ClusterProcess(
        3, tmp_path / "data", nodes, replicates_topics=True, client=client
    ) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0, **client})
        admin.create_topics([NewTopic("t", PARTITIONS, 3)])["t"].result(60)

        def reload(number: int) -> None:
            """Have all nodes read their stores, and one connect to the others again."""
            for node in cluster.nodes.values():
                before = renewals(node)
                os.kill(node.pid, signal.SIGHUP)
                wait_until(lambda node=node, before=before: renewals(node) == before + 2, 30)
            cluster.nodes[number].stop()
            cluster.nodes[number].start()
            wait_until(
                lambda: {tuple(isr) for _, isr in partitions(admin, "t").values()} == {(1, 2, 3)}
            )

        with Pinger(cluster.bootstrap, "t", PARTITIONS, config=config) as first:
            old.ca.write_bytes(both)
            reload(1)
            old.authority = new
            old.issue(old.node_file, NODES)
            reload(2)
            first.wait_for_acks(time.monotonic())
        old.issue(old.client_file, CLIENT)
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0, **client})
        with Pinger(cluster.bootstrap, "t", PARTITIONS, config=config) as second:
            old.ca.write_bytes(new.cert_pem.bytes())
            reload(3)
            second.wait_for_acks(time.monotonic())
        assert (first.ledger.failed, second.ledger.failed) == ({}, {})
        ledgers = first.ledger, second.ledger
        assert faults(cluster.bootstrap, "t", PARTITIONS, *ledgers, config=config) == []
        logs = "".join(line for node in cluster.nodes.values() for line in node.log)
        assert "cannot renew" not in logs


def renewals(node: NodeProcess) -> int:
    """Return how often a node has renewed the stores of a listener; it has two with TLS."""
    return sum("renewed the TLS settings listener=" in line for line in node.log)

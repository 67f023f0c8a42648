"""Step 15: the nodes of an Apache Kafka cluster are exchanged for barnabas one by one, and back.

A node keeps its id, its address, its disk and its vote: a process of the other kind opens the same
directory. Before that, a broker of barnabas with a new id takes the replicas of a Kafka broker.
"""

import subprocess
import sys
import time

from barnabas.log.checkpoints import META_PROPERTIES, MetaProperties
from barnabas.testing.free_ports import free_ports
from barnabas.testing.process import NodeProcess
from compat_tests import jars
from compat_tests.cluster import observation
from compat_tests.cluster.admin_calls import reassign, wait_reassigned
from compat_tests.cluster.clusters import KafkaCluster, KafkaNode, differing_replicas
from compat_tests.cluster.pinger import Pinger
from compat_tests.cluster.steps.trial import (
    PARTITIONS,
    Figure,
    active_controller,
    check_ledger,
    create_topic,
    wait_in_sync,
)

_FEATURES = ("-f", "share.version=0", "-f", "streams.version=0")
_NEW = 4
_METADATA_LOG = "__cluster_metadata"
_STARTED_S = 90.0


class ExchangedCluster(KafkaCluster):
    """Three Apache Kafka nodes, each of which can be exchanged for barnabas and back."""

    def __init__(self) -> None:
        super().__init__(features=_FEATURES)
        self.kafkas = dict(self.nodes)

    def exchange(self, node_id: int) -> float:
        """Stop a node and start the other kind on its directory; return the seconds."""
        started = time.monotonic()
        node = self.nodes[node_id]
        status = node.stop()
        assert status in (0, 143), f"node {node_id} ended with {status}: {self.log_of(node_id)}"
        kafka = self.kafkas[node_id]
        assert isinstance(kafka, KafkaNode)
        if node is kafka:
            self.nodes[node_id] = NodeProcess(self.directory(node_id), kafka.properties)
        else:
            self.nodes[node_id] = kafka
        self.nodes[node_id].start()
        return time.monotonic() - started

    def add_broker(self) -> None:
        """Start a broker of barnabas with a new id."""
        first = self.kafkas[1]
        assert isinstance(first, KafkaNode)
        (port,) = free_ports(1)
        shared = ("controller.quorum.bootstrap.servers", "controller.listener.names")
        properties = {
            **{name: first.properties[name] for name in shared},
            "process.roles": "broker",
            "node.id": str(_NEW),
            "listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "log.dirs": str(self.directory(_NEW)),
        }
        file = self.directory(_NEW).with_suffix(".properties")
        file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        known = MetaProperties.decode((self.directory(1) / META_PROPERTIES).read_bytes())
        command = ["format", "--config", str(file), "--cluster-id", known.cluster_id]
        subprocess.run(
            [sys.executable, "-m", "barnabas", *command, "--no-initial-controllers"],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        self.addresses[_NEW] = f"127.0.0.1:{port}"
        self.nodes[_NEW] = NodeProcess(self.directory(_NEW), properties)
        self.nodes[_NEW].start()

    def log_of(self, node_id: int, lines: int = 40) -> str:
        node = self.nodes[node_id]
        if isinstance(node, NodeProcess):
            return "".join(node.log[-lines:])
        return super().log_of(node_id, lines)


def three_kafkas() -> ExchangedCluster:
    """Return a cluster of three Apache Kafka nodes without share and streams groups."""
    return ExchangedCluster()


def exchange(cluster: ExchangedCluster, _: float = 0) -> list[Figure]:
    """Step 15: a broker by a new id, then each node on its own disk, and back, under load.

    No process ends by itself, nothing acked is lost, and the replicas and the quorum's logs are
    equal byte by byte.
    """
    topic = create_topic(cluster)
    elections = observation.quorum(cluster.addresses[1]).epoch
    with Pinger(cluster.bootstrap, topic, PARTITIONS, interval_s=0.005) as pinger:
        pinger.wait_for_acks(time.monotonic(), 60)
        since = time.monotonic()
        replaced = _replace_broker(cluster, topic)
        to_ours = [_exchange(cluster, pinger, node_id) for node_id in (3, 2, 1)]
        back = [_exchange(cluster, pinger, node_id) for node_id in (1, 2, 3)]
        gap = pinger.longest_gaps(since)
    check_ledger(cluster, pinger)
    elections = observation.quorum(cluster.addresses[1]).epoch - elections
    time.sleep(1)
    cluster.kill_all()
    everywhere = {key: [1, 2, 3] for key in range(PARTITIONS)}
    wrong = differing_replicas(cluster, topic, everywhere)
    assert not wrong, wrong
    logs = _metadata_records(cluster)
    shortest = min(map(len, logs))
    assert shortest, "a quorum's log has no batch"
    assert all(log[:shortest] == logs[0][:shortest] for log in logs), "the quorum's logs differ"
    return [
        Figure("exchange: a broker replaced by one with a new id, and back", "s", replaced),
        Figure("exchange: Kafka to barnabas on a node's disk, longest", "s", max(to_ours)),
        Figure("exchange: barnabas to Kafka on a node's disk, longest", "s", max(back)),
        Figure("exchange: longest gap in acks", "s", gap),
        Figure("exchange: elections of the quorum", "", elections),
        Figure("exchange: partitions whose replicas differ", "", 0),
    ]


def _replace_broker(cluster: ExchangedCluster, topic: str) -> float:
    """Move the replicas of broker 3 to a new broker of barnabas, and back; remove that one."""
    started = time.monotonic()
    cluster.add_broker()
    for replicas in ([1, 2, _NEW], [1, 2, 3]):
        reassign(cluster.addresses[1], topic, dict.fromkeys(range(PARTITIONS), replicas))
        wait_reassigned(cluster.addresses[1], topic, range(PARTITIONS), 60)
        observation.seconds_until(lambda: observation.in_sync(cluster.addresses[1], topic), 60)
    taken = time.monotonic() - started
    cluster.nodes.pop(_NEW).stop()
    del cluster.addresses[_NEW]
    command = [sys.executable, "-m", "barnabas", "cluster", "unregister", str(_NEW), "--yes"]
    subprocess.run(
        [*command, "--bootstrap", cluster.bootstrap], check=True, stdout=subprocess.DEVNULL
    )
    return taken


def _exchange(cluster: ExchangedCluster, pinger: Pinger, node_id: int) -> float:
    """Exchange a node; return the seconds until its replicas are in sync again."""
    started = time.monotonic()
    cluster.exchange(node_id)
    wait_in_sync(cluster, pinger.topic, _STARTED_S)
    leader = cluster.addresses[active_controller(cluster)]
    observation.seconds_until(lambda: len(observation.quorum(leader).log_ends) == 3, 60)
    pinger.wait_for_acks(time.monotonic(), 60)
    ended = [each for each, node in cluster.nodes.items() if not node.is_running]
    assert not ended, f"nodes {ended} ended: {cluster.log_of(ended[0])}"
    return time.monotonic() - started


def _metadata_records(cluster: ExchangedCluster) -> list[list[str]]:
    """Return the batches and records of each node's quorum log, as Kafka's tool prints them."""
    found: list[list[str]] = []
    for node_id in cluster.nodes:
        files = sorted(cluster.replica(node_id, _METADATA_LOG, 0).glob("*.log"))
        lines: list[str] = []
        for file in files:
            printed = jars.java(
                "org.apache.kafka.tools.DumpLogSegments",
                *("--cluster-metadata-decoder", "--skip-record-metadata", "--files", file),
            ).stdout
            lines += [
                line
                for line in printed.splitlines()
                if line.startswith(("baseOffset", "payload", "|"))
            ]
        found.append(lines)
    return found

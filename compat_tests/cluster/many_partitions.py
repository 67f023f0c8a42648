"""Many partitions on three nodes, one of which is killed: until every partition is led again.

    start of the nodes, creation of the topics with three replicas, idle memory and CPU
    kill -9 of one node: until it is noticed, and until each other node names a leader for all
    restart of the node: until all replicas are in sync

Of barnabas, also the longest time for which the event loop of a node was held in each phase, as the
upper limit of its bucket in the node's histogram (`barnabas_loop_hold_seconds`).
"""

import math
import time
import urllib.request
from collections.abc import Callable, Mapping
from datetime import datetime

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.testing.free_ports import free_ports
from compat_tests import wire
from compat_tests.cluster import observation
from compat_tests.cluster.clusters import (
    BarnabasCluster,
    TrialCluster,
    cpu_seconds,
    resident_mb,
)
from compat_tests.cluster.steps.trial import Figure, active_controller

TOPIC_PARTITIONS = 1000
IDLE_S = 10.0
CREATED_S = 600.0
LED_S = 120.0


class MeteredCluster(BarnabasCluster):
    """Three `barnabas serve` processes with their metrics pages."""

    def __init__(self) -> None:
        super().__init__()
        taken = {
            port
            for node in self.processes.layout.plan.nodes
            for port in (node.port, node.controller_port)
        }
        self.metrics = dict(zip(self.nodes, free_ports(len(self.nodes), taken), strict=True))
        for node_id, port in self.metrics.items():
            self.processes.nodes[node_id].config["barnabas.metrics.port"] = str(port)


class HoldWatch:
    """The holds of the loops of some nodes since this was made; nothing for Apache Kafka.

    Nodes that do not run are watched from their start on.
    """

    def __init__(self, cluster: TrialCluster, node_ids: list[int]) -> None:
        ports = cluster.metrics if isinstance(cluster, MeteredCluster) else {}
        self._ports = {each: ports[each] for each in node_ids if each in ports}
        self._before = {
            each: _hold_buckets(port) if cluster.nodes[each].is_running else {}
            for each, port in self._ports.items()
        }

    def figures(self, phase: str) -> list[Figure]:
        """Return the longest hold of any of the nodes, in CPU time and on the wall clock."""
        longest = {"cpu": 0.0, "wall": 0.0}
        for node_id, port in self._ports.items():
            before = self._before[node_id]
            for (clock, bound), count in _hold_buckets(port).items():
                if count > before.get((clock, bound), 0):
                    longest[clock] = max(longest[clock], bound)
        if not self._ports:
            return []
        return [
            Figure(f"{phase}: longest hold of a loop, CPU, at most", "ms", longest["cpu"] * 1000),
            Figure(f"{phase}: longest hold of a loop, at most", "ms", longest["wall"] * 1000),
        ]


def _hold_buckets(port: int) -> dict[tuple[str, float], float]:
    """Return how many holds each bucket has, by clock and upper limit."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as response:
        lines = response.read().decode().splitlines()
    found: dict[tuple[str, float], float] = {}
    below = {"cpu": 0.0, "wall": 0.0}
    for line in lines:
        if line.startswith("barnabas_loop_hold_seconds_bucket{"):
            labels, _, value = line.partition("{")[2].partition("} ")
            clock, bound = (part.split('"')[1] for part in labels.split(","))
            found[clock, float(bound)] = float(value) - below[clock]
            below[clock] = float(value)
    return found


class View:
    """A node's metadata, read over one connection."""

    def __init__(self, address: str) -> None:
        self._connection = wire.Connection(address)

    def close(self) -> None:
        self._connection.socket.close()

    def all_partitions(self, topic: str, holds: Callable[[observation.Partition], bool]) -> bool:
        """True when the topic exists and `holds` is true for each of its partitions."""
        wanted = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=topic)])
        (found,) = self._connection.call(wanted, 9).topics
        return bool(found.partitions) and all(
            holds(
                observation.Partition(
                    each.leader_id,
                    each.leader_epoch,
                    tuple(each.replica_nodes),
                    tuple(each.isr_nodes),
                )
            )
            for each in found.partitions
        )


def seconds_until_all(
    views: Mapping[int, View],
    topics: list[str],
    holds: Callable[[observation.Partition], bool],
    timeout_s: float,
) -> float:
    """Return the seconds until `holds` is true for all partitions, in the metadata of each node.

    A topic that was complete on a node is not read again.
    """
    began = time.monotonic()
    missing = {node_id: list(topics) for node_id in views}
    while any(missing.values()):
        if time.monotonic() - began > timeout_s:
            raise TimeoutError(f"{missing} are not complete after {timeout_s} s")
        for node_id, left in missing.items():
            while left and views[node_id].all_partitions(left[0], holds):
                left.pop(0)
        time.sleep(0.02)
    return time.monotonic() - began


def many_partitions(
    cluster: TrialCluster, count: int, *, of_controller: bool, restarts: bool = True
) -> list[Figure]:
    """Run the step on a cluster that is not started; it has `count` partitions."""
    figures = [_start(cluster)]
    views = {node_id: View(address) for node_id, address in cluster.addresses.items()}
    topics, created = _create(cluster, count, views)
    figures += created
    figures += _idle(cluster)
    controller = active_controller(cluster)
    others = [each for each in cluster.nodes if each != controller]
    killed = controller if of_controller else others[0]
    views.pop(killed).close()
    figures += _kill(cluster, killed, views, topics, "controller" if of_controller else "broker")
    if restarts:
        figures += _restart(cluster, killed, views, topics)
    for view in views.values():
        view.close()
    return figures


def _start(cluster: TrialCluster) -> Figure:
    began = time.monotonic()
    for node in cluster.nodes.values():
        node.launch()
    observation.seconds_until(lambda: observation.all_registered(cluster.addresses), 120)
    took = time.monotonic() - began
    for node in cluster.nodes.values():
        node.wait_ready()
    return Figure("start to all registered", "s", took)


def _create(
    cluster: TrialCluster, count: int, views: Mapping[int, View]
) -> tuple[list[str], list[Figure]]:
    """Create the topics; return them once all replicas are in sync on every node."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    watch = HoldWatch(cluster, list(cluster.nodes))
    topics = [f"many-{number}" for number in range(max(1, count // TOPIC_PARTITIONS))]
    began = time.monotonic()
    for topic in topics:
        new = NewTopic(topic, min(count, TOPIC_PARTITIONS), 3, config={"min.insync.replicas": "2"})
        future = admin.create_topics([new], operation_timeout=120, request_timeout=120)[topic]
        try:
            future.result(180)
        except KafkaException as error:  # of a retry by the client
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
    created = time.monotonic() - began
    in_sync = seconds_until_all(
        views,
        topics,
        lambda each: set(each.isr) == set(each.replicas) and each.leader > 0,
        CREATED_S,
    )
    return topics, [
        Figure("create the topics", "s", created),
        Figure("created to all in sync on every node", "s", in_sync),
        *watch.figures("create"),
    ]


def _idle(cluster: TrialCluster) -> list[Figure]:
    time.sleep(5)
    before = {each: cpu_seconds(node.pid) for each, node in cluster.nodes.items()}
    time.sleep(IDLE_S)
    used = [cpu_seconds(node.pid) - before[each] for each, node in cluster.nodes.items()]
    return [
        Figure(
            "memory of each node", "MB", max(resident_mb(n.pid) for n in cluster.nodes.values())
        ),
        Figure("idle CPU of each node", "% of a core", max(used) / IDLE_S * 100),
    ]


def _kill(
    cluster: TrialCluster, killed: int, views: Mapping[int, View], topics: list[str], what: str
) -> list[Figure]:
    """Kill a node; return when the others name living leaders for all partitions."""
    watch = HoldWatch(cluster, list(views))
    before = {each: cpu_seconds(cluster.nodes[each].pid) for each in views}
    at = time.time()
    cluster.nodes[killed].send_kill()
    total = seconds_until_all(views, topics, lambda each: each.leader in views, LED_S)
    used = sum(cpu_seconds(cluster.nodes[each].pid) - before[each] for each in views)
    cluster.nodes[killed].kill()
    time.sleep(2)
    noticed = min(_noticed(cluster.log_of(each, 1000), killed) for each in views) - at
    until_noticed = [
        Figure(f"kill of a {what}: until it is noticed", "s", noticed),
        Figure(f"kill of a {what}: noticed to all led, on every node", "s", total - noticed),
    ]
    return [
        *(until_noticed if noticed < math.inf else []),
        Figure(f"kill of a {what}: kill to all led", "s", total),
        Figure(f"kill of a {what}: CPU of the others meanwhile", "s", used),
        *watch.figures(f"kill of a {what}"),
    ]


def _noticed(log: str, killed: int) -> float:
    """Return when a node wrote that the broker's process has ended; infinity when it did not."""
    for line in log.splitlines():
        if f"broker process has ended broker={killed} " in line:
            return datetime.fromisoformat(line.split()[0]).timestamp()
    return math.inf


def _restart(
    cluster: TrialCluster, killed: int, views: Mapping[int, View], topics: list[str]
) -> list[Figure]:
    """Start the killed node again; return when all replicas are in sync."""
    watch, own = HoldWatch(cluster, list(views)), HoldWatch(cluster, [killed])
    began = time.monotonic()
    cluster.nodes[killed].start()
    ready = time.monotonic() - began
    seconds_until_all(views, topics, lambda each: set(each.isr) == set(each.replicas), CREATED_S)
    return [
        Figure("restart of the node: until it is ready", "s", ready),
        Figure("restart of the node: until all are in sync", "s", time.monotonic() - began),
        *own.figures("restart of the node, on it"),
        *watch.figures("restart of the node, on the others"),
    ]

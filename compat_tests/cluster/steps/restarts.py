"""Step 10: a rolling restart under the load of several kinds of clients."""

import threading
import time
from contextlib import ExitStack, suppress

import attrs

from compat_tests import wire
from compat_tests.cluster import observation
from compat_tests.cluster.clusters import TrialCluster
from compat_tests.cluster.group_reader import GroupReader
from compat_tests.cluster.other_pingers import PINGERS
from compat_tests.cluster.pinger import Load, faults, read_all
from compat_tests.cluster.steps.trial import PARTITIONS, Figure, create_topic, wait_in_sync
from compat_tests.cluster.transactional_copy import TransactionalCopy

PROTOCOLS = ("classic", "consumer")


@attrs.frozen
class Clients:
    """The clients that must not notice a rolling restart."""

    topic: str
    target: str
    producers: dict[str, Load]
    groups: list[GroupReader]
    copy: TransactionalCopy

    def errors(self) -> dict[str, list[str]]:
        """Return the errors that clients surfaced, by the kind of client."""
        found = {kind: list(each.ledger.failed.values()) for kind, each in self.producers.items()}
        found |= {f"group, {each.protocol}": each.errors for each in self.groups}
        stalled = [each.name for each in self.groups if each.stalls]
        found["groups that stalled"] = stalled
        found["transactional copy"] = self.copy.errors
        return {kind: errors for kind, errors in found.items() if errors}

    def acked(self) -> set[str]:
        """Return the values that the servers acknowledged."""
        return {value for each in self.producers.values() for value in each.ledger.acked}

    def wait_for_acks(self) -> None:
        """Wait until each partition has acked a record of each producer from now on."""
        now = time.monotonic()
        for each in self.producers.values():
            each.wait_for_acks(now, 60)


def rolling_restart(cluster: TrialCluster, _: float = 0) -> list[Figure]:
    """Step 10: SIGTERM and start of each node in turn; no client sees an error.

    Producers of each kind, groups of both protocols, and a transactional copy run all the time. A
    group may rebalance once for each restart.
    """
    with ExitStack() as stack:
        clients = _start_clients(cluster, stack)
        before = [group.rebalances for group in clients.groups]
        since = time.monotonic()
        stops, catch_ups = _restart_each(cluster, clients.topic)
        clients.wait_for_acks()
        gap = max(each.longest_gaps(since) for each in clients.producers.values())
        latency = max(each.latencies(since)[-1] for each in clients.producers.values())
        until = time.monotonic()
        pause = max(group.longest_pause(since, until) for group in clients.groups)
        for producer in clients.producers.values():
            producer.stop()
        for group in clients.groups:
            group.wait_for(clients.acked())
        rebalances = [
            group.rebalances - count for group, count in zip(clients.groups, before, strict=True)
        ]
    clients.copy.finish(len(clients.acked()))
    _check(cluster, clients, rebalances)
    return [
        Figure("rolling restart: client errors", "", 0),
        Figure("rolling restart: longest ack latency", "s", latency),
        Figure("rolling restart: longest gap in acks", "s", gap),
        Figure("rolling restart: longest pause of a group's commits", "s", pause),
        Figure("rolling restart: longest pause of a transactional copy", "s", clients.copy.pause_s),
        Figure("rolling restart: rebalances of a group", "", max(rebalances)),
        Figure("rolling restart: stop of a node, longest", "s", max(stops)),
        Figure("rolling restart: start to in sync, longest", "s", max(catch_ups)),
    ]


def _start_clients(cluster: TrialCluster, stack: ExitStack) -> Clients:
    topic, target = create_topic(cluster), create_topic(cluster)
    producers = {
        kind: stack.enter_context(make(cluster.bootstrap, topic, PARTITIONS, interval_s=0.02))
        for kind, make in PINGERS.items()
    }
    groups = [
        stack.enter_context(GroupReader(cluster.bootstrap, topic, protocol=protocol))
        for protocol in PROTOCOLS
    ]
    copy = TransactionalCopy(cluster.bootstrap, topic, target)
    copy.start()
    clients = Clients(topic, target, producers, groups, copy)
    clients.wait_for_acks()
    for group in groups:
        group.wait_until_assigned()
    copy.wait_for_commit()
    return clients


def _restart_each(cluster: TrialCluster, topic: str) -> tuple[list[float], list[float]]:
    """Restart the nodes in turn; return the seconds of each stop, and of each start to in sync."""
    stops: list[float] = []
    catch_ups: list[float] = []
    moved: list[bool] = []
    for node_id, node in cluster.nodes.items():
        started = time.monotonic()
        moved.append(_stop(cluster, node_id, topic))
        stops.append(time.monotonic() - started)
        started = time.monotonic()
        node.start()
        wait_in_sync(cluster, topic)
        catch_ups.append(time.monotonic() - started)
    assert sum(moved) > len(moved) // 2, f"nodes ended without handing over: {moved}"
    return stops, catch_ups


def _stop(cluster: TrialCluster, node_id: int, topic: str) -> bool:
    """Stop a node; True when it served clients until its leaderships had moved.

    Other nodes would also move them after they notice that it has ended, so the node itself must
    say so, over a connection that was open before.
    """
    node = cluster.nodes[node_id]
    statuses: list[int] = []
    stopping = threading.Thread(target=lambda: statuses.append(node.stop()))
    has_moved = False
    with wire.Connection(cluster.addresses[node_id]) as connection, suppress(OSError, EOFError):
        stopping.start()
        while not has_moved:
            found = observation.partitions_of(connection, topic).values()
            has_moved = node_id not in {each.leader for each in found}
    stopping.join()
    assert statuses[0] in (0, 143), f"node {node_id} ended with {statuses[0]}"
    return has_moved


def _check(cluster: TrialCluster, clients: Clients, rebalances: list[int]) -> None:
    assert not clients.errors(), {kind: each[:3] for kind, each in clients.errors().items()}
    ledgers = [each.ledger for each in clients.producers.values()]
    wrong = faults(cluster.bootstrap, clients.topic, PARTITIONS, *ledgers)
    assert not wrong, wrong[:10]
    assert max(rebalances) <= len(cluster.nodes), f"rebalances of the groups: {rebalances}"
    copied = sorted(
        value for _, _, value in read_all(cluster.bootstrap, clients.target, PARTITIONS)
    )
    assert copied == sorted(map(clients.copy.copy_of, clients.acked())), "the copy is not exact"

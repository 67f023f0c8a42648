"""Steps 3 to 5: kill -9 of a leader, of the active controller, of all nodes; equal replicas."""

import random
import time
from collections.abc import Callable

from compat_tests.cluster import observation
from compat_tests.cluster.clusters import TrialCluster, differing_replicas
from compat_tests.cluster.other_pingers import PINGERS
from compat_tests.cluster.pinger import Load, Pinger
from compat_tests.cluster.steps.trial import (
    PARTITIONS,
    Figure,
    Step,
    active_controller,
    check_ledger,
    create_topic,
    live,
    wait_in_sync,
)


def disturb(
    cluster: TrialCluster,
    target: Callable[[str], int],
    act: Callable[[int], None],
    *,
    within_s: float,
    label: str,
    client: Callable[..., Load] = Pinger,
) -> list[Figure]:
    """Ping all partitions, disturb one node, and measure the longest gap of its partitions."""
    topic = create_topic(cluster)
    with client(cluster.bootstrap, topic, PARTITIONS, interval_s=0.005) as pinger:
        pinger.wait_for_acks(time.monotonic(), 60)
        time.sleep(0.5)
        node_id = target(topic)
        state = observation.partitions(cluster.addresses[node_id], topic)
        led = [number for number, each in state.items() if each.leader == node_id]
        at = time.monotonic()
        act(node_id)
        pinger.wait_for_acks(time.monotonic(), within_s)
        time.sleep(0.5)
        gaps = [pinger.longest_gap(number, at - 0.2) for number in led or state]
        rest = [pinger.longest_gap(number, at - 0.2) for number in state if number not in led]
        if not cluster.nodes[node_id].is_running:
            cluster.nodes[node_id].start()
        complete = wait_in_sync(cluster, topic)
    check_ledger(cluster, pinger)
    return [
        Figure(f"{label}: longest gap in acks", "s", max(gaps)),
        Figure(f"{label}: longest gap of the other partitions", "s", max(rest, default=0.0)),
        Figure(f"{label}: restarted node back in sync", "s", complete),
    ]


def leader_other_than(cluster: TrialCluster, topic: str, other: int) -> int:
    """Return the id of a node that leads a partition and is not `other`."""
    address = next(iter(live(cluster).values()))
    leaders = {each.leader for each in observation.partitions(address, topic).values()}
    return random.choice(sorted(leaders - {other}))


def kill_leader(cluster: TrialCluster, _: float = 0) -> list[Figure]:
    """Step 3: kill -9 of a partition leader that is not the active controller."""
    controller = active_controller(cluster)
    return disturb(
        cluster,
        lambda topic: leader_other_than(cluster, topic, controller),
        lambda node_id: cluster.nodes[node_id].kill(),
        within_s=60,
        label="kill of a leader",
    )


def kill_leader_under(client: str) -> Step:
    """Return step 3 with another kind of producer; only the gap is a figure."""

    def step(cluster: TrialCluster, _: float = 0) -> list[Figure]:
        controller = active_controller(cluster)
        figures = disturb(
            cluster,
            lambda topic: leader_other_than(cluster, topic, controller),
            lambda node_id: cluster.nodes[node_id].kill(),
            within_s=90,
            label=f"kill of a leader, {client}",
            client=PINGERS[client],
        )
        return figures[:1]

    return step


def kill_controller(cluster: TrialCluster, _: float = 0) -> list[Figure]:
    """Step 4: kill -9 of the active controller, which leads partitions too."""
    return disturb(
        cluster,
        lambda _: active_controller(cluster),
        lambda node_id: cluster.nodes[node_id].kill(),
        within_s=60,
        label="kill of the active controller",
    )


def kill_all(cluster: TrialCluster, _: float = 0) -> list[Figure]:
    """Step 5: kill -9 of all nodes at once, then a restart."""
    topic = create_topic(cluster)
    with Pinger(cluster.bootstrap, topic, PARTITIONS, interval_s=0.002) as pinger:
        pinger.wait_for_acks(time.monotonic(), 60)
        time.sleep(1)
        cluster.kill_all()
        restarted = time.monotonic()
        cluster.start()
        ready = time.monotonic() - restarted
        pinger.wait_for_acks(restarted, 90)
        first = min(ack.at for acks in pinger.acks.values() for ack in acks if ack.at > restarted)
        complete = wait_in_sync(cluster, topic)
    check_ledger(cluster, pinger)
    return [
        Figure("kill of all: restart to all ready", "s", ready),
        Figure("kill of all: restart to first ack", "s", first - restarted),
        Figure("kill of all: all in sync", "s", complete),
    ]


def equal_replicas(cluster: TrialCluster, _: float = 0) -> list[Figure]:
    """Kill all nodes some time after the last record: the replicas' files are byte-equal."""
    topic = create_topic(cluster)
    with Pinger(cluster.bootstrap, topic, PARTITIONS) as pinger:
        pinger.wait_for_acks(time.monotonic(), 60)
        time.sleep(1)
    check_ledger(cluster, pinger)
    wait_in_sync(cluster, topic)
    time.sleep(1)
    state = observation.partitions(next(iter(live(cluster).values())), topic)
    cluster.kill_all()
    wrong = differing_replicas(cluster, topic, {n: each.replicas for n, each in state.items()})
    assert not wrong, wrong
    return [Figure("replicas that differ", "", len(wrong))]

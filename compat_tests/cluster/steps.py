"""The steps of the ladder: trials of three nodes, each with what must hold and what is measured.

A step takes a running cluster, asserts what must hold, and returns its figures. The same steps run
short in CI (`test_ladder.py`) and long for the published table (`python -m bench.cluster`).
"""

import itertools
import os
import random
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import attrs
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.cluster import observation
from compat_tests.cluster.clusters import (
    ProxiedCluster,
    TrialCluster,
    cpu_seconds,
    resident_mb,
)
from compat_tests.cluster.pair_proxy import Rule
from compat_tests.cluster.pinger import Pinger, differing_replicas, faults, read_all
from compat_tests.cluster.transactional_copy import TransactionalCopy

PARTITIONS = 3
_CUT_S = 60.0
"""How long a leader is cut off at most: several elections of the quorum, and a session."""
_topics = itertools.count(1)


@attrs.frozen
class Figure:
    """One measured value."""

    name: str
    unit: str
    value: float


Step = Callable[[TrialCluster, float], list[Figure]]


def percentile(ordered: list[float], share: float) -> float:
    """Return the value that this share of an ordered list does not exceed."""
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


def create_topic(
    cluster: TrialCluster, partitions: int = PARTITIONS, *, leader: int | None = None
) -> str:
    """Create a topic with three replicas; return when all are in sync on every node.

    Every partition begins with `leader`, when it is given.
    """
    topic = f"ladder-{os.getpid()}-{next(_topics)}"
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    settings = {"min.insync.replicas": "2"}
    if leader is None:
        new = NewTopic(topic, partitions, 3, config=settings)
    else:
        replicas = [leader, *(each for each in cluster.nodes if each != leader)]
        new = NewTopic(
            topic, partitions, replica_assignment=[replicas] * partitions, config=settings
        )

    def is_created() -> bool:
        try:
            admin.create_topics([new], operation_timeout=20)[topic].result(30)
        except KafkaException as error:
            return error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
        return True

    observation.seconds_until(is_created, 60, pause_s=0.2)
    for address in live(cluster).values():
        observation.seconds_until(lambda at=address: observation.in_sync(at, topic), 60)
    return topic


def live(cluster: TrialCluster) -> dict[int, str]:
    """Return the addresses of the nodes that run."""
    return {
        node_id: address
        for node_id, address in cluster.addresses.items()
        if cluster.nodes[node_id].is_running
    }


def active_controller(cluster: TrialCluster, timeout_s: float = 30) -> int:
    """Return the id of the quorum's leader."""
    found: list[int] = []

    def is_known() -> bool:
        for address in live(cluster).values():
            state = observation.try_quorum(address)
            if state is not None and state.leader >= 0:
                found.append(state.leader)
                return True
        return False

    observation.seconds_until(is_known, timeout_s)
    return found[-1]


def wait_in_sync(cluster: TrialCluster, topic: str, timeout_s: float = 90) -> float:
    """Return the seconds until every node sees all replicas in sync."""
    return observation.seconds_until(
        lambda: all(observation.in_sync(each, topic) for each in live(cluster).values()), timeout_s
    )


def check_ledger(cluster: TrialCluster, pinger: Pinger) -> None:
    """Assert that every acked record is where its ack said, once."""
    wrong = faults(cluster.bootstrap, pinger.topic, len(pinger.acks), pinger.ledger)
    assert not wrong, wrong[:10]
    assert not pinger.ledger.failed, list(pinger.ledger.failed.items())[:5]


def start(cluster: TrialCluster, _: float = 0) -> list[Figure]:
    """Step 1: start all nodes of a new cluster, until each lists all."""
    started = time.monotonic()
    for node in cluster.nodes.values():
        node.launch()
    observation.seconds_until(lambda: observation.all_registered(cluster.addresses), 120)
    registered = time.monotonic() - started
    create_topic(cluster)
    time.sleep(3)
    memory = [resident_mb(node.pid) for node in cluster.nodes.values()]
    return [
        Figure("start to all registered", "s", registered),
        Figure("memory of each node, idle", "MB", max(memory)),
    ]


def throughput(cluster: TrialCluster, seconds: float) -> list[Figure]:
    """Step 2: 100-byte records with acks=all to three partitions, as fast as a client can."""
    topic = create_topic(cluster)
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "acks": "all",
            "linger.ms": 5,
            "queue.buffering.max.messages": 200_000,
            "log_level": 0,
        }
    )
    failures: list[str] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failures.append(str(error))

    value, count = b"x" * 100, 0
    before = {node_id: cpu_seconds(node.pid) for node_id, node in cluster.nodes.items()}
    started = time.monotonic()
    while time.monotonic() - started < seconds:
        for _ in range(1000):
            while True:
                try:
                    producer.produce(
                        topic, value, partition=count % PARTITIONS, on_delivery=delivered
                    )
                    break
                except BufferError:
                    producer.poll(0.01)
            count += 1
        producer.poll(0)
    assert producer.flush(60) == 0
    elapsed = time.monotonic() - started
    used = sum(cpu_seconds(node.pid) - before[each] for each, node in cluster.nodes.items())
    assert not failures, failures[:3]
    assert observation.in_sync(next(iter(cluster.addresses.values())), topic)
    return [
        Figure("produce 100 B, 3 partitions", "k/s", count / elapsed / 1000),
        Figure("CPU of all nodes", "s per M", used / count * 1e6),
    ]


def ack_latency(cluster: TrialCluster, seconds: float) -> list[Figure]:
    """Step 2: one record in flight for one partition."""
    topic = create_topic(cluster, 1)
    with Pinger(cluster.bootstrap, topic, 1) as pinger:
        time.sleep(seconds)
    ordered = sorted(ack.latency_s for ack in pinger.acks[0][len(pinger.acks[0]) // 10 :])
    check_ledger(cluster, pinger)
    return [
        Figure("ack latency, one in flight, p50", "ms", percentile(ordered, 0.5) * 1000),
        Figure("ack latency, one in flight, p99", "ms", percentile(ordered, 0.99) * 1000),
    ]


def _disturb(
    cluster: TrialCluster,
    target: Callable[[str], int],
    disturb: Callable[[int], None],
    *,
    within_s: float,
    label: str,
) -> list[Figure]:
    """Ping all partitions, disturb one node, and measure the longest gap of its partitions."""
    topic = create_topic(cluster)
    with Pinger(cluster.bootstrap, topic, PARTITIONS, interval_s=0.005) as pinger:
        pinger.wait_for_acks(time.monotonic(), 30)
        time.sleep(0.5)
        node_id = target(topic)
        state = observation.partitions(cluster.addresses[node_id], topic)
        led = [number for number, each in state.items() if each.leader == node_id]
        at = time.monotonic()
        disturb(node_id)
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
    return _disturb(
        cluster,
        lambda topic: leader_other_than(cluster, topic, controller),
        lambda node_id: cluster.nodes[node_id].kill(),
        within_s=60,
        label="kill of a leader",
    )


def kill_controller(cluster: TrialCluster, _: float = 0) -> list[Figure]:
    """Step 4: kill -9 of the active controller, which leads partitions too."""
    return _disturb(
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
        pinger.wait_for_acks(time.monotonic(), 30)
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


def suspend_leader(cluster: TrialCluster, seconds: float) -> list[Figure]:
    """Step 6: SIGSTOP of a leader for some seconds: no ack of it afterwards is false."""
    controller = active_controller(cluster)

    def disturb(node_id: int) -> None:
        cluster.nodes[node_id].suspend()
        threading.Timer(seconds, cluster.nodes[node_id].resume).start()

    return _disturb(
        cluster,
        lambda topic: leader_other_than(cluster, topic, controller),
        disturb,
        within_s=90,
        label=f"SIGSTOP of a leader for {seconds:g} s",
    )


def suspend_controller(cluster: TrialCluster, seconds: float) -> list[Figure]:
    """Step 6: SIGSTOP of the active controller for some seconds."""

    def disturb(node_id: int) -> None:
        cluster.nodes[node_id].suspend()
        threading.Timer(seconds, cluster.nodes[node_id].resume).start()

    return _disturb(
        cluster,
        lambda _: active_controller(cluster),
        disturb,
        within_s=90,
        label=f"SIGSTOP of the active controller for {seconds:g} s",
    )


def cut_leader(
    cluster: ProxiedCluster, _: float = 0, *, is_controller: bool = True
) -> list[Figure]:
    """Step 7: a leader is cut off from the other nodes, and not from its clients (P2, P3).

    It must not ack. The others elect a leader when its session ends. The session of a leader that
    was also the active controller begins again with the next controller. After the cut it follows.
    """
    controller = active_controller(cluster)
    leader = controller if is_controller else min(set(cluster.nodes) - {controller})
    others = set(cluster.nodes) - {leader}
    witness = cluster.addresses[min(others)]
    topic = create_topic(cluster, 1, leader=leader)
    with Pinger(cluster.bootstrap, topic, 1, interval_s=0.005) as pinger:
        pinger.wait_for_acks(time.monotonic(), 30)
        before = observation.partitions(witness, topic)[0]
        assert before.leader == leader, before
        at = time.monotonic()
        cluster.proxy.cut({leader}, others)
        moved = observation.seconds_until(
            lambda: observation.partitions(witness, topic)[0].leader in others, _CUT_S
        )
        cluster.proxy.heal()
        pinger.wait_for_acks(time.monotonic(), 60)
        gap = pinger.longest_gap(0, at - 0.2)
        complete = wait_in_sync(cluster, topic)
        after = observation.partitions(witness, topic)[0]
    check_ledger(cluster, pinger)
    assert after.epoch > before.epoch, (before, after)
    return [
        Figure("leader cut off: next leader elected", "s", moved),
        Figure("leader cut off: longest gap in acks", "s", gap),
        Figure("leader cut off: in sync after the cut", "s", complete),
    ]


def slow_follower(cluster: ProxiedCluster, seconds: float = 40) -> list[Figure]:
    """Step 8: a follower behind 200 ms and 1 MB/s catches up under load."""
    topic = create_topic(cluster, 1)
    state = observation.partitions(cluster.addresses[1], topic)[0]
    slow = next(each for each in state.replicas if each != state.leader)
    with Pinger(cluster.bootstrap, topic, 1) as pinger:
        cluster.proxy.set_rule(slow, state.leader, Rule(delay_s=0.2, bytes_per_s=1e6))
        time.sleep(seconds)
        cluster.proxy.heal()
        rejoined = wait_in_sync(cluster, topic)
    check_ledger(cluster, pinger)
    return [Figure("slow follower: in sync again under load", "s", rejoined)]


def rolling_restart(cluster: TrialCluster, _: float = 0) -> list[Figure]:
    """Step 10: SIGTERM and start of each node in turn; clients see no error."""
    topic = create_topic(cluster)
    stops: list[float] = []
    catch_ups: list[float] = []
    with Pinger(cluster.bootstrap, topic, PARTITIONS, interval_s=0.005) as pinger:
        pinger.wait_for_acks(time.monotonic(), 30)
        since = time.monotonic()
        for node_id, node in cluster.nodes.items():
            started = time.monotonic()
            status = node.stop()
            stops.append(time.monotonic() - started)
            assert status in (0, 143), f"node {node_id} ended with {status}"
            started = time.monotonic()
            node.start()
            wait_in_sync(cluster, topic)
            catch_ups.append(time.monotonic() - started)
        pinger.wait_for_acks(time.monotonic(), 60)
        gaps = [pinger.longest_gap(number, since) for number in range(PARTITIONS)]
    check_ledger(cluster, pinger)
    latencies = pinger.latencies()
    return [
        Figure("rolling restart: client errors", "", len(pinger.ledger.failed)),
        Figure("rolling restart: longest ack latency", "s", latencies[-1]),
        Figure("rolling restart: longest gap in acks", "s", max(gaps)),
        Figure("rolling restart: stop of a node, longest", "s", max(stops)),
        Figure("rolling restart: start to in sync, longest", "s", max(catch_ups)),
    ]


def kill_coordinator(cluster: TrialCluster, _: float = 0) -> list[Figure]:
    """Step 13: kill -9 of nodes under transactional copies: each record is copied exactly once."""
    source, target = create_topic(cluster), create_topic(cluster)
    with Pinger(cluster.bootstrap, source, PARTITIONS, interval_s=0.01) as pinger:
        copier = TransactionalCopy(cluster.bootstrap, source, target)
        copier.start()
        pinger.wait_for_acks(time.monotonic(), 30)
        for node_id in sorted(cluster.nodes):
            time.sleep(1.5)
            cluster.nodes[node_id].kill()
            time.sleep(1.5)
            cluster.nodes[node_id].start()
            wait_in_sync(cluster, source)
    check_ledger(cluster, pinger)
    started = time.monotonic()
    copier.finish(len(pinger.ledger.acked), timeout_s=180)
    caught_up = time.monotonic() - started
    copied = [value for _, _, value in read_all(cluster.bootstrap, target, PARTITIONS)]
    missing = set(pinger.ledger.acked) - set(copied)
    assert not missing, sorted(missing)[:5]
    doubled = len(copied) - len(set(copied))
    assert not doubled, f"{doubled} records were copied twice"
    return [
        Figure("transactional copy: records lost or doubled", "", doubled + len(missing)),
        Figure("transactional copy: time to catch up", "s", caught_up),
        Figure("transactional copy: longest pause between commits", "s", copier.longest_pause_s),
        Figure("transactional copy: workers replaced after a stall", "", copier.stalls),
    ]


def equal_replicas(cluster: TrialCluster, _: float = 0) -> list[Figure]:
    """Stop all nodes cleanly: the replicas' files are byte-equal."""
    topic = create_topic(cluster)
    with Pinger(cluster.bootstrap, topic, PARTITIONS) as pinger:
        pinger.wait_for_acks(time.monotonic(), 30)
        time.sleep(1)
    check_ledger(cluster, pinger)
    wait_in_sync(cluster, topic)
    time.sleep(1)
    cluster.kill_all()
    directories = [cluster.directory(node_id) for node_id in cluster.nodes]
    wrong = differing_replicas(directories, topic, PARTITIONS)
    assert not wrong, wrong
    return [Figure("replicas that differ", "", len(wrong))]


def minority_is_refused(cluster: TrialCluster, _: float = 0) -> list[Figure]:
    """Table E: with two of three voters suspended, CreateTopics does not succeed."""
    topic = create_topic(cluster)
    suspended = [each for each in cluster.nodes if each != active_controller(cluster)]
    for node_id in suspended:
        cluster.nodes[node_id].suspend()
    try:
        name = f"{topic}-never"
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        future = admin.create_topics([NewTopic(name, 1, 1)], operation_timeout=4)[name]
        created = False
        try:
            future.result(8)
            created = True
        except (KafkaException, TimeoutError):
            pass
        assert not created, "a minority created a topic"
    finally:
        for node_id in suspended:
            cluster.nodes[node_id].resume()
    return [Figure("minority: topics created", "", 0)]


def commit_of_the_tree() -> str:
    """Return the commit under trial."""
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parent,
    )
    return done.stdout.strip() or "unknown"

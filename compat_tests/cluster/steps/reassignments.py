"""Step 11: partitions move to another broker under load, throttled; it is killed in the middle."""

import time
from collections.abc import Callable
from contextlib import suppress

from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.cluster import observation
from compat_tests.cluster.admin_calls import (
    BROKER_CONFIG,
    TOPIC_CONFIG,
    configure,
    reassign,
    reassigned,
)
from compat_tests.cluster.bulk_load import BulkProducer
from compat_tests.cluster.clusters import BarnabasCluster, TrialCluster, differing_replicas
from compat_tests.cluster.pinger import Pinger
from compat_tests.cluster.steps.trial import (
    Figure,
    check_ledger,
    percentile,
    unique_topic,
    wait_in_sync,
)

PARTITIONS = 30
CANCELLED = 5
TARGET = 4
_RECORD_BYTES = 1000
_PINGED = 3
_SMALL = 0.2
_SMALL_COUNT = 10
_BATCH_BYTES = 4_000
_FETCH_BYTES = 100_000
_MEASURED_S = 5.0
_MEASURED_MAX_S = 9.0
_ACCURACY = 0.1
"""A rate is kept to within a fetch from each leader. It counts what is sent, also the part of a
batch at the end of a fetch, which the follower drops: the batches are small beside the fetches.
With much smaller fetches, nodes on a busy machine do not reach the rate.
"""
_DONE_S = 180.0
_BURST = 3.0
"""The rate is a mean over windows, and there is a fetch for each of three leaders: the first second
after a start exceeds it.
"""
_GAP_S = 3.0


def four_nodes() -> BarnabasCluster:
    """Return a cluster with a fourth broker; fetches of followers are small beside the throttle."""
    return BarnabasCluster({"replica.fetch.response.max.bytes": str(_FETCH_BYTES)}, nodes=4)


def throttled_reassignment(cluster: TrialCluster, megabytes: float) -> list[Figure]:
    """Step 11: 30 partitions move from brokers 1 to 3 to broker 4 at a throttled rate, under load.

    Broker 4 is killed in the middle: what is not complete stays, and five are cancelled while it is
    away. It returns; the others complete, the cancelled ones have their former replicas, the
    replicas are equal, and nothing acked is lost.
    """
    address = cluster.addresses[1]
    topic, before = _create(cluster), _former_replicas()
    _fill(cluster, topic, megabytes)
    rate = megabytes * 1e6 / 12
    plan = {number: [TARGET, *replicas[1:]] for number, replicas in before.items()}
    with Pinger(cluster.bootstrap, topic, _PINGED, interval_s=0.005) as pinger:
        quiet = _latency_p99(pinger, 3)
        _throttle(cluster, topic, rate)
        began = time.monotonic()
        reassign(address, topic, plan)
        measured = _rate(lambda: _size(cluster, topic), rate)
        loaded = _latency_p99(pinger, 0.5)
        waited = pinger.longest_gaps(began)
        cluster.nodes[TARGET].kill()
        running = sorted(reassigned(address, topic))
        assert CANCELLED < len(running) < PARTITIONS, f"not in the middle: {running}"
        cancelled = running[-CANCELLED:]
        completed = set(plan) - set(cancelled)
        reassign(address, topic, dict.fromkeys(cancelled))
        assert reassigned(address, topic) == set(running) - set(cancelled)
        cluster.nodes[TARGET].launch()
        fastest = _fastest_second(cluster, topic, completed)
        cluster.nodes[TARGET].wait_ready()
        wait_in_sync(cluster, topic)
    check_ledger(cluster, pinger)
    wanted = before | {number: plan[number] for number in completed}
    _check_replicas(cluster, topic, wanted)
    accuracy = measured / rate
    assert abs(accuracy - 1) < _ACCURACY, f"throttled to {rate:.0f} B/s, measured {measured:.0f}"
    assert fastest < rate * _BURST, f"{fastest:.0f} B in a second after the restart"
    assert waited < _GAP_S, f"no ack for {waited:.1f} s"
    return [
        Figure("reassignment: throttle", "MB/s", rate / 1e6),
        Figure("reassignment: rate of the target to the throttle", "", accuracy),
        Figure("reassignment: fastest second after the restart", "MB/s", fastest / 1e6),
        Figure("reassignment: longest gap in acks", "s", waited),
        Figure("reassignment: p99 of acks to that before", "", loaded / quiet),
    ]


def _former_replicas() -> dict[int, list[int]]:
    """Return the replicas before: brokers 1 to 3, each first in a third of the partitions."""
    return {number: [(number + each) % 3 + 1 for each in range(3)] for number in range(PARTITIONS)}


def _create(cluster: TrialCluster) -> str:
    topic = unique_topic()
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    replicas = list(_former_replicas().values())
    new = NewTopic(
        topic, PARTITIONS, replica_assignment=replicas, config={"min.insync.replicas": "2"}
    )
    admin.create_topics([new])[topic].result(30)
    wait_in_sync(cluster, topic)
    return topic


def _fill(cluster: TrialCluster, topic: str, megabytes: float) -> None:
    """Write to each partition, and to most of them more: all move at the same speed."""
    for first, share in ((0, _SMALL), (_SMALL_COUNT, 1 - _SMALL)):
        producer = BulkProducer(
            cluster.bootstrap, topic, PARTITIONS, batch_bytes=_BATCH_BYTES, first=first
        )
        producer.send(int(megabytes * 1e6 * share / _RECORD_BYTES), bytes(_RECORD_BYTES))
        producer.flush()


def _throttle(cluster: TrialCluster, topic: str, rate: float) -> None:
    """Throttle the replicas of the topic that are not in sync, on leaders and followers."""
    address = cluster.addresses[1]
    sides = ("leader", "follower")
    configure(
        address,
        TOPIC_CONFIG,
        topic,
        {f"{side}.replication.throttled.replicas": "*" for side in sides},
    )
    for node_id in cluster.nodes:
        configure(
            cluster.addresses[node_id],
            BROKER_CONFIG,
            str(node_id),
            {f"{side}.replication.throttled.rate": str(int(rate)) for side in sides},
        )


def _latency_p99(pinger: Pinger, seconds: float) -> float:
    since = time.monotonic()
    time.sleep(seconds)
    return percentile(pinger.latencies(since), 0.99)


def _rate(size: Callable[[], int], rate: float) -> float:
    """Return the bytes per second since the first one, over `_MEASURED_S` or more.

    A node that got no time to run may send later what it did not send: a mean that is too low is
    measured again, for some seconds.
    """
    observation.seconds_until(lambda: size() > 0, _DONE_S)
    started = time.monotonic()
    time.sleep(_MEASURED_S)
    while True:
        elapsed = time.monotonic() - started
        found = size() / elapsed
        if found > rate * (1 - _ACCURACY) or elapsed > _MEASURED_MAX_S:
            return found
        time.sleep(0.2)


def _fastest_second(cluster: TrialCluster, topic: str, partitions: set[int]) -> float:
    """Wait until the partitions are reassigned; return the most bytes that it gets in 1 s."""
    address, deadline = cluster.addresses[1], time.monotonic() + _DONE_S
    sizes: list[tuple[float, int]] = []
    while reassigned(address, topic) & partitions:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{topic} is not reassigned within {_DONE_S} s")
        sizes.append((time.monotonic(), _size(cluster, topic)))
        time.sleep(0.05)
    return max(
        later - size for at, size in sizes for later_at, later in sizes if at <= later_at <= at + 1
    )


def _size(cluster: TrialCluster, topic: str) -> int:
    """Return the bytes of a topic's logs on the target."""
    size = 0
    for number in range(PARTITIONS):
        for file in cluster.replica(TARGET, topic, number).glob("*.log"):
            with suppress(FileNotFoundError):  # a target that was killed starts its log again
                size += file.stat().st_size
    return size


def _check_replicas(cluster: TrialCluster, topic: str, wanted: dict[int, list[int]]) -> None:
    """Assert that each partition has the wanted replicas, and that their files are equal."""
    state = observation.partitions(cluster.addresses[1], topic)
    found = {number: sorted(each.replicas) for number, each in state.items()}
    assert found == {number: sorted(each) for number, each in wanted.items()}, found
    time.sleep(1)
    cluster.kill_all()
    wrong = differing_replicas(cluster, topic, wanted)
    cluster.start()
    assert not wrong, wrong

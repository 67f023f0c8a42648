"""Steps 1 and 2: start, memory, throughput, and the latency of an ack."""

import time

from compat_tests.cluster import observation
from compat_tests.cluster.bulk_load import BulkProducer
from compat_tests.cluster.clusters import TrialCluster, cpu_seconds, resident_mb
from compat_tests.cluster.pinger import Pinger
from compat_tests.cluster.steps.trial import (
    PARTITIONS,
    Figure,
    check_ledger,
    create_topic,
    percentile,
)


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
    producer = BulkProducer(cluster.bootstrap, topic, PARTITIONS)
    before = {node_id: cpu_seconds(node.pid) for node_id, node in cluster.nodes.items()}
    started = time.monotonic()
    rate = producer.send_for(seconds)
    count = rate * (time.monotonic() - started)
    used = sum(cpu_seconds(node.pid) - before[each] for each, node in cluster.nodes.items())
    assert observation.in_sync(next(iter(cluster.addresses.values())), topic)
    return [
        Figure("produce 100 B, 3 partitions", "k/s", rate / 1000),
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

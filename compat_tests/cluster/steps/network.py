"""Steps 7 and 8: a leader that is cut off, and a follower behind a slow network."""

import time
from collections.abc import Mapping

from compat_tests.cluster import observation
from compat_tests.cluster.bulk_load import VALUE, BulkProducer, SteadyLoad
from compat_tests.cluster.clusters import ProxiedCluster
from compat_tests.cluster.pair_proxy import Rule
from compat_tests.cluster.pinger import Pinger
from compat_tests.cluster.steps.trial import (
    Figure,
    active_controller,
    check_ledger,
    create_topic,
    wait_in_sync,
)

_REJOINED_S = 60.0
_FAR_S = 0.15
_FAR_FETCH_BYTES = 32 << 20
_CUT_S = 60.0
"""How long a leader is cut off at most: several elections of the quorum, and a session."""


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
        pinger.wait_for_acks(time.monotonic(), 60)
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


def far_nodes(config: Mapping[str, str] | None = None) -> ProxiedCluster:
    """Return a cluster whose followers fetch enough at a time for `far_follower`."""
    sizes = ("replica.fetch.max.bytes", "replica.fetch.response.max.bytes")
    return ProxiedCluster({**dict.fromkeys(sizes, str(_FAR_FETCH_BYTES)), **(config or {})})


def far_follower(cluster: ProxiedCluster, seconds: float) -> list[Figure]:
    """Step 8, when the follower returns behind 150 ms, far more than the time between two batches.

    It never has all that the leader has, and joins only because the leader waits for it.
    """
    return slow_follower(cluster, seconds, returning=Rule(delay_s=_FAR_S))


def slow_follower(
    cluster: ProxiedCluster, seconds: float, *, returning: Rule | None = None
) -> list[Figure]:
    """Step 8: a follower behind 200 ms and 1 MB/s leaves the ISR, and returns under load.

    On a busy machine the link is slower, so that the follower cannot keep up with a fifth of the
    load. The load is half of what the cluster takes, before, while and after the follower is slow.
    It has acks=1: a producer with acks=all waits for the slow follower, which then never falls
    behind.
    """
    topic = create_topic(cluster, 1)
    state = observation.partitions(cluster.addresses[1], topic)[0]
    leader = cluster.addresses[state.leader]
    slow = next(each for each in state.replicas if each != state.leader)
    producer = BulkProducer(cluster.bootstrap, topic, 1, acks="1")
    capacity = producer.send_for(3)
    slow_bytes_per_s = min(1e6, capacity / 2 * len(VALUE) / 5)
    with (
        Pinger(cluster.bootstrap, topic, 1, interval_s=0.005) as pinger,
        SteadyLoad(producer, capacity / 2),
    ):
        cluster.proxy.set_rule(slow, state.leader, Rule(delay_s=0.2, bytes_per_s=slow_bytes_per_s))
        left = observation.seconds_until(
            lambda: slow not in observation.partitions(leader, topic)[0].isr, seconds
        )
        pinger.wait_for_acks(time.monotonic(), 60)
        cluster.proxy.set_rule(slow, state.leader, returning or Rule())
        rejoined = wait_in_sync(cluster, topic, _REJOINED_S)
        cluster.proxy.heal()
        time.sleep(1)
    check_ledger(cluster, pinger)
    return [
        Figure("slow follower: load", "k/s", capacity / 2000),
        Figure("slow follower: out of the ISR", "s", left),
        Figure("slow follower: in sync again under load", "s", rejoined),
    ]

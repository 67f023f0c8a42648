"""Step 13: kill -9 of the nodes that coordinate groups and transactions."""

import itertools
import time
from collections import Counter
from contextlib import ExitStack

from confluent_kafka import Consumer, IsolationLevel, TopicPartition

from compat_tests import stable_ends
from compat_tests.client_security import librdkafka
from compat_tests.cluster import observation
from compat_tests.cluster.clusters import TrialCluster
from compat_tests.cluster.group_reader import GroupReader
from compat_tests.cluster.pinger import Pinger, read_all
from compat_tests.cluster.steps.trial import (
    PARTITIONS,
    Figure,
    check_ledger,
    create_topic,
    wait_in_sync,
)
from compat_tests.cluster.transactional_copy import TransactionalCopy

_PAUSE_S = 1.5
_CATCH_UP_S = 180.0
_CLOSED_S = 60.0


def kill_coordinators(cluster: TrialCluster, clients: float) -> list[Figure]:
    """Step 13: kill -9 of each node in turn under `clients` groups and transactional copies.

    Each copy has each record exactly once, each group reads every record, and no transaction stays
    open.
    """
    count = int(clients)
    source, target = create_topic(cluster), create_topic(cluster)
    copies = [TransactionalCopy(cluster.bootstrap, source, target) for _ in range(count)]
    with ExitStack() as stack:
        interval_s = 0.01 if count < 10 else 0.1
        pinger = stack.enter_context(
            Pinger(cluster.bootstrap, source, PARTITIONS, interval_s=interval_s)
        )
        groups = [
            stack.enter_context(GroupReader(cluster.bootstrap, source, protocol=each, members=1))
            for each, _ in zip(["classic", "consumer"] * count, range(count), strict=False)
        ]
        for copy in copies:
            copy.start()
        for group in groups:
            group.wait_until_assigned(_CATCH_UP_S)
        since = time.monotonic()
        _kill_each(cluster, source, copies)
        until = time.monotonic()
        pinger.stop()
        check_ledger(cluster, pinger)
        acked = set(pinger.ledger.acked)
        for group in groups:
            group.wait_for(acked, _CATCH_UP_S)
        pauses = [group.longest_pause(since, until) for group in groups]
    started = time.monotonic()
    for copy in copies:
        copy.finish(len(acked), timeout_s=_CATCH_UP_S)
    caught_up = time.monotonic() - started
    _check_copies(cluster, target, copies, acked)
    _check_offsets(cluster, source, [each.name for each in (*groups, *copies)])
    return [
        Figure("coordinators killed: groups and copies", "", count),
        Figure("coordinators killed: records lost or doubled by a copy", "", 0),
        Figure("coordinators killed: hanging transactions", "", 0),
        Figure("coordinators killed: longest pause of a group's commits", "s", max(pauses)),
        Figure(
            "coordinators killed: longest pause of a copy's commits",
            "s",
            max(copy.pause_s for copy in copies),
        ),
        Figure("coordinators killed: copies caught up after", "s", caught_up),
        Figure(
            "coordinators killed: workers replaced after a stall",
            "",
            sum(each.stalls for each in (*copies, *groups)),
        ),
    ]


def _kill_each(cluster: TrialCluster, topic: str, copies: list[TransactionalCopy]) -> None:
    """Kill and restart each node; after each, replace the worker of a copy by another one."""
    for node_id, copy in zip(sorted(cluster.nodes), itertools.cycle(copies), strict=False):
        time.sleep(_PAUSE_S)
        cluster.nodes[node_id].kill()
        time.sleep(_PAUSE_S)
        cluster.nodes[node_id].start()
        wait_in_sync(cluster, topic)
        copy.start()


def _check_copies(
    cluster: TrialCluster, target: str, copies: list[TransactionalCopy], acked: set[str]
) -> None:
    """Assert that each copy wrote each acked record once, and that no transaction stays open.

    The coordinator answers a commit before its markers are in the partitions.
    """

    def hanging() -> list[str]:
        return stable_ends.hanging_partitions(cluster.bootstrap, target, PARTITIONS)

    try:
        observation.seconds_until(lambda: not hanging(), _CLOSED_S)
    except TimeoutError:
        raise AssertionError(f"transactions are open in {hanging()}") from None
    found = Counter(value for _, _, value in read_all(cluster.bootstrap, target, PARTITIONS))
    wanted = {copy.copy_of(value) for copy in copies for value in acked}
    missing = wanted - found.keys()
    assert not missing, f"{len(missing)} records are not copied, as {sorted(missing)[:3]}"
    doubled = [value for value, times in found.items() if times > 1]
    assert not doubled, f"{len(doubled)} records are copied twice, as {sorted(doubled)[:3]}"


def _check_offsets(cluster: TrialCluster, topic: str, groups: list[str]) -> None:
    """Assert that each group has committed the end of each partition."""
    level = IsolationLevel.READ_UNCOMMITTED
    ends = stable_ends.ends(cluster.bootstrap, topic, PARTITIONS, level)
    wanted = {number: end for number, end in ends.items() if end}
    for group in groups:
        consumer = Consumer({**librdkafka(cluster.bootstrap), "group.id": group, "log_level": 0})
        try:
            places = [TopicPartition(topic, number) for number in wanted]
            found = {each.partition: each.offset for each in consumer.committed(places, 60)}
        finally:
            consumer.close()
        assert found == wanted, f"{group} has committed {found} of {wanted}"

"""Step 9: a full or broken log directory, a broken directory of the quorum, slow syncs."""

import time
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from compat_tests import wire
from compat_tests.cluster import observation
from compat_tests.cluster.faulty_disks import EIO, FaultyCluster, slow
from compat_tests.cluster.pinger import Pinger
from compat_tests.cluster.steps.trial import (
    Figure,
    active_controller,
    check_ledger,
    create_topic,
    percentile,
    wait_in_sync,
)

_PARTITIONS = 12
_TOPICS_MAX = 5
_MOVED_S = 60.0


def fail_log_directory(cluster: FaultyCluster, fault: str) -> list[Figure]:
    """Step 9: one of two log directories of a leader fails, full (ENOSPC) or broken (EIO).

    Its partitions get other leaders, the partitions of the other directory keep theirs, and the
    node continues. A restart with a sound disk brings all replicas back in sync.
    """
    topic, node_id = _topic_in_both(cluster)
    witness = cluster.addresses[next(each for each in cluster.nodes if each != node_id)]
    broken, sound = cluster.log_directories(node_id)
    lost, kept = (cluster.partitions_in(each, topic) for each in (broken, sound))
    with Pinger(cluster.bootstrap, topic, _PARTITIONS, interval_s=0.005) as pinger:
        pinger.wait_for_acks(time.monotonic(), 60)
        before = observation.partitions(witness, topic)
        at = time.monotonic()
        cluster.set_fault(node_id, broken, fault)
        moved = observation.seconds_until(
            lambda: all(
                node_id not in observation.partitions(witness, topic)[each].isr for each in lost
            ),
            _MOVED_S,
        )
        pinger.wait_for_acks(time.monotonic(), 60)
        gap = pinger.longest_gaps(at - 0.2)
        after = observation.partitions(witness, topic)
        assert cluster.nodes[node_id].is_running, cluster.log_of(node_id)
        assert all(after[each] == before[each] for each in kept), (before, after)
        assert all(after[each].leader not in (-1, node_id) for each in lost), after
        _check_description(cluster.addresses[node_id], broken, sound)
        cluster.heal(node_id)
        assert cluster.nodes[node_id].stop() == 0
        cluster.nodes[node_id].start()
        complete = wait_in_sync(cluster, topic)
    check_ledger(cluster, pinger)
    return [
        Figure(f"log directory fails ({fault}): longest gap in acks", "s", gap),
        Figure(f"log directory fails ({fault}): replicas moved out of the ISR", "s", moved),
        Figure(f"log directory fails ({fault}): partitions moved", "", len(lost)),
        Figure(f"log directory fails ({fault}): in sync after a restart", "s", complete),
    ]


def _topic_in_both(cluster: FaultyCluster) -> tuple[str, int]:
    """Create a topic; return it with a node that leads partitions in both of its directories.

    New logs go to the directory with the fewest, so the first topics may fill only one of them.
    """
    for _ in range(_TOPICS_MAX):
        topic = create_topic(cluster, _PARTITIONS)
        state = observation.partitions(next(iter(cluster.addresses.values())), topic)
        for node_id in cluster.nodes:
            led = {number for number, each in state.items() if each.leader == node_id}
            if all(
                led & cluster.partitions_in(each, topic)
                for each in cluster.log_directories(node_id)
            ):
                return topic, node_id
    raise AssertionError(f"no node leads partitions in both directories of {_TOPICS_MAX} topics")


def _check_description(address: str, broken: Path, sound: Path) -> None:
    """Assert that DescribeLogDirs states the failed directory, and only that one."""
    answer = wire.call(address, DescribeLogDirsRequest(topics=None), 4)
    stated = {each.log_dir: each.error_code for each in answer.results}
    assert stated[str(sound)] == 0, stated
    assert stated.get(str(broken)) == ErrorCode.KAFKA_STORAGE_ERROR, stated


def fail_metadata_directory(cluster: FaultyCluster, _: float = 0) -> list[Figure]:
    """Step 9: the quorum's directory of the active controller fails (EIO).

    The node ends with exit code 1 and a line that names the cause, and the others continue.
    """
    topic = create_topic(cluster)
    node_id = active_controller(cluster)
    with Pinger(cluster.bootstrap, topic, 3, interval_s=0.005) as pinger:
        pinger.wait_for_acks(time.monotonic(), 60)
        at = time.monotonic()
        cluster.set_fault(node_id, cluster.directory(node_id), EIO)
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        ended = observation.seconds_until(lambda: not cluster.nodes[node_id].is_running, 60)
        pinger.wait_for_acks(time.monotonic(), 60)
        gap = pinger.longest_gaps(at - 0.2)
        next_controller = active_controller(cluster)
        _create(admin, f"{topic}-after", 60)
        status = cluster.nodes[node_id].stop()
        last = cluster.log_of(node_id, 5)
        assert status == 1, (status, last)
        assert f"barnabas: the quorum's log in {cluster.directory(node_id)}" in last, last
        assert next_controller != node_id
        cluster.heal(node_id)
        cluster.nodes[node_id].start()
        complete = wait_in_sync(cluster, topic)
    check_ledger(cluster, pinger)
    return [
        Figure("metadata directory fails: longest gap in acks", "s", gap),
        Figure("metadata directory fails: end of the node", "s", ended),
        Figure("metadata directory fails: in sync after a restart", "s", complete),
    ]


def _create(admin: AdminClient, topic: str, timeout_s: float) -> float:
    """Create a topic; return the seconds that it took."""
    started = time.monotonic()
    new = NewTopic(topic, 1, 2)
    try:
        admin.create_topics([new], operation_timeout=timeout_s)[topic].result(timeout_s)
    except KafkaException as error:
        raise AssertionError(f"{topic} was not created: {error}") from error
    return time.monotonic() - started


def slow_syncs(cluster: FaultyCluster, seconds: float) -> list[Figure]:
    """Step 9: every sync of one voter takes `seconds`, on the disk of its quorum and of its logs.

    A slow follower of the quorum does not delay CreateTopics, nor acks; no replica leaves the ISR.
    """
    topic = create_topic(cluster)
    controller = active_controller(cluster)
    slow_node = next(each for each in cluster.nodes if each != controller)
    admin = AdminClient({"bootstrap.servers": cluster.addresses[controller], "log_level": 0})
    _create(admin, f"{topic}-warm", 60)
    with Pinger(cluster.bootstrap, topic, 3, interval_s=0.005) as pinger:
        pinger.wait_for_acks(time.monotonic(), 60)
        since = time.monotonic()
        cluster.set_fault(slow_node, cluster.data, slow(seconds))
        created = [_create(admin, f"{topic}-{number}", 60) for number in range(3)]
        time.sleep(1)
        state = observation.partitions(cluster.addresses[controller], topic)
        cluster.heal(slow_node)
        latencies = pinger.latencies(since)
    check_ledger(cluster, pinger)
    assert all(len(each.isr) == 3 for each in state.values()), state
    # It would delay each of them.
    assert min(created) < seconds, f"CreateTopics waited for the slow voter: {created} s"
    return [
        Figure(f"syncs of {seconds:g} s on a voter: CreateTopics, longest", "s", max(created)),
        Figure(
            f"syncs of {seconds:g} s on a voter: ack latency, p99",
            "ms",
            percentile(latencies, 0.99) * 1000,
        ),
    ]

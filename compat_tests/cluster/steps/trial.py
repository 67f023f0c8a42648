"""Shared by all steps: figures, topics, and the checks of a cluster under trial."""

import itertools
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import attrs
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.client_security import librdkafka
from compat_tests.cluster import observation
from compat_tests.cluster.clusters import TrialCluster
from compat_tests.cluster.pinger import Load, faults

PARTITIONS = 3
_topics = itertools.count(1)

Step = Callable[[TrialCluster, float], "list[Figure]"]
"""A step takes a running cluster, asserts what must hold, and returns its figures."""


@attrs.frozen
class Figure:
    """One measured value."""

    name: str
    unit: str
    value: float


def percentile(ordered: list[float], share: float) -> float:
    """Return the value that this share of an ordered list does not exceed."""
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


def unique_topic() -> str:
    """Return a name for a topic that no other step uses."""
    return f"{topic_prefix()}{next(_topics)}"


def topic_prefix() -> str:
    """Return the beginning of the names of this process's topics."""
    return f"ladder-{os.getpid()}-"


def delete_topics(cluster: TrialCluster) -> None:
    """Delete the topics of this process: the cluster keeps its size."""
    admin = AdminClient({**librdkafka(cluster.bootstrap), "log_level": 0})
    prefix = topic_prefix()
    topics = [each for each in admin.list_topics(timeout=60).topics if each.startswith(prefix)]
    if topics:
        for future in admin.delete_topics(topics, operation_timeout=30).values():
            future.result(60)


def create_topic(
    cluster: TrialCluster, partitions: int = PARTITIONS, *, leader: int | None = None
) -> str:
    """Create a topic with three replicas; return when all are in sync on every node.

    Every partition begins with `leader`, when it is given.
    """
    topic = unique_topic()
    admin = AdminClient({**librdkafka(cluster.bootstrap), "log_level": 0})
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


def check_ledger(cluster: TrialCluster, load: Load) -> None:
    """Assert that every acked record is where its ack said, once, and that no record failed."""
    wrong = faults(cluster.bootstrap, load.topic, len(load.acks), load.ledger)
    assert not wrong, wrong[:10]
    assert not load.ledger.failed, list(load.ledger.failed.items())[:5]


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

"""Step 6: SIGSTOP of a leader, of the active controller, and of a majority."""

import threading

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.client_security import librdkafka
from compat_tests.cluster.clusters import TrialCluster
from compat_tests.cluster.steps.kills import disturb, leader_other_than
from compat_tests.cluster.steps.trial import Figure, active_controller, create_topic


def suspend_leader(cluster: TrialCluster, seconds: float) -> list[Figure]:
    """Step 6: SIGSTOP of a leader for some seconds: no ack of it afterwards is false."""
    controller = active_controller(cluster)

    def suspend(node_id: int) -> None:
        cluster.nodes[node_id].suspend()
        threading.Timer(seconds, cluster.nodes[node_id].resume).start()

    return disturb(
        cluster,
        lambda topic: leader_other_than(cluster, topic, controller),
        suspend,
        within_s=90,
        label=f"SIGSTOP of a leader for {seconds:g} s",
    )


def suspend_controller(cluster: TrialCluster, seconds: float) -> list[Figure]:
    """Step 6: SIGSTOP of the active controller for some seconds."""

    def suspend(node_id: int) -> None:
        cluster.nodes[node_id].suspend()
        threading.Timer(seconds, cluster.nodes[node_id].resume).start()

    return disturb(
        cluster,
        lambda _: active_controller(cluster),
        suspend,
        within_s=90,
        label=f"SIGSTOP of the active controller for {seconds:g} s",
    )


def minority_is_refused(cluster: TrialCluster, _: float = 0) -> list[Figure]:
    """Table E: with two of three voters suspended, CreateTopics does not succeed."""
    topic = create_topic(cluster)
    suspended = [each for each in cluster.nodes if each != active_controller(cluster)]
    for node_id in suspended:
        cluster.nodes[node_id].suspend()
    try:
        name = f"{topic}-never"
        admin = AdminClient({**librdkafka(cluster.bootstrap), "log_level": 0})
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

"""Topics with a replica on each of three nodes: leaders, in-sync replicas, a leader's restart."""

from typing import Final

from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.testing.eventually import wait_until
from barnabas.testing.process import ClusterProcess

PARTITIONS: Final = 3
_IN_SYNC_S: Final = 60


def partitions(admin: AdminClient, topic: str) -> dict[int, tuple[int, list[int]]]:
    """Return leader and in-sync replicas of each partition."""
    found = admin.list_topics(topic, timeout=30).topics[topic].partitions
    return {number: (each.leader, sorted(each.isrs)) for number, each in found.items()}


def create_replicated(admin: AdminClient, topic: str) -> None:
    """Create a topic of PARTITIONS partitions."""
    admin.create_topics([NewTopic(topic, PARTITIONS, 3)])[topic].result(60)


def wait_until_in_sync(admin: AdminClient, topic: str) -> None:
    """Return when all replicas of a topic are in sync."""
    complete = [[1, 2, 3]] * PARTITIONS
    wait_until(
        lambda: [isr for _, isr in partitions(admin, topic).values()] == complete, _IN_SYNC_S
    )


def restart_leader(cluster: ClusterProcess, admin: AdminClient, topic: str) -> None:
    """Kill the leader of partition 0 and start it again; return when it is in sync."""
    leader = partitions(admin, topic)[0][0]
    cluster.nodes[leader].kill()
    cluster.nodes[leader].start()
    wait_until_in_sync(admin, topic)

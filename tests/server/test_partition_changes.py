"""The controller's decisions on partitions, with real brokers: ELR, reassignment, unregistering."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.cluster.metadata.image import PartitionImage
from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
)
from barnabas.protocol.messages.unregister_broker import UnregisterBrokerRequest
from barnabas.testing import Cluster
from barnabas.testing.eventually import wait_until
from tests.config.effects.wire import Wire

CONTROLLER = 1
WITHIN_S = 60


class World:
    """A controller, which is also broker 1, and the brokers 2, 3 and 4 with the topic `t`."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})

    def create(self, replicas: list[int]) -> None:
        admin = AdminClient({"bootstrap.servers": self.cluster.bootstrap})
        new = NewTopic(
            "t",
            num_partitions=1,
            replica_assignment=[replicas],
            config={"min.insync.replicas": "2"},
        )
        admin.create_topics([new])["t"].result(WITHIN_S)

    def partition(self) -> PartitionImage:
        server = self.cluster.nodes[CONTROLLER].server
        assert server is not None
        return server.image.topics_by_name["t"].partitions[0]

    def wait_for(self, condition: Callable[[PartitionImage], bool]) -> PartitionImage:
        wait_until(lambda: condition(self.partition()), timeout_s=WITHIN_S)
        return self.partition()

    def ask(self, node_id: int, request: Any) -> Any:
        """Send a request of version 0 to a node, which forwards it to the controller."""
        address = self.cluster.bootstrap.split(",")[node_id - 1]
        return Wire(int(address.rpartition(":")[2])).ask(request, 0)

    def produce(self) -> None:
        self.producer.produce("t", b"value")
        assert self.producer.flush(WITHIN_S) == 0


@pytest.fixture
def world() -> Iterator[World]:
    with Cluster(nodes=4, voters=1) as cluster:
        yield World(cluster)


def test_eligible_replica_leads_again_and_one_that_was_killed_does_not(world: World) -> None:
    world.create([2, 3, 4])
    world.produce()
    world.cluster.kill(4)
    assert world.wait_for(lambda partition: 4 not in partition.isr).elr == ()
    world.produce()
    world.cluster.kill(3)
    assert world.wait_for(lambda partition: 3 not in partition.isr).elr == (3,)
    world.cluster.stop(2)
    offline = world.wait_for(lambda partition: partition.leader == -1)
    assert (offline.isr, offline.elr, offline.last_known_elr) == ((), (2, 3), (2,))
    world.cluster.restart(3)
    killed = world.wait_for(lambda partition: 3 not in partition.elr)
    assert (killed.leader, killed.elr) == (-1, (2,))
    world.cluster.restart(2)
    elected = world.wait_for(lambda partition: partition.leader == 2)
    assert elected.leader_recovery_state == 0
    world.wait_for(lambda partition: {*partition.isr} == {2, 3})
    world.produce()


def test_reassignment_completes_when_the_new_replica_is_in_sync(world: World) -> None:
    world.create([2, 3])
    world.produce()
    before = world.partition()
    kind = AlterPartitionReassignmentsRequest
    asked = kind.ReassignablePartition(partition_index=0, replicas=[3, 4])
    request = kind(topics=[kind.ReassignableTopic(name="t", partitions=[asked])])
    response = world.ask(3, request)
    assert response.responses[0].partitions[0].error_code == 0
    after = world.wait_for(lambda partition: partition.replicas == (3, 4))
    assert (after.adding_replicas, after.removing_replicas) == ((), ())
    assert (after.leader, {*after.isr}) == (3, {3, 4})
    assert after.leader_epoch > before.leader_epoch
    world.produce()


def test_broker_that_is_gone_can_be_unregistered_through_another(world: World) -> None:
    world.create([2, 3, 4])
    world.cluster.stop(4)
    response = world.ask(2, UnregisterBrokerRequest(broker_id=4))
    assert response.error_code == 0
    server = world.cluster.nodes[CONTROLLER].server
    assert server is not None
    wait_until(lambda: 4 not in server.image.brokers, timeout_s=WITHIN_S)
    assert 4 not in world.partition().isr
    world.produce()
    world.cluster.restart(4)
    world.wait_for(lambda partition: 4 in partition.isr)

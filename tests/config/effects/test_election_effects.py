"""Properties of the controller's elections, observed in the records of its periodic tasks."""

from typing import Any

from barnabas.cluster.controller.controller_tasks import MAX_CHANGES_PER_RUN, ControllerTasks
from barnabas.cluster.metadata.image import RESOURCE_TOPIC
from barnabas.protocol.messages_base import Message
from barnabas.protocol.records.metadata_records import (
    ConfigRecord,
    FenceBrokerRecord,
    PartitionChangeRecord,
)
from tests.cluster.states import Cluster
from tests.config.effects.observed import observes


class Tasks:
    """The periodic tasks of a controller with two brokers and the topic `t`, led by broker 2."""

    def __init__(self, partitions: int = 1, **config: str) -> None:
        never = {"metadata_max_idle_interval_ms": "0", "broker_session_timeout_ms": "2000000000"}
        self.cluster = Cluster(brokers=2, **never, **config)
        topic_id = self.cluster.create("t", partitions, replicas=2).topic_id
        self.topic_id, self.partitions = topic_id, range(partitions)
        self.change(replicas=[1, 2], leader=2)
        self.tasks = ControllerTasks(self.cluster.controller)
        self.tasks.start(0)

    def change(self, **fields: Any) -> None:
        """Change all partitions."""
        self.cluster.replay(
            [
                PartitionChangeRecord(topic_id=self.topic_id, partition_id=number, **fields)
                for number in self.partitions
            ]
        )

    def go_offline(self) -> None:
        """Leave the ISR to the fenced broker 2 alone."""
        self.change(isr=[2], leader=-1)
        self.cluster.replay([FenceBrokerRecord(id=2)])

    def records_until(self, now_ms: int) -> list[Message]:
        """Run the tasks up to a time and return their records."""
        found: list[Message] = []
        while (due_ms := self.tasks.wakeup_ms()) is not None and due_ms <= now_ms:
            result = self.tasks.run_due(due_ms)
            found += result.records
            self.cluster.take(result)
        return found

    def leaders(self) -> set[int]:
        partitions = self.cluster.image.topics_by_name["t"].partitions
        return {partition.leader for partition in partitions.values()}


@observes("auto.leader.rebalance.enable")
def test_preferred_replicas_lead_again_only_with_rebalancing() -> None:
    for value, leader in (("true", 1), ("false", 2)):
        tasks = Tasks(auto_leader_rebalance_enable=value)
        tasks.records_until(300_000)
        assert tasks.leaders() == {leader}


@observes("leader.imbalance.check.interval.seconds")
def test_preferred_replicas_lead_again_at_the_interval() -> None:
    tasks = Tasks(leader_imbalance_check_interval_seconds="7")
    assert tasks.records_until(6999) == []
    tasks.records_until(7000)
    assert tasks.leaders() == {1}


def test_preferred_replica_that_is_not_in_sync_does_not_lead() -> None:
    tasks = Tasks()
    tasks.change(isr=[2])
    assert tasks.records_until(900_000) == []


def test_balancing_changes_a_thousand_partitions_at_a_time() -> None:
    tasks = Tasks(partitions=MAX_CHANGES_PER_RUN + 5)
    first = tasks.tasks.run_due(300_000).records
    assert len(first) == MAX_CHANGES_PER_RUN
    tasks.cluster.replay(first)
    assert tasks.tasks.wakeup_ms() == 300_000
    assert len(tasks.records_until(300_000)) == 5
    assert tasks.leaders() == {1}


@observes("unclean.leader.election.interval.ms")
def test_unclean_elections_are_held_at_the_interval() -> None:
    tasks = Tasks(unclean_leader_election_interval_ms="5000", unclean_leader_election_enable="true")
    tasks.go_offline()
    assert tasks.records_until(4999) == []
    tasks.records_until(5000)
    partition = tasks.cluster.image.topics_by_name["t"].partitions[0]
    assert (partition.leader, partition.isr, partition.leader_recovery_state) == (1, (1,), 1)


def test_unclean_elections_are_held_only_where_the_topic_allows_them() -> None:
    tasks = Tasks()
    tasks.go_offline()
    assert tasks.records_until(900_000) == []


def test_unclean_election_is_held_as_soon_as_the_topic_allows_it() -> None:
    tasks = Tasks()
    tasks.go_offline()
    allowed = ConfigRecord(
        resource_type=RESOURCE_TOPIC,
        resource_name="t",
        name="unclean.leader.election.enable",
        value="true",
    )
    tasks.cluster.replay([allowed])
    tasks.tasks.observe([allowed], 10)
    assert tasks.tasks.wakeup_ms() == 10
    tasks.records_until(10)
    assert tasks.leaders() == {1}

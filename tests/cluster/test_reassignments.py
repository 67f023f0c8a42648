"""Reassignments of partitions: their state in progress, and their completion."""

from barnabas.cluster.metadata.image import PartitionImage
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
)
from barnabas.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)
from barnabas.protocol.records.metadata_records import (
    FenceBrokerRecord,
    PartitionChangeRecord,
    RemoveTopicRecord,
)
from tests.cluster.states import Cluster, uuid


class Case:
    """Four brokers, and a topic `t` whose partition 0 has the replicas 1, 2, 3."""

    def __init__(self, **configs: str) -> None:
        self.cluster = Cluster(brokers=4)
        self.topic_id = self.cluster.create("t", replicas=3, **configs).topic_id
        self.change(replicas=[1, 2, 3], isr=[1, 2, 3], leader=1)

    def change(self, **changes: object) -> None:
        record = PartitionChangeRecord(topic_id=self.topic_id, partition_id=0)
        for name, value in changes.items():
            setattr(record, name, value)
        self.cluster.replay([record])

    @property
    def partition(self) -> PartitionImage:
        return self.cluster.image.topics_by_name["t"].partitions[0]

    def move(
        self, replicas: list[int] | None, *, name: str = "t", number: int = 0, **options: bool
    ) -> tuple[int, str | None]:
        """The code and message that a move gets; its records take effect."""
        request = AlterPartitionReassignmentsRequest(
            topics=[
                AlterPartitionReassignmentsRequest.ReassignableTopic(
                    name=name,
                    partitions=[
                        AlterPartitionReassignmentsRequest.ReassignablePartition(
                            partition_index=number, replicas=replicas
                        )
                    ],
                )
            ],
            **options,
        )
        answer = self.cluster.take(self.cluster.controller.alter_partition_reassignments(request))
        ((result,),) = (topic.partitions for topic in answer.responses)
        return result.error_code, result.error_message

    def state(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """The replicas, those that come and those that go."""
        partition = self.partition
        return partition.replicas, partition.adding_replicas, partition.removing_replicas


def test_reassignment_to_the_same_replicas_completes_at_once() -> None:
    case = Case()
    epoch = case.partition.partition_epoch
    assert case.move([1, 2, 3]) == (0, None)
    assert case.partition.partition_epoch == epoch
    assert case.move([3, 2, 1]) == (0, None)
    assert case.state() == ((3, 2, 1), (), ())
    assert (case.partition.leader, case.partition.leader_epoch) == (1, 1)


def test_reassignment_lists_added_and_removed_replicas_and_can_be_cancelled() -> None:
    case = Case()
    directories = case.partition.directories
    assert case.move([4, 3, 2]) == (0, None)
    assert case.state() == ((4, 3, 2, 1), (4,), (1,))
    assert case.partition.directory(4) == uuid(504)
    assert case.partition.isr == (1, 2, 3)
    assert case.move(None) == (0, None)
    assert case.state() == ((3, 2, 1), (), ())
    assert case.partition.directories == directories[::-1]
    assert case.move(None) == (ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, None)


def test_reassignment_that_only_removes_replicas_bumps_the_leader_epoch() -> None:
    case = Case()
    epoch = case.partition.leader_epoch
    assert case.move([2, 3]) == (0, None)
    assert case.state() == ((2, 3), (), ())
    partition = case.partition
    assert (partition.leader, partition.isr, partition.leader_epoch) == (2, (2, 3), epoch + 1)


def test_reassignment_removes_replicas_when_the_target_is_in_sync() -> None:
    case = Case()
    case.change(isr=[1, 2])
    assert case.move([2, 3]) == (0, None)
    assert case.state() == ((2, 3, 1), (), (1,))
    assert case.partition.leader == 1


def test_reassignment_that_replaces_another_waits_for_all_added_replicas() -> None:
    """Planted once: the replicas added by the former reassignment were not waited for."""
    case = Case()
    case.cluster.add_broker(5)
    case.move([4, 3, 2])
    assert case.move([4, 3, 2]) == (0, None)
    assert case.state() == ((4, 3, 2, 1), (4,), (1,))
    assert case.move([4, 5, 2]) == (0, None)
    assert case.state() == ((4, 5, 2, 1, 3), (4, 5), (1, 3))
    case.change(isr=[1, 2, 3, 5])
    assert case.move([4, 5, 2]) == (0, None)
    assert case.state() == ((4, 5, 2, 1, 3), (4, 5), (1, 3))


def test_reassignment_back_to_the_original_replicas_completes() -> None:
    case = Case()
    case.move([4, 3, 2])
    assert case.move([1, 2, 3]) == (0, None)
    assert case.state() == ((1, 2, 3), (), ())


def test_reassignment_changes_the_replication_factor() -> None:
    case = Case()
    assert case.move([1, 2, 3, 4]) == (0, None)
    assert case.state() == ((1, 2, 3, 4), (4,), ())
    case.change(isr=[1, 2, 3, 4])
    assert case.move([2]) == (0, None)
    assert (case.state(), case.partition.leader) == (((2,), (), ()), 2)


def test_list_reassignments_shows_only_those_in_progress() -> None:
    case = Case()
    case.cluster.create("u", replicas=1)

    def listed(*topics: str) -> list[tuple[str, list[int], list[int], list[int]]]:
        kind = ListPartitionReassignmentsRequest
        asked = kind.ListPartitionReassignmentsTopics
        request = kind(topics=[asked(name=name, partition_indexes=[0, 9]) for name in topics])
        if not topics:
            request.topics = None
        response = case.cluster.controller.list_partition_reassignments(request).response
        return [
            (topic.name, each.replicas, each.adding_replicas, each.removing_replicas)
            for topic in response.topics
            for each in topic.partitions
        ]

    assert listed() == []
    case.move([4, 3, 2])
    moving = [("t", [4, 3, 2, 1], [4], [1])]
    assert listed() == moving
    assert listed("t", "u", "no") == moving
    assert listed("u") == []
    case.move(None)
    assert listed() == []
    case.move([4, 3, 2])
    case.cluster.replay([RemoveTopicRecord(topic_id=case.topic_id)])
    assert listed() == []


def test_reassignment_cancel_may_elect_uncleanly_if_the_topic_allows_it() -> None:
    for allowed, code in (("false", ErrorCode.INVALID_REPLICA_ASSIGNMENT), ("true", 0)):
        case = Case(unclean_leader_election_enable=allowed)
        case.move([4])
        case.change(isr=[4], leader=4)
        case.cluster.replay([FenceBrokerRecord(id=4)])
        assert case.move(None)[0] == code
    assert (case.partition.leader, case.partition.isr) == (1, (1,))


def test_reassignment_invalid_request_is_refused_as_by_kafka() -> None:
    case = Case()
    includes = "The manual partition assignment includes"
    assert case.move([]) == (39, f"{includes} an empty replica list.")
    assert case.move([1, 9]) == (39, f"{includes} broker 9, but no such broker is registered.")
    assert case.move([1, 1]) == (39, f"{includes} the broker 1 more than once.")
    assert case.move([1], name="no") == (3, "Unable to find a topic named no.")
    assert case.move([1], number=7) == (3, "Unable to find partition t:7.")
    assert case.move([1, 2], allow_replication_factor_change=False) == (
        38,
        "The replication factor is changed from 3 to 2",
    )
    assert case.move([1, 2, 4], allow_replication_factor_change=False) == (0, None)
    # While it moves, those count that it will have.
    assert case.move([1, 2, 3, 4], allow_replication_factor_change=False)[0] == 38

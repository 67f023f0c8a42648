"""Elections on request: the elected replica, and the error when there is none."""

import pytest

from barnabas.cluster.controller.leader_elections import PREFERRED, UNCLEAN
from barnabas.cluster.metadata.feature_levels import ELIGIBLE_LEADER_REPLICAS_VERSION
from barnabas.cluster.metadata.image import DIRECTORY_LOST, PartitionImage
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest
from barnabas.protocol.records.metadata_records import (
    FeatureLevelRecord,
    FenceBrokerRecord,
    PartitionChangeRecord,
)
from barnabas.protocol.types import Uuid
from tests.cluster.states import Cluster, uuid


class Case:
    """A topic `t` whose partition 0 has the replicas 1, 2, 3, with some of the brokers fenced."""

    def __init__(
        self,
        leader: int,
        isr: list[int],
        fenced: tuple[int, ...] = (),
        elr: list[int] | None = None,
        last_known: list[int] | None = None,
        directories: list[Uuid] | None = None,
        min_isr: int = 1,
    ) -> None:
        self.cluster = Cluster(brokers=3)
        level = FeatureLevelRecord(name=ELIGIBLE_LEADER_REPLICAS_VERSION, feature_level=1)
        self.cluster.replay([level] if elr or last_known else [])
        created = self.cluster.create("t", replicas=3, min_insync_replicas=str(min_isr))
        self.topic_id = created.topic_id
        self.cluster.replay(
            [
                PartitionChangeRecord(
                    topic_id=self.topic_id,
                    partition_id=0,
                    replicas=[1, 2, 3],
                    leader=leader,
                    isr=isr,
                    eligible_leader_replicas=elr,
                    last_known_elr=last_known,
                    directories=directories,
                ),
                *(FenceBrokerRecord(id=broker) for broker in fenced),
            ]
        )

    @property
    def partition(self) -> PartitionImage:
        return self.cluster.image.topics_by_name["t"].partitions[0]

    def elect(self, kind: int) -> int:
        topic = ElectLeadersRequest.TopicPartitions(topic="t", partitions=[0])
        request = ElectLeadersRequest(election_type=kind, topic_partitions=[topic])
        answer = self.cluster.take(self.cluster.controller.elect_leaders(request))
        ((result,),) = (each.partition_result for each in answer.replica_election_results)
        return result.error_code


def test_preferred_election_starts_a_new_leader_epoch() -> None:
    case = Case(leader=2, isr=[1, 2, 3])
    epoch = case.partition.leader_epoch
    assert case.elect(PREFERRED) == 0
    assert (case.partition.leader, case.partition.leader_epoch) == (1, epoch + 1)
    assert case.partition.isr == (1, 2, 3)
    assert case.elect(PREFERRED) == ErrorCode.ELECTION_NOT_NEEDED


@pytest.mark.parametrize(("isr", "fenced"), [([2, 3], ()), ([1, 2, 3], (1,))])
def test_preferred_election_of_a_fenced_or_lagging_replica_is_refused(
    isr: list[int], fenced: tuple[int, ...]
) -> None:
    case = Case(leader=2, isr=isr, fenced=fenced)
    assert case.elect(PREFERRED) == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert case.partition.leader == 2


def test_preferred_election_of_a_replica_in_a_lost_directory_is_refused() -> None:
    gone = [DIRECTORY_LOST, uuid(502), uuid(503)]
    assert Case(2, [1, 2, 3], directories=gone).elect(PREFERRED) == 80
    elsewhere = [uuid(999), uuid(502), uuid(503)]
    assert Case(2, [1, 2, 3], directories=elsewhere).elect(PREFERRED) == 80


def test_preferred_election_without_a_leader_elects_any_in_sync_replica() -> None:
    case = Case(leader=-1, isr=[3], fenced=(1,))
    assert case.elect(PREFERRED) == 0
    assert case.partition.leader == 3


def test_unclean_election_prefers_an_in_sync_replica() -> None:
    case = Case(leader=-1, isr=[1], fenced=(1,))
    assert case.elect(UNCLEAN) == 0
    assert (case.partition.leader, case.partition.isr) == (2, (2,))
    assert case.partition.leader_recovery_state == 1
    clean = Case(leader=-1, isr=[3])
    assert clean.elect(UNCLEAN) == 0
    assert (clean.partition.leader, clean.partition.leader_recovery_state) == (3, 0)


def test_unclean_election_with_a_leader_or_without_replicas_is_refused() -> None:
    assert Case(leader=2, isr=[2]).elect(UNCLEAN) == ErrorCode.ELECTION_NOT_NEEDED
    dead = Case(leader=-1, isr=[1], fenced=(1, 2, 3))
    assert dead.elect(UNCLEAN) == ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    assert dead.elect(PREFERRED) == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE


def test_unclean_election_prefers_an_eligible_leader_replica() -> None:
    case = Case(leader=-1, isr=[], elr=[2, 3], min_isr=2)
    assert case.elect(UNCLEAN) == 0
    partition = case.partition
    assert (partition.leader, partition.isr, partition.elr) == (2, (2,), (3,))
    assert partition.leader_recovery_state == 0


def test_unclean_election_prefers_the_last_known_leader() -> None:
    case = Case(leader=-1, isr=[], last_known=[3])
    assert case.elect(PREFERRED) == 0
    partition = case.partition
    assert (partition.leader, partition.isr, partition.last_known_elr) == (3, (3,), ())
    assert partition.leader_recovery_state == 1


def test_election_without_partitions_reports_only_the_elected_ones() -> None:
    case = Case(leader=2, isr=[1, 2])
    case.cluster.create("u")
    request = ElectLeadersRequest(topic_partitions=None)
    answer = case.cluster.take(case.cluster.controller.elect_leaders(request))
    told = {
        each.topic: [(result.partition_id, result.error_code) for result in each.partition_result]
        for each in answer.replica_election_results
    }
    assert told == {"t": [(0, 0)], "u": []}
    assert case.partition.leader == 1


def test_election_of_an_unknown_type_is_refused_unless_it_names_no_partition() -> None:
    controller = Cluster().controller
    with pytest.raises(KafkaError, match="Unknown election type 5") as refusal:
        controller.elect_leaders(ElectLeadersRequest(election_type=5, topic_partitions=None))
    assert refusal.value.code is ErrorCode.INVALID_REQUEST
    nothing = ElectLeadersRequest(election_type=5, topic_partitions=[])
    assert controller.elect_leaders(nothing).response.replica_election_results == []

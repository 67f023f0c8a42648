"""Registration, fencing and controlled shutdown of brokers, and blocks of producer ids."""

import attrs
import pytest

from barnabas.cluster.controller.controller import MAX_CHANGES_PER_RUN
from barnabas.cluster.controller.sessions import SessionKey
from barnabas.cluster.metadata.feature_levels import (
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    METADATA_VERSION,
)
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from barnabas.protocol.messages.alter_partition import AlterPartitionRequest
from barnabas.protocol.messages.unregister_broker import UnregisterBrokerRequest
from barnabas.protocol.records.metadata_records import (
    FeatureLevelRecord,
    PartitionChangeRecord,
    UnregisterBrokerRecord,
)
from tests.cluster.states import Cluster, registration, uuid


def test_register_broker_new_broker_is_fenced_with_the_offset_as_its_epoch() -> None:
    cluster = Cluster(brokers=2)
    offset = cluster.controller.next_offset
    assert cluster.add_broker(9, fenced=True) == offset
    broker = cluster.image.brokers[9]
    assert (broker.epoch, broker.fenced, broker.directories) == (offset, True, (uuid(509),))


def test_register_broker_same_incarnation_keeps_its_epoch() -> None:
    cluster = Cluster()
    known = cluster.image.brokers[1]
    assert cluster.register(registration(1)) == known.epoch
    assert cluster.register(registration(1, incarnation=77)) > known.epoch
    assert cluster.image.brokers[1].fenced


def test_register_broker_same_incarnation_updates_its_registration() -> None:
    cluster = Cluster()
    known = cluster.image.brokers[1]
    amended = registration(1, uuid(7), uuid(8), rack="rack-0")
    assert cluster.register(amended) == known.epoch
    assert cluster.image.brokers[1] == attrs.evolve(known, directories=(uuid(7), uuid(8)))
    assert not cluster.image.brokers[1].fenced


def test_register_broker_of_another_cluster_is_refused() -> None:
    cluster = Cluster()
    cluster.controller.image = type(cluster.image)(cluster_id="other")
    with pytest.raises(KafkaError) as refusal:
        cluster.controller.register_broker(registration(1))
    assert refusal.value.code is ErrorCode.INCONSISTENT_CLUSTER_ID


def test_heartbeat_unfenced_broker_leads_its_leaderless_partitions() -> None:
    cluster = Cluster()
    topic_id = cluster.create("t", partitions=2).topic_id
    cluster.replay([PartitionChangeRecord(topic_id=topic_id, partition_id=1, leader=-1)])
    cluster.register(registration(1, incarnation=5))
    cluster.unfence(1)
    partitions = cluster.image.topics_by_name["t"].partitions
    assert [(partitions[n].leader, partitions[n].leader_epoch) for n in (0, 1)] == [(1, 2), (1, 2)]


def test_fence_broker_in_sync_replicas_take_over_its_partitions() -> None:
    cluster = Cluster(brokers=2)
    topic_id = cluster.create("t", partitions=3, replicas=2).topic_id
    alone = PartitionChangeRecord(topic_id=topic_id, partition_id=2, isr=[1], leader=1)
    cluster.replay([alone])
    cluster.take(cluster.controller.fence_broker(1))
    partitions = cluster.image.topics_by_name["t"].partitions
    assert [(partitions[n].leader, partitions[n].isr) for n in range(3)] == [
        (2, (2,)),
        (2, (2,)),
        (-1, (1,)),
    ]
    assert cluster.image.brokers[1].fenced


def test_heartbeat_eligible_leader_replica_takes_over_from_a_fenced_broker() -> None:
    cluster = Cluster(brokers=2)
    level = FeatureLevelRecord(name=ELIGIBLE_LEADER_REPLICAS_VERSION, feature_level=1)
    topic_id = cluster.create("t", replicas=2, min_insync_replicas="2").topic_id
    change = PartitionChangeRecord(
        topic_id=topic_id, partition_id=0, isr=[2], leader=2, eligible_leader_replicas=[1]
    )
    cluster.replay([level, change])
    cluster.register(registration(1, incarnation=5, previous_epoch=cluster.image.brokers[1].epoch))
    cluster.take(cluster.controller.fence_broker(2))
    cluster.unfence(1)
    partition = cluster.image.topics_by_name["t"].partitions[0]
    assert (partition.leader, partition.isr, partition.elr) == (1, (1,), (2,))
    # Planted once: a broker that lost its page cache stays eligible.
    cluster.register(registration(2, incarnation=6))
    partition = cluster.image.topics_by_name["t"].partitions[0]
    assert (partition.leader, partition.isr, partition.elr) == (1, (1,), ())


def test_heartbeat_of_an_earlier_epoch_is_refused() -> None:
    cluster = Cluster()
    stale = cluster.heartbeat(1)
    stale.broker_epoch = 12345
    with pytest.raises(KafkaError) as refusal:
        cluster.controller.broker_heartbeat(stale)
    assert refusal.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_allocate_producer_ids_blocks_never_overlap() -> None:
    cluster = Cluster()
    epoch = cluster.image.brokers[1].epoch
    request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch)
    blocks = [cluster.take(cluster.controller.allocate_producer_ids(request)) for _ in range(3)]
    assert [(block.producer_id_start, block.producer_id_len) for block in blocks] == [
        (0, 1000),
        (1000, 1000),
        (2000, 1000),
    ]
    with pytest.raises(KafkaError) as refusal:
        cluster.controller.allocate_producer_ids(
            AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch + 1)
        )
    assert refusal.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_heartbeat_before_the_broker_has_applied_its_registration_keeps_it_fenced() -> None:
    """Planted once: unfencing without catching up."""
    cluster = Cluster(brokers=1)
    epoch = cluster.add_broker(2, fenced=True)
    early = cluster.heartbeat(2)
    early.current_metadata_offset = epoch - 1
    response = cluster.take(cluster.controller.broker_heartbeat(early))
    assert (response.is_caught_up, response.is_fenced) == (False, True)
    assert cluster.image.brokers[2].fenced
    response = cluster.unfence(2)
    assert (response.is_caught_up, response.is_fenced) == (True, False)
    assert not cluster.image.brokers[2].fenced


def test_heartbeat_that_wants_fencing_takes_leaderships_and_in_sync_seats_away() -> None:
    cluster = Cluster(brokers=2)
    cluster.create("t", replicas=2)
    cluster.take(cluster.controller.broker_heartbeat(cluster.heartbeat(1, want_fence=True)))
    partition = cluster.image.topics_by_name["t"].partitions[0]
    assert (partition.leader, partition.isr) == (2, (2,))
    assert cluster.image.brokers[1].fenced


def test_new_incarnation_leaves_the_in_sync_sets_of_the_one_before() -> None:
    """Planted once: a broker that lost its page cache came back as in sync."""
    cluster = Cluster(brokers=2)
    cluster.create("t", replicas=2)
    cluster.register(registration(1, incarnation=77))
    partition = cluster.image.topics_by_name["t"].partitions[0]
    assert (partition.leader, partition.isr) == (2, (2,))
    cluster.unfence(1)
    assert cluster.image.topics_by_name["t"].partitions[0].isr == (2,)


def test_new_incarnation_of_the_only_in_sync_replica_leads_in_a_new_epoch() -> None:
    cluster = Cluster()
    cluster.create("t")
    before = cluster.image.topics_by_name["t"].partitions[0]
    cluster.register(registration(1, incarnation=77))
    waiting = cluster.image.topics_by_name["t"].partitions[0]
    assert (waiting.leader, waiting.isr) == (-1, (1,))
    cluster.unfence(1)
    after = cluster.image.topics_by_name["t"].partitions[0]
    assert (after.leader, after.leader_epoch) == (1, before.leader_epoch + 2)


def test_controlled_shutdown_offset_of_an_earlier_incarnation_does_not_count() -> None:
    """Planted once: heartbeats known by the broker's id alone."""
    cluster = Cluster(brokers=2)
    cluster.create("t", partitions=2, replicas=2)
    stop = cluster.heartbeat(1, want_shut_down=True)
    cluster.take(cluster.controller.broker_heartbeat(stop))
    cluster.register(registration(1, incarnation=77))
    cluster.unfence(1)
    # The new incarnation shuts down while broker 2 is behind what moved the leaderships.
    request = cluster.heartbeat(1, want_shut_down=True)
    elect = PartitionChangeRecord(
        topic_id=cluster.image.topics_by_name["t"].id, partition_id=0, isr=[1, 2], leader=1
    )
    cluster.replay([elect])
    response = cluster.take(cluster.controller.broker_heartbeat(request))
    assert not response.should_shut_down
    behind = cluster.heartbeat(2)
    behind.current_metadata_offset -= 1
    cluster.take(cluster.controller.broker_heartbeat(behind))
    again = cluster.heartbeat(1, want_shut_down=True)
    assert not cluster.take(cluster.controller.broker_heartbeat(again)).should_shut_down
    cluster.unfence(2)
    assert cluster.take(cluster.controller.broker_heartbeat(again)).should_shut_down


def test_controlled_shutdown_survives_a_change_of_the_active_controller() -> None:
    cluster = Cluster(brokers=2)
    cluster.create("t", partitions=2, replicas=2)
    request = cluster.heartbeat(1, want_shut_down=True)
    cluster.take(cluster.controller.broker_heartbeat(request))
    cluster.controller.activate(cluster.image, cluster.controller.next_offset, 0)
    assert not cluster.take(cluster.controller.broker_heartbeat(request)).should_shut_down
    cluster.unfence(2)
    assert cluster.take(cluster.controller.broker_heartbeat(request)).should_shut_down


def test_unregister_broker_removes_it_from_its_partitions_first() -> None:
    cluster = Cluster(brokers=2)
    topic_id = cluster.create("t", replicas=2).topic_id
    epoch = cluster.image.brokers[2].epoch
    result = cluster.controller.unregister_broker(UnregisterBrokerRequest(broker_id=2))
    assert result.records == [
        PartitionChangeRecord(topic_id=topic_id, partition_id=0, leader=1, isr=[1]),
        UnregisterBrokerRecord(broker_id=2, broker_epoch=epoch),
    ]
    cluster.take(result)
    assert cluster.image.brokers.keys() == {1}
    with pytest.raises(KafkaError, match="Broker ID 2 is not currently registered") as refusal:
        cluster.controller.unregister_broker(UnregisterBrokerRequest(broker_id=2))
    assert refusal.value.code is ErrorCode.BROKER_ID_NOT_REGISTERED


def test_unregistered_broker_that_registers_again_is_not_eligible() -> None:
    """Kafka leaves it in the ELR, though its disk may be empty."""
    cluster = Cluster(brokers=2)
    level = FeatureLevelRecord(name=ELIGIBLE_LEADER_REPLICAS_VERSION, feature_level=1)
    cluster.replay([level])
    cluster.create("t", replicas=2, min_insync_replicas="2")
    cluster.take(cluster.controller.unregister_broker(UnregisterBrokerRequest(broker_id=2)))
    assert cluster.image.topics_by_name["t"].partitions[0].elr == (2,)
    cluster.register(registration(2, incarnation=9))
    assert cluster.image.topics_by_name["t"].partitions[0].elr == ()


def test_heartbeat_cordoned_directories_are_recorded_once() -> None:
    cluster = Cluster()
    assert cluster.image.brokers[1].cordoned_directories == ()
    cordon = cluster.heartbeat(1, cordoned_log_dirs=[uuid(501)])
    cluster.take(cluster.controller.broker_heartbeat(cordon))
    assert cluster.image.brokers[1].cordoned_directories == (uuid(501),)
    assert cluster.controller.broker_heartbeat(cordon).records == []
    cluster.unfence(1)  # a broker that does not report them
    assert cluster.image.brokers[1].cordoned_directories == (uuid(501),)
    cluster.replay([FeatureLevelRecord(name=METADATA_VERSION, feature_level=29)])
    assert (
        cluster.controller.broker_heartbeat(cluster.heartbeat(1, cordoned_log_dirs=[])).records
        == []
    )


def test_heartbeat_failed_directory_of_a_stopping_broker_changes_each_partition_once() -> None:
    """Planted once: both changes decided on the same state, so that the second undid the first."""
    cluster = Cluster(brokers=0)
    cluster.register(registration(1, uuid(601), uuid(602)))
    cluster.unfence(1)
    cluster.add_broker(2)
    cluster.create("t", partitions=2, replicas=2)
    stop = cluster.heartbeat(1, offline_log_dirs=[uuid(601)], want_shut_down=True)
    records = cluster.controller.broker_heartbeat(stop).records
    changes = [each for each in records if isinstance(each, PartitionChangeRecord)]
    assert len(changes) == 2
    cluster.replay(records)
    assert cluster.image.brokers[1].directories == (uuid(602),)
    assert cluster.image.brokers[1].in_controlled_shutdown


def test_fence_broker_with_many_partitions_takes_several_runs_and_fences_it_last() -> None:
    cluster = Cluster(brokers=3)
    cluster.create("t", partitions=250, replicas=3)
    sizes: list[int] = []
    while not cluster.image.brokers[1].fenced:
        result = cluster.controller.fence_broker(1, 100)
        cluster.take(result)
        sizes.append(len(result.records))
        in_sync = {*cluster.image.partition_index.isr_members(1)}
        assert not (cluster.image.brokers[1].fenced and in_sync)
    assert sizes == [100, 100, 51]


def test_fence_broker_between_its_runs_no_election_chooses_it() -> None:
    cluster = Cluster(brokers=2)
    topic_id = cluster.create("t", partitions=3, replicas=2).topic_id
    cluster.replay(
        [
            PartitionChangeRecord(topic_id=topic_id, partition_id=n, replicas=[1, 2], leader=2)
            for n in range(3)
        ]
    )
    cluster.take(cluster.controller.fence_broker(1, 1))
    assert not cluster.image.brokers[1].fenced
    assert cluster.controller.balance_leaders(100).records == []
    cluster.take(cluster.controller.fence_broker(1))
    assert cluster.image.brokers[1].fenced
    assert not cluster.controller.fencing


def seats(cluster: Cluster, broker_id: int) -> int:
    return len([*cluster.image.partition_index.isr_members(broker_id)])


def crowded() -> Cluster:
    """A cluster in which broker 1 is in sync in more partitions than one run changes."""
    cluster = Cluster(brokers=2)
    cluster.create("t", partitions=MAX_CHANGES_PER_RUN + 250, replicas=2)
    return cluster


def test_register_broker_with_many_seats_leaves_them_in_runs_and_registers_last() -> None:
    cluster = crowded()
    former = cluster.image.brokers[1].epoch
    cluster.controller.sessions.remove(SessionKey(1, former))
    request = registration(1, incarnation=9)
    first = cluster.controller.register_broker(request)
    assert (len(first.records), first.is_complete) == (MAX_CHANGES_PER_RUN, False)
    cluster.take(first)
    assert (cluster.image.brokers[1].epoch, seats(cluster, 1)) == (former, 250)
    last = cluster.controller.register_broker(request)
    assert (len(last.records), last.is_complete) == (251, True)
    assert cluster.take(last).broker_epoch == cluster.image.brokers[1].epoch > former
    assert seats(cluster, 1) == 0
    assert not cluster.controller.ending


def test_unregister_broker_between_its_runs_is_not_added_to_an_isr() -> None:
    cluster = crowded()
    request = UnregisterBrokerRequest(broker_id=1)
    first = cluster.controller.unregister_broker(request)
    cluster.take(first)
    left = first.records[0]
    assert isinstance(left, PartitionChangeRecord)
    partition = cluster.image.topics_by_id[left.topic_id].partitions[left.partition_id]
    proposal = AlterPartitionRequest(
        broker_id=2,
        broker_epoch=cluster.image.brokers[2].epoch,
        topics=[
            AlterPartitionRequest.TopicData(
                topic_id=left.topic_id,
                partitions=[
                    AlterPartitionRequest.PartitionData(
                        partition_index=left.partition_id,
                        leader_epoch=partition.leader_epoch,
                        partition_epoch=partition.partition_epoch,
                        new_isr_with_epochs=[
                            AlterPartitionRequest.BrokerState(broker_id=each) for each in (1, 2)
                        ],
                    )
                ],
            )
        ],
    )
    (topic,) = cluster.controller.alter_partition(proposal, 3).response.topics
    assert topic.partitions[0].error_code == ErrorCode.INELIGIBLE_REPLICA
    cluster.take(cluster.controller.unregister_broker(request))
    assert cluster.image.brokers.keys() == {2}


def test_register_broker_that_is_refused_between_its_runs_keeps_its_seats() -> None:
    """The former incarnation sends a heartbeat: it lives, and may join ISRs again."""
    cluster = crowded()
    cluster.controller.sessions.remove(SessionKey(1, cluster.image.brokers[1].epoch))
    request = registration(1, uuid(777), incarnation=9)
    cluster.take(cluster.controller.register_broker(request))
    cluster.unfence(1)
    with pytest.raises(KafkaError) as refusal:
        cluster.controller.register_broker(request)
    assert refusal.value.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert not cluster.controller.ending

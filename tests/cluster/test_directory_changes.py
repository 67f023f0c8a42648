"""Log directories of brokers: assignment of replicas, and failed directories.

The records are those of Apache Kafka 4.3 with two log.dirs, one of which is removed.
"""

import pytest

from barnabas.cluster.controller.partition_change_builder import RECOVERING
from barnabas.cluster.metadata.feature_levels import (
    DIRECTORIES_SINCE,
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    METADATA_VERSION,
)
from barnabas.cluster.metadata.image import DIRECTORY_UNASSIGNED, PartitionImage
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from barnabas.protocol.messages_base import Message
from barnabas.protocol.records.metadata_records import (
    BrokerRegistrationChangeRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
)
from barnabas.protocol.types import Uuid
from tests.cluster.states import Cluster, registration, uuid

FIRST, SECOND = uuid(601), uuid(602)


def with_two_directories(brokers: int = 1, *, elr: bool = False) -> Cluster:
    cluster = Cluster(brokers=0)
    cluster.replay([FeatureLevelRecord(name=METADATA_VERSION, feature_level=DIRECTORIES_SINCE)])
    if elr:
        cluster.replay([FeatureLevelRecord(name=ELIGIBLE_LEADER_REPLICAS_VERSION, feature_level=1)])
    for broker_id in range(1, brokers + 1):
        start(cluster, broker_id, FIRST, SECOND)
    return cluster


def start(
    cluster: Cluster,
    broker_id: int,
    *directories: Uuid,
    incarnation: int = 0,
    is_clean: bool = False,
) -> None:
    previous = cluster.image.brokers[broker_id].epoch if is_clean else -1
    request = registration(
        broker_id, *directories, incarnation=broker_id + incarnation, previous_epoch=previous
    )
    cluster.register(request)
    cluster.unfence(broker_id)


def assign(
    cluster: Cluster, topic_id: Uuid, number: int, directory: Uuid, broker_id: int = 1
) -> tuple[ErrorCode, list[Message]]:
    data = AssignReplicasToDirsRequest
    partition = data.PartitionData(partition_index=number)
    topic = data.TopicData(topic_id=topic_id, partitions=[partition])
    request = data(
        broker_id=broker_id,
        broker_epoch=cluster.image.brokers[broker_id].epoch,
        directories=[data.DirectoryData(id=directory, topics=[topic])],
    )
    result = cluster.controller.assign_replicas_to_dirs(request)
    response = cluster.take(result)
    return ErrorCode(response.directories[0].topics[0].partitions[0].error_code), result.records


def fail(cluster: Cluster, *directories: Uuid, broker_id: int = 1) -> list[Message]:
    heartbeat = cluster.heartbeat(broker_id, offline_log_dirs=list(directories))
    result = cluster.controller.broker_heartbeat(heartbeat)
    cluster.take(result)
    return result.records


def partitions(cluster: Cluster) -> dict[int, PartitionImage]:
    return dict(cluster.image.topics_by_name["t"].partitions)


def a_topic(cluster: Cluster, replicas: int = 1) -> Uuid:
    """Two partitions, each in its directory."""
    topic_id = cluster.create("t", partitions=2, replicas=replicas).topic_id
    assert partitions(cluster)[0].directories == (DIRECTORY_UNASSIGNED,) * replicas
    for number, directory in enumerate((FIRST, SECOND)):
        for broker_id in range(1, replicas + 1):
            assert assign(cluster, topic_id, number, directory, broker_id)[0] == ErrorCode.NONE
    return topic_id


def test_assign_replicas_records_the_directory_of_a_replica() -> None:
    cluster = with_two_directories()
    topic_id = cluster.create("t").topic_id
    change = PartitionChangeRecord(topic_id=topic_id, partition_id=0, directories=[SECOND])
    assert assign(cluster, topic_id, 0, SECOND) == (ErrorCode.NONE, [change])
    assert assign(cluster, topic_id, 0, SECOND) == (ErrorCode.NONE, [])
    assert assign(cluster, uuid(9), 0, SECOND)[0] == ErrorCode.UNKNOWN_TOPIC_ID
    assert assign(cluster, topic_id, 1, SECOND)[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    start(cluster, 2, uuid(700))
    assert assign(cluster, topic_id, 0, uuid(700), 2)[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
    request = AssignReplicasToDirsRequest(broker_id=1, broker_epoch=9999)
    with pytest.raises(KafkaError) as refusal:
        cluster.controller.assign_replicas_to_dirs(request)
    assert refusal.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_assign_replicas_with_an_old_metadata_version_is_refused() -> None:
    cluster = with_two_directories()
    topic_id = a_topic(cluster)
    level = FeatureLevelRecord(name=METADATA_VERSION, feature_level=DIRECTORIES_SINCE - 1)
    cluster.replay([level])
    with pytest.raises(KafkaError, match="not supported yet") as refused:
        assign(cluster, topic_id, 0, SECOND)
    assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION


def test_heartbeat_failed_directory_makes_its_partitions_leaderless() -> None:
    cluster = with_two_directories()
    topic_id = a_topic(cluster)
    epoch = cluster.image.brokers[1].epoch
    assert fail(cluster, SECOND) == [
        PartitionChangeRecord(topic_id=topic_id, partition_id=1, leader=-1),
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=epoch, log_dirs=[FIRST]),
    ]
    assert [partitions(cluster)[n].leader for n in (0, 1)] == [1, -1]
    assert partitions(cluster)[1].isr == (1,)
    assert fail(cluster, SECOND) == [], "said again, it is known"
    assert assign(cluster, topic_id, 0, SECOND)[1][1:] == [
        PartitionChangeRecord(topic_id=topic_id, partition_id=0, leader=-1)
    ]


def test_heartbeat_failed_directory_with_elr_makes_the_replica_eligible() -> None:
    cluster = with_two_directories(elr=True)
    topic_id = a_topic(cluster)
    assert fail(cluster, SECOND)[0] == PartitionChangeRecord(
        topic_id=topic_id,
        partition_id=1,
        leader=-1,
        isr=[],
        eligible_leader_replicas=[1],
        last_known_elr=[1],
    )
    start(cluster, 1, FIRST, SECOND, incarnation=50, is_clean=True)
    back = partitions(cluster)[1]
    assert (back.leader, back.isr, back.elr, back.last_known_elr) == (1, (1,), (), ())
    assert back.leader_recovery_state == 0


def test_heartbeat_unfenced_last_known_leader_is_elected_without_eligible_replicas() -> None:
    """As Apache Kafka leaves it when it was not stopped cleanly."""
    cluster = with_two_directories(elr=True)
    topic_id = a_topic(cluster)
    fail(cluster, SECOND)
    nobody = PartitionChangeRecord(
        topic_id=topic_id, partition_id=1, eligible_leader_replicas=[], last_known_elr=[1]
    )
    cluster.replay([nobody])
    start(cluster, 1, FIRST, SECOND, incarnation=50)
    back = partitions(cluster)[1]
    assert (back.leader, back.isr, back.leader_recovery_state) == (1, (1,), 1)


def test_heartbeat_failed_directory_elects_another_replica() -> None:
    cluster = with_two_directories()
    start(cluster, 2, uuid(603))
    topic_id = cluster.create("t", partitions=2, replicas=2).topic_id
    led = next(number for number in (0, 1) if partitions(cluster)[number].leader == 1)
    assert assign(cluster, topic_id, led, FIRST)[0] == ErrorCode.NONE
    assert assign(cluster, topic_id, 1 - led, SECOND)[0] == ErrorCode.NONE
    fail(cluster, FIRST)
    assert (partitions(cluster)[led].leader, partitions(cluster)[led].isr) == (2, (2,))
    other = partitions(cluster)[1 - led]
    assert set(other.isr) == set(other.replicas)


def test_unfence_leads_from_a_restored_directory_but_not_from_a_removed_one() -> None:
    cluster = with_two_directories()
    a_topic(cluster)
    fail(cluster, SECOND)
    start(cluster, 1, FIRST, incarnation=50)
    assert [partitions(cluster)[n].leader for n in (0, 1)] == [1, -1]
    start(cluster, 1, FIRST, SECOND, incarnation=60)
    assert [partitions(cluster)[n].leader for n in (0, 1)] == [1, 1]
    start(cluster, 1, SECOND, incarnation=70)
    assert [partitions(cluster)[n].leader for n in (0, 1)] == [-1, 1]


def with_a_new_disk(cluster: Cluster, **configs: str) -> Uuid:
    """Broker 1 was killed, and is back with an empty disk: it is unfenced before its first report.

    Return the id of its topic.
    """
    start(cluster, 1, FIRST)
    topic_id = cluster.create("t", **configs).topic_id
    assert assign(cluster, topic_id, 0, FIRST)[0] == ErrorCode.NONE
    start(cluster, 1, SECOND, incarnation=50)
    assert partitions(cluster)[0].leader == -1
    return topic_id


def test_assign_replicas_to_a_new_disk_elects_its_only_in_sync_replica() -> None:
    """Apache Kafka 4.3.0 elects it, too: its broker reports before it is unfenced."""
    cluster = with_two_directories(brokers=0)
    topic_id = with_a_new_disk(cluster)
    elected = PartitionChangeRecord(topic_id=topic_id, partition_id=0, leader=1)
    elected.directories = [SECOND]
    assert assign(cluster, topic_id, 0, SECOND) == (ErrorCode.NONE, [elected])
    assert partitions(cluster)[0].isr == (1,)


def test_assign_replicas_to_a_new_disk_elects_the_last_known_leader() -> None:
    """As Apache Kafka 4.3.0 with eligible leader replicas: the election is an unclean one."""
    cluster = with_two_directories(brokers=0, elr=True)
    topic_id = with_a_new_disk(cluster)
    assert partitions(cluster)[0].last_known_elr == (1,)
    assert assign(cluster, topic_id, 0, SECOND)[0] == ErrorCode.NONE
    elected = partitions(cluster)[0]
    assert (elected.leader, elected.isr, elected.last_known_elr) == (1, (1,), ())
    assert elected.leader_recovery_state == RECOVERING


def test_assign_replicas_to_a_new_disk_elects_uncleanly_where_that_is_allowed() -> None:
    """The only in-sync replica has ended, and the replica on the new disk may lead."""
    cluster = with_two_directories(brokers=0)
    for broker_id, directory in ((1, FIRST), (2, uuid(700))):
        start(cluster, broker_id, directory)
    topic_id = cluster.create("t", replicas=2, unclean_leader_election_enable="true").topic_id
    for broker_id, directory in ((1, FIRST), (2, uuid(700))):
        assert assign(cluster, topic_id, 0, directory, broker_id)[0] == ErrorCode.NONE
    start(cluster, 1, SECOND, incarnation=50)
    cluster.take(cluster.controller.broker_heartbeat(cluster.heartbeat(2, want_fence=True)))
    before = partitions(cluster)[0]
    assert (before.leader, before.isr) == (-1, (2,))
    assert assign(cluster, topic_id, 0, SECOND)[0] == ErrorCode.NONE
    assert (partitions(cluster)[0].leader, partitions(cluster)[0].isr) == (1, (1,))

"""Replaying records over images, and writing images as records."""

import pytest

from barnabas.cluster.metadata.delta import MetadataDelta
from barnabas.cluster.metadata.image import DIRECTORY_UNASSIGNED, RESOURCE_TOPIC, MetadataImage
from barnabas.cluster.metadata.image_records import image_records
from barnabas.protocol.records.metadata_records import (
    AccessControlEntryRecord,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveAccessControlEntryRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from tests.cluster.states import Cluster, uuid


def busy_cluster() -> Cluster:
    cluster = Cluster(brokers=3, racks=2)
    cluster.create("a", partitions=3, replicas=2, retention_ms="7")
    cluster.create("b", partitions=1, replicas=3)
    cluster.replay([
        FeatureLevelRecord(name="metadata.version", feature_level=30),
        ConfigRecord(resource_type=4, resource_name="", name="x", value="1"),
        ProducerIdsRecord(broker_id=1, broker_epoch=1, next_producer_id=5000),
        AccessControlEntryRecord(id=uuid(1), resource_name="a"),
    ])  # fmt: skip
    return cluster


def test_image_records_replay_to_an_equal_image() -> None:
    image = busy_cluster().image
    delta = MetadataDelta(
        MetadataImage(cluster_id=image.cluster_id, controller_id=image.controller_id)
    )
    for record in image_records(image):
        delta.replay(record)
    assert delta.apply(image.offset, image.record_epoch) == image


def test_image_does_not_change_when_a_delta_is_applied() -> None:
    cluster = busy_cluster()
    before = cluster.image
    topics, partitions = dict(before.topics_by_name), before.topics_by_name["a"].partitions
    cluster.create("c")
    cluster.replay([
        PartitionChangeRecord(topic_id=before.topics_by_name["a"].id, partition_id=0, isr=[1])
    ])  # fmt: skip
    assert before.topics_by_name == topics
    assert before.topics_by_name["a"].partitions is partitions
    assert cluster.image.topics_by_name["b"] is before.topics_by_name["b"]


def test_delta_partition_change_with_a_leader_bumps_the_leader_epoch() -> None:
    cluster = Cluster(brokers=2)
    cluster.create("t", replicas=2)
    topic_id = cluster.image.topics_by_name["t"].id
    cluster.replay([PartitionChangeRecord(topic_id=topic_id, partition_id=0, isr=[1])])
    partition = cluster.image.topics_by_name["t"].partitions[0]
    assert (partition.isr, partition.leader_epoch, partition.partition_epoch) == ((1,), 0, 1)
    cluster.replay([PartitionChangeRecord(topic_id=topic_id, partition_id=0, leader=-1)])
    partition = cluster.image.topics_by_name["t"].partitions[0]
    assert (partition.leader, partition.leader_epoch, partition.partition_epoch) == (-1, 1, 2)


def test_delta_reassigned_replicas_keep_their_directories() -> None:
    cluster = Cluster(brokers=3)
    cluster.create("t", replicas=2)
    topic = cluster.image.topics_by_name["t"]
    first = topic.partitions[0].replicas[0]
    newcomer = ({1, 2, 3} - set(topic.partitions[0].replicas)).pop()
    change = PartitionChangeRecord(topic_id=topic.id, partition_id=0, replicas=[newcomer, first])
    cluster.replay([change])
    partition = cluster.image.topics_by_name["t"].partitions[0]
    assert partition.directories == (DIRECTORY_UNASSIGNED, uuid(500 + first))


def test_delta_topic_created_and_deleted_leaves_no_change() -> None:
    cluster = Cluster()
    delta = cluster.replay([
        TopicRecord(name="t", topic_id=uuid(7)),
        PartitionRecord(topic_id=uuid(7), partition_id=0, replicas=[1], isr=[1], leader=1),
        ConfigRecord(resource_type=RESOURCE_TOPIC, resource_name="t", name="x", value="1"),
        RemoveTopicRecord(topic_id=uuid(7)),
    ])  # fmt: skip
    assert (delta.topics, delta.deleted_topics) == ({}, {})
    assert cluster.image.topics_by_name == cluster.image.configs == {}


def test_delta_deleted_topic_may_be_created_again() -> None:
    cluster = Cluster()
    old = cluster.create("t", retention_ms="1").topic_id
    delta = cluster.replay([
        RemoveTopicRecord(topic_id=old), TopicRecord(name="t", topic_id=uuid(8))
    ])  # fmt: skip
    assert cluster.image.topics_by_name["t"].id == uuid(8)
    assert old not in cluster.image.topics_by_id
    assert cluster.image.topic_config("t") == {}
    assert (set(delta.deleted_topics), set(delta.topics)) == ({old}, {uuid(8)})


def test_delta_record_of_an_unknown_topic_raises() -> None:
    delta = MetadataDelta(MetadataImage())
    with pytest.raises(KeyError):
        delta.replay(RemoveTopicRecord(topic_id=uuid(3)))
    with pytest.raises(KeyError):
        delta.replay(BrokerRegistrationChangeRecord(broker_id=3))


def test_delta_replays_unfencing_and_unregistration() -> None:
    cluster = Cluster(brokers=0)
    cluster.add_broker(4, fenced=True)
    assert not cluster.image.brokers[4].is_active
    cluster.replay([BrokerRegistrationChangeRecord(broker_id=4, broker_epoch=0, fenced=-1)])
    assert cluster.image.brokers[4].is_active
    cluster.replay([UnregisterBrokerRecord(broker_id=4, broker_epoch=0)])
    assert cluster.image.brokers == {}


def test_delta_feature_at_level_zero_is_removed() -> None:
    cluster = Cluster()
    cluster.replay([FeatureLevelRecord(name="group.version", feature_level=1)])
    assert cluster.image.features["group.version"] == 1
    cluster.replay([FeatureLevelRecord(name="group.version", feature_level=0)])
    assert cluster.image.features.keys() == {"metadata.version"}


def test_delta_keeps_an_acl_until_it_is_removed() -> None:
    cluster = Cluster()
    record = AccessControlEntryRecord(id=uuid(1), resource_type=2, resource_name="a")
    cluster.replay([record])
    assert cluster.image.acls[uuid(1)].record(uuid(1)) == record
    assert cluster.image.acls.has(cluster.image.acls[uuid(1)])
    cluster.replay([RemoveAccessControlEntryRecord(id=uuid(1))])
    assert not cluster.image.acls


def test_delta_without_records_is_empty() -> None:
    cluster = Cluster()
    assert cluster.replay([NoOpRecord()]).is_empty
    assert not cluster.replay([TopicRecord(name="t", topic_id=uuid(7))]).is_empty

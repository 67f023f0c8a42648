"""Replaying records over images, and images written back as records."""

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


def test_an_image_written_as_records_and_replayed_is_the_same() -> None:
    image = busy_cluster().image
    delta = MetadataDelta(
        MetadataImage(cluster_id=image.cluster_id, controller_id=image.controller_id)
    )
    for record in image_records(image):
        delta.replay(record)
    assert delta.apply(image.offset, image.record_epoch) == image


def test_an_image_that_was_taken_does_not_change() -> None:
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


def test_a_partition_change_bumps_the_leader_epoch_only_with_a_leader() -> None:
    cluster = Cluster(brokers=2)
    cluster.create("t", replicas=2)
    topic_id = cluster.image.topics_by_name["t"].id
    cluster.replay([PartitionChangeRecord(topic_id=topic_id, partition_id=0, isr=[1])])
    partition = cluster.image.topics_by_name["t"].partitions[0]
    assert (partition.isr, partition.leader_epoch, partition.partition_epoch) == ((1,), 0, 1)
    cluster.replay([PartitionChangeRecord(topic_id=topic_id, partition_id=0, leader=-1)])
    partition = cluster.image.topics_by_name["t"].partitions[0]
    assert (partition.leader, partition.leader_epoch, partition.partition_epoch) == (-1, 1, 2)


def test_moved_replicas_keep_the_directories_that_they_have() -> None:
    cluster = Cluster(brokers=3)
    cluster.create("t", replicas=2)
    topic = cluster.image.topics_by_name["t"]
    first = topic.partitions[0].replicas[0]
    newcomer = ({1, 2, 3} - set(topic.partitions[0].replicas)).pop()
    change = PartitionChangeRecord(topic_id=topic.id, partition_id=0, replicas=[newcomer, first])
    cluster.replay([change])
    partition = cluster.image.topics_by_name["t"].partitions[0]
    assert partition.directories == (DIRECTORY_UNASSIGNED, uuid(500 + first))


def test_a_topic_that_comes_and_goes_in_one_run_leaves_nothing() -> None:
    cluster = Cluster()
    delta = cluster.replay([
        TopicRecord(name="t", topic_id=uuid(7)),
        PartitionRecord(topic_id=uuid(7), partition_id=0, replicas=[1], isr=[1], leader=1),
        ConfigRecord(resource_type=RESOURCE_TOPIC, resource_name="t", name="x", value="1"),
        RemoveTopicRecord(topic_id=uuid(7)),
    ])  # fmt: skip
    assert (delta.topics, delta.deleted_topics) == ({}, {})
    assert cluster.image.topics_by_name == cluster.image.configs == {}


def test_a_topic_may_be_made_anew_in_the_run_that_deletes_it() -> None:
    cluster = Cluster()
    old = cluster.create("t", retention_ms="1").topic_id
    delta = cluster.replay([
        RemoveTopicRecord(topic_id=old), TopicRecord(name="t", topic_id=uuid(8))
    ])  # fmt: skip
    assert cluster.image.topics_by_name["t"].id == uuid(8)
    assert old not in cluster.image.topics_by_id
    assert cluster.image.topic_config("t") == {}
    assert (set(delta.deleted_topics), set(delta.topics)) == ({old}, {uuid(8)})


def test_records_about_what_is_not_there_are_noticed() -> None:
    delta = MetadataDelta(MetadataImage())
    with pytest.raises(KeyError):
        delta.replay(RemoveTopicRecord(topic_id=uuid(3)))
    with pytest.raises(KeyError):
        delta.replay(BrokerRegistrationChangeRecord(broker_id=3))


def test_brokers_are_unfenced_and_unregistered() -> None:
    cluster = Cluster(brokers=0)
    cluster.add_broker(4, fenced=True)
    assert not cluster.image.brokers[4].is_active
    cluster.replay([BrokerRegistrationChangeRecord(broker_id=4, broker_epoch=0, fenced=-1)])
    assert cluster.image.brokers[4].is_active
    cluster.replay([UnregisterBrokerRecord(broker_id=4, broker_epoch=0)])
    assert cluster.image.brokers == {}


def test_a_feature_at_level_zero_is_not_finalized() -> None:
    cluster = Cluster()
    cluster.replay([FeatureLevelRecord(name="group.version", feature_level=1)])
    assert cluster.image.features == {"group.version": 1}
    cluster.replay([FeatureLevelRecord(name="group.version", feature_level=0)])
    assert cluster.image.features == {}


def test_security_records_are_kept_until_they_are_removed() -> None:
    cluster = Cluster()
    cluster.replay([AccessControlEntryRecord(id=uuid(1), resource_name="a")])
    assert len(cluster.image.security) == 1
    cluster.replay([RemoveAccessControlEntryRecord(id=uuid(1))])
    assert cluster.image.security == {}


def test_a_delta_of_nothing_is_empty() -> None:
    cluster = Cluster()
    assert cluster.replay([NoOpRecord()]).is_empty
    assert not cluster.replay([TopicRecord(name="t", topic_id=uuid(7))]).is_empty

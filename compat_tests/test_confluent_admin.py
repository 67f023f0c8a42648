"""confluent-kafka's AdminClient: topics, partitions, configurations, groups and offsets."""

import time
from collections.abc import Callable

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)


def only(futures: dict) -> object:
    (future,) = futures.values()
    return future.result(30)


def refused(futures: dict) -> int:
    """Return the error code of the only operation."""
    with pytest.raises(KafkaException) as raised:
        only(futures)
    return raised.value.args[0].code()


def eventually(condition: Callable[[], bool], what: str, timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def fill(bootstrap: str, topic: str, count: int, *, partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for i in range(count):
        producer.produce(
            topic, value=b"%d" % i, partition=partition, timestamp=1_700_000_000_000 + i
        )
    assert producer.flush(30) == 0


def commit(bootstrap: str, group: str, topic: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def test_a_topic_is_described_as_it_was_made(admin, topics) -> None:
    topic = topics.create("described", partitions=3)
    description = only(admin.describe_topics(TopicCollection([topic])))
    assert description.name == topic
    assert not description.is_internal
    assert [partition.id for partition in description.partitions] == [0, 1, 2]
    assert all(len(partition.replicas) == 1 for partition in description.partitions)
    assert all(partition.leader is not None for partition in description.partitions)
    assert str(description.topic_id) != "AAAAAAAAAAAAAAAAAAAAAA"
    listed = admin.list_topics(topic, timeout=60).topics[topic]
    assert sorted(listed.partitions) == [0, 1, 2]


def test_a_deleted_topic_is_gone_and_its_name_is_free(bootstrap, admin, topics) -> None:
    topic = topics.create("deleted")
    fill(bootstrap, topic, 5)
    before = only(admin.describe_topics(TopicCollection([topic]))).topic_id
    only(admin.delete_topics([topic]))
    eventually(lambda: topic not in admin.list_topics(timeout=60).topics, "the topic is gone")
    only(admin.create_topics([NewTopic(topic, num_partitions=2, replication_factor=1)]))
    eventually(lambda: topic in admin.list_topics(timeout=60).topics, "the topic is there again")
    after = only(admin.describe_topics(TopicCollection([topic])))
    assert len(after.partitions) == 2
    assert str(after.topic_id) != str(before)
    latest = admin.list_offsets({TopicPartition(topic, 0): OffsetSpec.latest()})
    assert only(latest).offset == 0


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"topic": "white space"}, KafkaError.TOPIC_EXCEPTION),
        ({"topic": "a" * 250}, KafkaError.TOPIC_EXCEPTION),
        ({"topic": ".."}, KafkaError.TOPIC_EXCEPTION),
        ({"replication_factor": 3}, KafkaError.INVALID_REPLICATION_FACTOR),
        ({"num_partitions": 0}, KafkaError.INVALID_PARTITIONS),
        ({"config": {"no.such.thing": "1"}}, KafkaError.INVALID_CONFIG),
        ({"config": {"retention.ms": "soon"}}, KafkaError.INVALID_CONFIG),
        ({"config": {"cleanup.policy": "shred"}}, KafkaError.INVALID_CONFIG),
    ],
    ids=["space", "long", "dots", "factor", "none", "unknown", "type", "value"],
)
def test_an_impossible_topic_is_refused(admin, unique, change, code) -> None:
    wanted = {"topic": unique("bad"), "num_partitions": 1, "replication_factor": 1, **change}
    assert refused(admin.create_topics([NewTopic(**wanted)])) == code


def test_create_of_an_existing_and_delete_of_a_missing_topic_are_refused(
    admin, topics, unique
) -> None:
    topic = topics.create("twice")
    again = [NewTopic(topic, num_partitions=1, replication_factor=1)]
    assert refused(admin.create_topics(again)) == KafkaError.TOPIC_ALREADY_EXISTS
    missing = unique("missing")
    assert refused(admin.delete_topics([missing])) == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert refused(admin.describe_topics(TopicCollection([missing]))) == (
        KafkaError.UNKNOWN_TOPIC_OR_PART
    )


def test_topic_names_that_differ_in_dot_and_underscore_collide(admin, unique) -> None:
    name = unique("collide")
    only(admin.create_topics([NewTopic(f"{name}.a", num_partitions=1, replication_factor=1)]))
    twin = [NewTopic(f"{name}_a", num_partitions=1, replication_factor=1)]
    assert refused(admin.create_topics(twin)) == KafkaError.TOPIC_EXCEPTION


def test_validate_only_creates_no_topic(admin, unique) -> None:
    topic = unique("validated")
    new = [NewTopic(topic, num_partitions=2, replication_factor=1)]
    only(admin.create_topics(new, validate_only=True))
    time.sleep(0.3)
    assert topic not in admin.list_topics(timeout=60).topics


def test_replicas_are_placed_by_hand(admin, unique) -> None:
    topic = unique("placed")
    node = next(iter(admin.list_topics(timeout=60).brokers))
    placed = NewTopic(topic, num_partitions=2, replica_assignment=[[node], [node]])
    only(admin.create_topics([placed]))
    assert len(only(admin.describe_topics(TopicCollection([topic]))).partitions) == 2
    wrong = NewTopic(unique("placed"), num_partitions=1, replica_assignment=[[node + 77]])
    assert refused(admin.create_topics([wrong])) == KafkaError.INVALID_REPLICA_ASSIGNMENT


def test_partitions_are_added_and_never_taken(bootstrap, admin, topics) -> None:
    topic = topics.create("grown", partitions=2)
    fill(bootstrap, topic, 3)
    only(admin.create_partitions([NewPartitions(topic, 5)]))
    eventually(
        lambda: len(admin.list_topics(topic, timeout=60).topics[topic].partitions) == 5,
        "five partitions are seen",
    )
    fill(bootstrap, topic, 3, partition=4)
    assert refused(admin.create_partitions([NewPartitions(topic, 3)])) == (
        KafkaError.INVALID_PARTITIONS
    )


def topic_config(admin, topic: str) -> dict[str, ConfigEntry]:
    return only(admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]))


def test_a_topics_configuration_is_changed_step_by_step(admin, topics) -> None:
    topic = topics.create("configured", config={"retention.ms": "1234567"})
    before = topic_config(admin, topic)
    assert before["retention.ms"].value == "1234567"
    assert before["retention.ms"].source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    assert not before["retention.ms"].is_default
    assert before["cleanup.policy"].value == "delete"
    assert before["cleanup.policy"].is_default
    assert before["max.message.bytes"].value == "1048588"

    def change(name: str, value: str | None, operation: AlterConfigOpType) -> ConfigResource:
        entry = ConfigEntry(name, value, incremental_operation=operation)
        return ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])

    steps = [
        change("segment.bytes", "5000000", AlterConfigOpType.SET),
        change("cleanup.policy", "compact", AlterConfigOpType.APPEND),
        change("retention.ms", None, AlterConfigOpType.DELETE),
    ]
    for step in steps:
        only(admin.incremental_alter_configs([step]))
    eventually(
        lambda: topic_config(admin, topic)["retention.ms"].value == "604800000", "steps are done"
    )
    after = topic_config(admin, topic)
    assert after["segment.bytes"].value == "5000000"
    assert sorted(after["cleanup.policy"].value.split(",")) == ["compact", "delete"]
    assert after["retention.ms"].is_default
    only(
        admin.incremental_alter_configs(
            [change("cleanup.policy", "delete", AlterConfigOpType.SUBTRACT)]
        )
    )
    eventually(
        lambda: topic_config(admin, topic)["cleanup.policy"].value == "compact", "policy is cut"
    )
    bad = change("segment.bytes", "many", AlterConfigOpType.SET)
    assert refused(admin.incremental_alter_configs([bad])) == KafkaError.INVALID_CONFIG


def test_alter_configs_resets_omitted_properties(admin, topics) -> None:
    topic = topics.create("replaced", config={"retention.ms": "1000000", "flush.messages": "77"})
    change = ConfigResource(ResourceType.TOPIC, topic, set_config={"retention.ms": "2000000"})
    only(admin.alter_configs([change]))
    eventually(
        lambda: topic_config(admin, topic)["retention.ms"].value == "2000000", "it is changed"
    )
    assert topic_config(admin, topic)["flush.messages"].is_default


def test_a_brokers_configuration_is_described_and_changed(admin) -> None:
    node = next(iter(admin.list_topics(timeout=60).brokers))
    resource = ConfigResource(ResourceType.BROKER, str(node))
    config = only(admin.describe_configs([resource]))
    assert config["node.id"].value == str(node)
    assert config["node.id"].is_read_only
    assert config["num.partitions"].value == "1"
    assert config["log.retention.hours"].value == "168"
    entry = ConfigEntry(
        "log.cleaner.backoff.ms", "15001", incremental_operation=AlterConfigOpType.SET
    )
    change = ConfigResource(ResourceType.BROKER, str(node), incremental_configs=[entry])
    only(admin.incremental_alter_configs([change]))

    def value() -> str:
        return only(admin.describe_configs([resource]))["log.cleaner.backoff.ms"].value

    eventually(lambda: value() == "15001", "the broker's value is changed")
    entry = ConfigEntry("node.id", "9", incremental_operation=AlterConfigOpType.SET)
    change = ConfigResource(ResourceType.BROKER, str(node), incremental_configs=[entry])
    assert refused(admin.incremental_alter_configs([change])) in (
        KafkaError.INVALID_REQUEST,
        KafkaError.INVALID_CONFIG,
    )


def test_offsets_are_listed_by_end_and_by_time(bootstrap, admin, topics) -> None:
    topic = topics.create("listed")
    fill(bootstrap, topic, 20)

    def offset(spec: OffsetSpec) -> int:
        return only(admin.list_offsets({TopicPartition(topic, 0): spec})).offset

    assert offset(OffsetSpec.earliest()) == 0
    assert offset(OffsetSpec.latest()) == 20
    assert offset(OffsetSpec.max_timestamp()) == 19
    assert offset(OffsetSpec.for_timestamp(1_700_000_000_007)) == 7
    assert offset(OffsetSpec.for_timestamp(1_800_000_000_000)) == -1


def test_deleted_records_are_gone_from_the_front(bootstrap, admin, topics) -> None:
    topic = topics.create("trimmed")
    fill(bootstrap, topic, 20)
    deleted = only(admin.delete_records([TopicPartition(topic, 0, 12)]))
    assert deleted.low_watermark == 12
    earliest = admin.list_offsets({TopicPartition(topic, 0): OffsetSpec.earliest()})
    assert only(earliest).offset == 12
    assert refused(admin.delete_records([TopicPartition(topic, 0, 99)])) == (
        KafkaError.OFFSET_OUT_OF_RANGE
    )
    whole = only(admin.delete_records([TopicPartition(topic, 0, -1)]))
    assert whole.low_watermark == 20


def test_the_cluster_is_described(admin, bootstrap) -> None:
    cluster = admin.describe_cluster().result(30)
    assert len(cluster.cluster_id) == 22
    assert [f"{node.host}:{node.port}" for node in cluster.nodes] == [bootstrap]
    assert cluster.controller is not None


def test_a_group_is_listed_described_and_deleted(bootstrap, admin, topics, unique) -> None:
    topic, group = topics.create("grouped", partitions=2), unique("g")
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "client.id": "me"}
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    deadline = time.monotonic() + 120
    while not consumer.assignment() and time.monotonic() < deadline:
        consumer.poll(0.2)
    description = only(admin.describe_consumer_groups([group]))
    assert description.state == ConsumerGroupState.STABLE
    assert description.partition_assignor == "range"
    (member,) = description.members
    assert member.client_id == "me"
    assert {p.partition for p in member.assignment.topic_partitions} == {0, 1}
    assert refused(admin.delete_consumer_groups([group])) == KafkaError.NON_EMPTY_GROUP
    consumer.close()

    def listed(**filters) -> set[str]:
        found = admin.list_consumer_groups(**filters).result(30)
        assert found.errors == []
        return {listing.group_id for listing in found.valid}

    commit(bootstrap, group, topic, 1)
    assert group in listed()
    assert group in listed(states={ConsumerGroupState.EMPTY})
    assert group not in listed(states={ConsumerGroupState.STABLE})
    assert group in listed(types={ConsumerGroupType.CLASSIC})
    only(admin.delete_consumer_groups([group]))
    assert group not in listed()
    assert refused(admin.delete_consumer_groups([group])) == KafkaError.GROUP_ID_NOT_FOUND


def test_a_groups_offsets_are_listed_and_altered(bootstrap, admin, topics, unique) -> None:
    topic, group = topics.create("altered", partitions=2), unique("g")
    fill(bootstrap, topic, 10)
    commit(bootstrap, group, topic, 3)

    def offsets(partitions: list[TopicPartition] | None) -> dict[int, int]:
        asked = [ConsumerGroupTopicPartitions(group, partitions)]
        found = only(admin.list_consumer_group_offsets(asked))
        return {part.partition: part.offset for part in found.topic_partitions}

    assert offsets(None) == {0: 3}
    assert offsets([TopicPartition(topic, 0), TopicPartition(topic, 1)]) == {0: 3, 1: -1001}
    moved = ConsumerGroupTopicPartitions(
        group, [TopicPartition(topic, 0, 8), TopicPartition(topic, 1, 1)]
    )
    only(admin.alter_consumer_group_offsets([moved]))
    assert offsets(None) == {0: 8, 1: 1}


def test_the_offsets_of_a_group_with_members_stay(bootstrap, admin, topics, unique) -> None:
    topic, group = topics.create("busy"), unique("g")
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    consumer.subscribe([topic])
    deadline = time.monotonic() + 120
    while not consumer.assignment() and time.monotonic() < deadline:
        consumer.poll(0.2)
    moved = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 8)])
    (altered,) = only(admin.alter_consumer_group_offsets([moved])).topic_partitions
    consumer.close()
    assert altered.error.code() == KafkaError.UNKNOWN_MEMBER_ID

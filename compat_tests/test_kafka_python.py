"""kafka-python 3: producer, consumer groups and admin client, in pure Python."""

import threading
import time

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition, codec
from kafka.admin import NewTopic
from kafka.cluster import ClusterMetadata
from kafka.consumer.subscription_state import SubscriptionState
from kafka.errors import RebalanceInProgressError, TopicAlreadyExistsError

from compat_tests.clients.kafka_python_consumer import ConsumerOfKnownTopics

CODECS = [None, "gzip", "snappy", "lz4", "zstd"]


def usable(name: str | None) -> bool:
    return name is None or getattr(codec, f"has_{name}")()


def commit(member: KafkaConsumer, timeout_s: float = 60) -> None:
    """Commit as the client documents it: poll while the group rebalances, then commit again."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return member.commit()
        except RebalanceInProgressError:
            assert time.monotonic() < deadline
            member.poll(timeout_ms=100)


def poll_until(consumer: KafkaConsumer, count: int, timeout_s: float = 60) -> list:
    records: list = []
    deadline = time.monotonic() + timeout_s
    while len(records) < count and time.monotonic() < deadline:
        for batch in consumer.poll(timeout_ms=200).values():
            records.extend(batch)
    return records


@pytest.mark.parametrize("name", CODECS)
def test_records_come_back_with_every_codec(bootstrap, topics, name) -> None:
    if not usable(name):
        pytest.skip(f"kafka-python has no package for {name} here")
    topic = topics.create("kp-codec")
    producer = KafkaProducer(bootstrap_servers=bootstrap, compression_type=name, linger_ms=5)
    headers = [("h", b"1")]
    sent = [
        producer.send(topic, key=b"k%d" % i, value=b"v" * i, headers=headers, timestamp_ms=1000 + i)
        for i in range(500)
    ]
    producer.flush(timeout=30)
    assert [future.get(timeout=60).offset for future in sent] == list(range(500))
    producer.close()
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    consumer.assign([TopicPartition(topic, 0)])
    records = poll_until(consumer, 500)
    consumer.close()
    assert [(r.key, r.value, r.timestamp) for r in records] == [
        (b"k%d" % i, b"v" * i, 1000 + i) for i in range(500)
    ]
    assert [list(map(tuple, r.headers)) for r in records[:1]] == [headers]


def test_an_idempotent_producer_delivers_once(bootstrap, topics) -> None:
    topic = topics.create("kp-idempotent")
    producer = KafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True)
    sent = [producer.send(topic, value=b"%d" % i) for i in range(2000)]
    producer.flush(timeout=30)
    producer.close()
    assert [future.get(timeout=60).offset for future in sent] == list(range(2000))


def test_two_members_share_and_the_group_resumes(bootstrap, topics, unique) -> None:
    topic, group = topics.create("kp-group", partitions=4), unique("g")
    settings = {
        "bootstrap_servers": bootstrap,
        "group_id": group,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "heartbeat_interval_ms": 200,
        "session_timeout_ms": 30000,
    }
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for i in range(200):
        producer.send(topic, value=b"%d" % i, partition=i % 4)
    producer.flush(timeout=30)
    members = [ConsumerOfKnownTopics(topic, **settings) for _ in range(2)]
    read: set[int] = set()
    deadline = time.monotonic() + 40
    while time.monotonic() < deadline:
        for member in members:
            for batch in member.poll(timeout_ms=100).values():
                read.update(int(record.value) for record in batch)
        owned = [len(member.assignment()) for member in members]
        if owned == [2, 2] and len(read) == 200:
            break
    assert owned == [2, 2]
    assert read == set(range(200))
    for member in members:
        commit(member)
        member.close()
    for i in range(4):
        producer.send(topic, value=b"later", partition=i)
    producer.flush(timeout=30)
    producer.close()
    again = ConsumerOfKnownTopics(topic, **settings)
    assert [record.value for record in poll_until(again, 4)] == [b"later"] * 4
    again.close()


@pytest.fixture
def late_subscription(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each consumer name its topics while its first Metadata request is in progress."""
    requested, named = threading.Event(), threading.Event()
    request_of = ClusterMetadata.metadata_request
    subscribe, set_topics = SubscriptionState.subscribe, ClusterMetadata.set_topics

    def request_and_pause(self: ClusterMetadata) -> object:
        request = request_of(self)
        requested.set()
        assert named.wait(60)
        return request

    def subscribe_late(self: SubscriptionState, *args, **kwargs) -> object:
        assert requested.wait(60)
        return subscribe(self, *args, **kwargs)

    def name_topics(self: ClusterMetadata, *args) -> object:
        update = set_topics(self, *args)
        named.set()
        return update

    monkeypatch.setattr(ClusterMetadata, "metadata_request", request_and_pause)
    monkeypatch.setattr(SubscriptionState, "subscribe", subscribe_late)
    monkeypatch.setattr(ClusterMetadata, "set_topics", name_topics)


@pytest.mark.usefixtures("late_subscription")
@pytest.mark.parametrize("has_group", [False, True], ids=["without-group", "with-group"])
def test_a_consumer_that_names_its_topics_late_reads_them(
    bootstrap, topics, unique, has_group
) -> None:
    topic = topics.create("kp-late", partitions=4)
    consumer = ConsumerOfKnownTopics(
        topic,
        bootstrap_servers=bootstrap,
        api_version=(4, 3),  # otherwise the constructor waits for the first Metadata response
        group_id=unique("g") if has_group else None,
    )
    deadline = time.monotonic() + 120
    while len(consumer.assignment()) < 4 and time.monotonic() < deadline:
        consumer.poll(timeout_ms=1)  # too short for the response to SyncGroup
    assert len(consumer.assignment()) == 4
    consumer.close()


def test_positions_are_sought_and_looked_up_by_time(bootstrap, topics) -> None:
    topic = topics.create("kp-seek")
    partition = TopicPartition(topic, 0)
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for i in range(50):
        producer.send(topic, value=b"%d" % i, timestamp_ms=1_700_000_000_000 + i * 10)
    producer.flush(timeout=30)
    producer.close()
    consumer = KafkaConsumer(bootstrap_servers=bootstrap)
    consumer.assign([partition])
    assert consumer.beginning_offsets([partition]) == {partition: 0}
    assert consumer.end_offsets([partition]) == {partition: 50}
    found = consumer.offsets_for_times({partition: 1_700_000_000_101})
    assert found[partition].offset == 11
    consumer.seek(partition, 30)
    assert poll_until(consumer, 1)[0].offset == 30
    consumer.seek_to_beginning(partition)
    assert poll_until(consumer, 1)[0].offset == 0
    consumer.close()


def test_the_admin_client_makes_describes_and_deletes(bootstrap, unique) -> None:
    topic = unique("kp-admin")
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics([NewTopic(topic, num_partitions=2, replication_factor=1)])
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics([NewTopic(topic, num_partitions=2, replication_factor=1)])
    (described,) = admin.describe_topics([topic])
    assert len(described["partitions"]) == 2
    assert topic in admin.list_topics()
    assert len(admin.describe_cluster()["brokers"]) == 1
    admin.delete_topics([topic])
    deadline = time.monotonic() + 60
    while topic in admin.list_topics() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert topic not in admin.list_topics()
    admin.close()

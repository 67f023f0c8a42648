"""confluent-kafka reading: positions, timestamps, pauses, and both ends of a log."""

import time
from collections.abc import Callable

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

START_MS = 1_700_000_000_000


@pytest.fixture
def open_consumer(bootstrap, unique) -> Callable[..., Consumer]:
    opened: list[Consumer] = []

    def make(**settings) -> Consumer:
        named = {name.replace("_", "."): value for name, value in settings.items()}
        base = {"bootstrap.servers": bootstrap, "group.id": unique("consume")}
        opened.append(Consumer({**base, "enable.auto.commit": False, **named}))
        return opened[-1]

    yield make
    for consumer in opened:
        consumer.close()


def fill(bootstrap: str, topic: str, count: int, *, partition: int = 0) -> None:
    """Produce "0", "1", ... one second apart from START_MS."""
    producer = Producer({"bootstrap.servers": bootstrap, "batch.num.messages": 10})
    for i in range(count):
        stamp = START_MS + i * 1000
        producer.produce(topic, value=b"%d" % i, partition=partition, timestamp=stamp)
    assert producer.flush(30) == 0


def take(consumer: Consumer, count: int, timeout_s: float = 60) -> list[Message]:
    messages: list[Message] = []
    deadline = time.monotonic() + timeout_s
    while len(messages) < count and time.monotonic() < deadline:
        message = consumer.poll(0.5)
        if message is None:
            continue
        if message.error() is not None:
            raise KafkaException(message.error())
        messages.append(message)
    return messages


def test_seek_moves_back_and_forth(bootstrap, topics, open_consumer) -> None:
    topic = topics.create("seek")
    fill(bootstrap, topic, 100)
    consumer = open_consumer()
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    assert take(consumer, 1)[0].offset() == 0
    for offset in (57, 3, 99, 0):
        consumer.seek(TopicPartition(topic, 0, offset))
        assert take(consumer, 1)[0].offset() == offset
    assert consumer.position([TopicPartition(topic, 0)])[0].offset == 1


def test_a_paused_partition_is_silent_until_resumed(bootstrap, topics, open_consumer) -> None:
    topic = topics.create("pause", partitions=2)
    fill(bootstrap, topic, 50, partition=0)
    fill(bootstrap, topic, 50, partition=1)
    consumer = open_consumer()
    consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in (0, 1)])
    consumer.pause([TopicPartition(topic, 0)])
    assert {message.partition() for message in take(consumer, 50)} == {1}
    assert take(consumer, 1, timeout_s=1) == []
    consumer.resume([TopicPartition(topic, 0)])
    assert {message.partition() for message in take(consumer, 50)} == {0}


def test_offsets_for_times_find_the_first_record_at_or_after(
    bootstrap, topics, open_consumer
) -> None:
    topic = topics.create("times")
    fill(bootstrap, topic, 100)
    consumer = open_consumer()

    def offset_at(timestamp_ms: int) -> int:
        return consumer.offsets_for_times([TopicPartition(topic, 0, timestamp_ms)], 60)[0].offset

    assert offset_at(0) == 0
    assert offset_at(START_MS) == 0
    assert offset_at(START_MS + 41_500) == 42
    assert offset_at(START_MS + 42_000) == 42
    assert offset_at(START_MS + 99_000) == 99
    assert offset_at(START_MS + 99_001) == OFFSET_END


def test_watermarks_are_the_ends_of_the_log(bootstrap, topics, open_consumer) -> None:
    topic = topics.create("watermarks")
    consumer = open_consumer()
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0), 60) == (0, 0)
    fill(bootstrap, topic, 42)
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0), 60) == (0, 42)


def test_partition_eof_event_is_reported(bootstrap, topics, open_consumer) -> None:
    topic = topics.create("eof")
    fill(bootstrap, topic, 5)
    consumer = open_consumer(enable_partition_eof=True)
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    assert len(take(consumer, 5)) == 5
    message = consumer.poll(60)
    assert message.error().code() == KafkaError._PARTITION_EOF
    assert message.offset() == 5


@pytest.mark.parametrize(("policy", "first"), [("earliest", b"0"), ("latest", b"after")])
def test_the_reset_policy_says_where_a_new_group_starts(
    bootstrap, topics, open_consumer, policy, first
) -> None:
    topic = topics.create("reset")
    fill(bootstrap, topic, 10)
    consumer = open_consumer(auto_offset_reset=policy)
    consumer.subscribe([topic])
    deadline = time.monotonic() + 60
    while not consumer.assignment() and time.monotonic() < deadline:
        early = consumer.poll(0.2)
        if early is not None:
            assert early.value() == first
            return
    # "latest" is resolved after the assignment, and no event reports when.
    producer = Producer({"bootstrap.servers": bootstrap})
    found: list[Message] = []
    while not found and time.monotonic() < deadline:
        producer.produce(topic, value=b"after")
        assert producer.flush(30) == 0
        found = take(consumer, 1, timeout_s=1)
    assert found[0].value() == first


def test_reset_policy_error_reports_a_group_without_offsets(
    bootstrap, topics, open_consumer
) -> None:
    topic = topics.create("reset-error")
    fill(bootstrap, topic, 1)
    consumer = open_consumer(auto_offset_reset="error")
    consumer.subscribe([topic])
    with pytest.raises(KafkaException) as raised:
        take(consumer, 1)
    assert raised.value.args[0].code() == KafkaError._AUTO_OFFSET_RESET


def test_an_offset_beyond_the_log_is_out_of_range(bootstrap, topics, open_consumer) -> None:
    topic = topics.create("range")
    fill(bootstrap, topic, 10)
    consumer = open_consumer(auto_offset_reset="error")
    consumer.assign([TopicPartition(topic, 0, 500)])
    with pytest.raises(KafkaException) as raised:
        take(consumer, 1)
    assert raised.value.args[0].code() in (
        KafkaError._AUTO_OFFSET_RESET,
        KafkaError.OFFSET_OUT_OF_RANGE,
    )


def test_a_waiting_consumer_gets_a_record_at_once(bootstrap, topics, open_consumer) -> None:
    topic = topics.create("wait")
    consumer = open_consumer(fetch_wait_max_ms=50_000)
    consumer.assign([TopicPartition(topic, 0, 0)])
    assert consumer.poll(1) is None
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    started = time.monotonic()
    producer.produce(topic, value=b"now")
    assert producer.flush(60) == 0
    assert take(consumer, 1)[0].value() == b"now"
    assert time.monotonic() - started < 25


def test_a_large_fetch_is_taken_in_bounded_pieces(bootstrap, topics, open_consumer) -> None:
    topic = topics.create("pieces", partitions=3)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    for i in range(3000):
        producer.produce(topic, value=b"%d" % i + b"." * 1000, partition=i % 3)
    assert producer.flush(30) == 0
    consumer = open_consumer(fetch_max_bytes=50_000, message_max_bytes=50_000)
    consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in range(3)])
    numbers = {int(message.value().split(b".")[0]) for message in take(consumer, 3000)}
    assert numbers == set(range(3000))


def test_a_subscription_by_pattern_finds_its_topics(
    bootstrap, topics, unique, open_consumer
) -> None:
    prefix = unique("pattern")
    names = [topics.create(f"{prefix}-{i}") for i in range(3)]
    for name in names:
        fill(bootstrap, name, 1)
    consumer = open_consumer(auto_offset_reset="earliest")
    consumer.subscribe([f"^{prefix}-.*"])
    assert {message.topic() for message in take(consumer, 3)} == set(names)

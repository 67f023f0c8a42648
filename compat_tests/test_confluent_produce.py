"""confluent-kafka (librdkafka) producing and reading back: codecs, shapes and guarantees."""

import random
import time
from collections.abc import Sequence
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


def producer(bootstrap: str, **settings: Any) -> Producer:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, **named})


def produce_all(client: Producer, topic: str, values: Sequence[Any], **extra: Any) -> list[Message]:
    """Produce the values in order; return the delivered messages. Any failure raises."""
    delivered: list[Message] = []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            raise KafkaException(error)
        delivered.append(message)

    for value in values:
        client.produce(topic, value=value, on_delivery=on_delivery, **extra)
        client.poll(0)
    assert client.flush(60) == 0
    return delivered


def read_all(bootstrap: str, topic: str, count: int, *, partition: int = 0) -> list[Message]:
    """Read a partition from its start, without committed offsets."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False}
    client = Consumer({**settings, "auto.offset.reset": "error", "check.crcs": True})
    client.assign([TopicPartition(topic, partition, 0)])
    messages: list[Message] = []
    deadline = time.monotonic() + 60
    while len(messages) < count and time.monotonic() < deadline:
        for message in client.consume(1000, timeout=1):
            if message.error() is not None:
                raise KafkaException(message.error())
            messages.append(message)
    client.close()
    return messages


@pytest.mark.parametrize("codec", CODECS)
def test_values_come_back_in_order_with_every_codec(bootstrap, topics, codec) -> None:
    topic = topics.create(f"codec-{codec}")
    values = [b"%d:" % i + bytes([i % 256]) * (i % 700) for i in range(3000)]
    produce_all(producer(bootstrap, compression_type=codec), topic, values)
    messages = read_all(bootstrap, topic, len(values))
    assert [message.value() for message in messages] == values
    assert [message.offset() for message in messages] == list(range(len(values)))


def test_an_idempotent_producer_gets_rising_offsets(bootstrap, topics) -> None:
    topic = topics.create("idempotent")
    values = [b"%d" % i for i in range(20_000)]
    client = producer(bootstrap, enable_idempotence=True, batch_num_messages=100)
    delivered = produce_all(client, topic, values)
    assert [message.offset() for message in delivered] == list(range(len(values)))
    assert [message.value() for message in read_all(bootstrap, topic, len(values))] == values


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_each_level_of_acknowledgement_delivers(bootstrap, topics, acks) -> None:
    topic = topics.create("acks")
    produce_all(producer(bootstrap, acks=acks), topic, [b"a", b"b", b"c"])
    assert [m.value() for m in read_all(bootstrap, topic, 3)] == [b"a", b"b", b"c"]


def test_keys_headers_timestamps_and_nulls_come_back(bootstrap, topics) -> None:
    topic = topics.create("shapes")
    client = producer(bootstrap)
    headers = [("trace", b"\x00\xff"), ("empty", b""), ("none", None), ("trace", b"again")]
    client.produce(topic, key=b"k", value=b"v", headers=headers, timestamp=1_700_000_000_123)
    client.produce(topic, key=None, value=None, timestamp=1_700_000_000_000)
    client.produce(topic, key=b"", value=b"")
    assert client.flush(30) == 0
    first, second, third = read_all(bootstrap, topic, 3)
    assert (first.key(), first.value(), first.headers()) == (b"k", b"v", headers)
    assert first.timestamp() == (1, 1_700_000_000_123)
    assert (second.key(), second.value(), second.headers()) == (None, None, None)
    assert second.timestamp() == (1, 1_700_000_000_000)
    assert (third.key(), third.value()) == (b"", b"")
    assert abs(third.timestamp()[1] / 1000 - time.time()) < 60


def test_log_append_time_is_the_servers(bootstrap, topics) -> None:
    topic = topics.create("append-time", config={"message.timestamp.type": "LogAppendTime"})
    before = time.time()
    produce_all(producer(bootstrap), topic, [b"v"] * 3, timestamp=1_700_000_000_000)
    messages = read_all(bootstrap, topic, 3)
    assert {message.timestamp()[0] for message in messages} == {2}
    assert all(before - 5 < message.timestamp()[1] / 1000 < time.time() + 5 for message in messages)


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_batches_of_nearly_a_megabyte_pass(bootstrap, topics, codec) -> None:
    topic = topics.create("big")
    chance = random.Random(7)
    values = [chance.randbytes(900_000) for _ in range(8)]
    produce_all(producer(bootstrap, compression_type=codec), topic, values)
    assert [m.value() for m in read_all(bootstrap, topic, len(values))] == values


def test_a_message_over_the_topics_limit_is_refused(bootstrap, topics) -> None:
    topic = topics.create("small", config={"max.message.bytes": "10000"})
    client = producer(bootstrap, message_max_bytes=2_000_000)
    with pytest.raises(KafkaException) as refused:
        produce_all(client, topic, [b"x" * 20_000])
    assert refused.value.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE
    produce_all(client, topic, [b"fits"])
    assert [m.value() for m in read_all(bootstrap, topic, 1)] == [b"fits"]


def test_a_raised_limit_lets_ten_megabytes_pass(bootstrap, topics) -> None:
    topic = topics.create("huge", config={"max.message.bytes": "20000000"})
    value = random.Random(8).randbytes(10_000_000)
    produce_all(producer(bootstrap, message_max_bytes=20_000_000), topic, [value])
    assert read_all(bootstrap, topic, 1)[0].value() == value


def test_keys_choose_partitions_and_keep_their_order(bootstrap, topics) -> None:
    topic = topics.create("keyed", partitions=4)
    client = producer(bootstrap)
    for i in range(2000):
        client.produce(topic, key=b"key-%d" % (i % 50), value=b"%d" % i)
    assert client.flush(30) == 0
    seen: dict[bytes, list[int]] = {}
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "keyed-reader"})
    consumer.assign([TopicPartition(topic, p, 0) for p in range(4)])
    total = 0
    deadline = time.monotonic() + 60
    while total < 2000 and time.monotonic() < deadline:
        for message in consumer.consume(500, timeout=1):
            seen.setdefault(message.key(), []).append(int(message.value()))
            total += 1
    consumer.close()
    assert total == 2000
    assert len(seen) == 50
    assert all(values == sorted(values) for values in seen.values())


def test_a_topic_that_does_not_exist_is_made_by_producing_to_it(bootstrap, unique) -> None:
    topic = unique("auto-created")
    produce_all(producer(bootstrap), topic, [b"first"])
    assert [m.value() for m in read_all(bootstrap, topic, 1)] == [b"first"]


def test_an_invalid_topic_name_is_refused(bootstrap) -> None:
    with pytest.raises(KafkaException) as refused:
        produce_all(producer(bootstrap, message_timeout_ms=10_000), "not a topic!", [b"v"])
    code = refused.value.args[0].code()
    assert code in (KafkaError.TOPIC_EXCEPTION, KafkaError._UNKNOWN_TOPIC)


def test_many_producers_share_a_partition_without_loss(bootstrap, topics) -> None:
    topic = topics.create("shared")
    clients = [producer(bootstrap, enable_idempotence=True) for _ in range(10)]
    for i in range(300):
        for number, client in enumerate(clients):
            client.produce(topic, value=b"%d/%d" % (number, i))
            client.poll(0)
    assert [client.flush(30) for client in clients] == [0] * 10
    by_producer: dict[bytes, list[int]] = {}
    for message in read_all(bootstrap, topic, 3000):
        number, i = message.value().split(b"/")
        by_producer.setdefault(number, []).append(int(i))
    assert all(sent == list(range(300)) for sent in by_producer.values())
    assert len(by_producer) == 10

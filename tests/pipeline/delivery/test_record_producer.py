"""Columns of records on their way through librdkafka, against a node."""

import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Message, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from barnabas.pipeline.delivery.writing.produced_columns import ProducedColumns
from barnabas.pipeline.delivery.writing.record_producer import RecordProducer, RecordTooLargeError
from barnabas.testing import Node


@pytest.fixture
def topic(admin: AdminClient) -> Iterator[str]:
    name = f"t-{uuid.uuid4().hex[:8]}"
    admin.create_topics([NewTopic(name, 2, 1)])[name].result(60)
    yield name
    admin.delete_topics([name])[name].result(60)


def records_of(node: Node, topic: str, count: int) -> list[Message]:
    """Return the records of partition 0."""
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "g"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[Message] = []
    while len(found) < count:
        messages = consumer.consume(count - len(found), 120)
        assert messages
        found += messages
    consumer.close()
    return found


def unexpected(index: int, error: RecordTooLargeError) -> None:
    raise AssertionError(f"record {index}: {error}")


def test_columns_continue_behind_records_that_wait_for_room_and_that_are_too_large(
    node: Node, topic: str
) -> None:
    producer = RecordProducer(
        {
            "bootstrap.servers": node.bootstrap,
            "queue.buffering.max.messages": 7,
            "message.max.bytes": 1_000,
            "delivery.report.only.error": True,
            "linger.ms": 1,
        }
    )
    values: list[bytes | None] = [str(number).encode() for number in range(40)]
    values[0] = values[20] = values[39] = b"x" * 2_000
    values[5] = None
    headers = [[("n", value)] if index % 3 else None for index, value in enumerate(values)]
    keys: list[bytes | None] = [None if index % 2 else b"k" for index in range(40)]
    times_ms = [1_700_000_000_000 + index for index in range(40)]
    columns = ProducedColumns(topic, values, keys, 0, times_ms, headers)
    refused: list[int] = []

    def refuse(index: int, error: RecordTooLargeError) -> None:
        refused.append(index)

    producer.produce_all(columns, refuse)
    producer.flush()
    assert refused == [0, 20, 39]
    left = [index for index in range(40) if index not in refused]
    found = records_of(node, topic, len(left))
    assert [each.value() for each in found] == [values[index] for index in left]
    assert [each.key() for each in found] == [keys[index] for index in left]
    assert [each.timestamp()[1] for each in found] == [times_ms[index] for index in left]
    assert [each.headers() for each in found] == [headers[index] for index in left]


def test_columns_name_topics_and_partitions_of_each_record(node: Node, topic: str) -> None:
    producer = RecordProducer({"bootstrap.servers": node.bootstrap})
    columns = ProducedColumns([topic] * 3, [b"a", b"b", b"c"], [None] * 3, [0, 1, 0], [1] * 3, None)
    producer.produce_all(columns, unexpected)
    producer.flush()
    assert [each.value() for each in records_of(node, topic, 2)] == [b"a", b"c"]


def test_error_of_the_caller_ends_the_columns_with_the_record(node: Node, topic: str) -> None:
    producer = RecordProducer({"bootstrap.servers": node.bootstrap, "message.max.bytes": 1_000})
    values: list[bytes | None] = [b"a", b"x" * 2_000, b"c"]
    columns = ProducedColumns(topic, values, [None] * 3, 0, [1] * 3, None)

    def refuse(index: int, error: RecordTooLargeError) -> None:
        raise LookupError(index) from error

    with pytest.raises(LookupError, match="1"):
        producer.produce_all(columns, refuse)
    producer.flush()
    assert [each.value() for each in records_of(node, topic, 1)] == [b"a"]

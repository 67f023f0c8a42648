"""Writing, reading and administration against a real node."""

from collections.abc import Iterator

import pytest
import trio

from barnabas.client import KafkaClient, NewRecord, Producer, RecordReader
from barnabas.client.admin_calls import (
    EARLIEST,
    LATEST,
    TOPIC_RESOURCE,
    create_topic,
    describe_configs,
    describe_topic,
    list_offset,
)
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.testing import Node
from tests.client.harness import with_client


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node() as running:
        yield running


def records(*values: bytes) -> list[NewRecord]:
    return [NewRecord(b"key", value, (("h", b"x"), ("n", None))) for value in values]


def test_admin_new_topic_is_described_with_its_configuration(node: Node) -> None:
    async def test(client: KafkaClient) -> None:
        assert await describe_topic(client, "compacted") is None
        configs = {"cleanup.policy": "compact"}
        await create_topic(client, "compacted", partitions=3, configs=configs)
        found = await describe_topic(client, "compacted")
        assert found is not None
        assert (found.partition_count, found.replication_factor) == (3, 1)
        entries = await describe_configs(client, TOPIC_RESOURCE, "compacted")
        assert entries["cleanup.policy"].value == "compact"
        with pytest.raises(KafkaError) as refused:
            await create_topic(client, "compacted")
        assert refused.value.code is ErrorCode.TOPIC_ALREADY_EXISTS

    with_client(node.bootstrap, test)


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_producer_batch_is_read_back_to_the_end(node: Node, compression: str) -> None:
    topic = f"round-trip-{compression}"

    async def test(client: KafkaClient) -> None:
        await create_topic(client, topic)
        producer = Producer(client)
        assert await producer.send(topic, 0, records(b"a", b"b")) == 0
        assert await producer.send(topic, 0, [NewRecord(None, None, (), 1234)]) == 2
        assert await list_offset(client, topic, 0, EARLIEST) == 0
        end = await list_offset(client, topic, 0, LATEST)
        reader = RecordReader(client, topic, 0, 0)
        found = [record async for record in reader.until(end)]
        assert [record.value for record in found] == [b"a", b"b", None]
        assert found[0].headers == (("h", b"x"), ("n", None))
        assert (found[2].timestamp, reader.position, reader.high_watermark) == (1234, 3, 3)

    with_client(node.bootstrap, test, compression_type=compression)


def test_producer_sends_at_once_share_batches_and_keep_their_order(node: Node) -> None:
    offsets: dict[int, int] = {}

    async def test(client: KafkaClient) -> None:
        await create_topic(client, "many")
        producer = Producer(client)

        async def send(number: int) -> None:
            offsets[number] = await producer.send("many", 0, records(b"%d" % number))

        async with trio.open_nursery() as nursery:
            for number in range(300):
                nursery.start_soon(send, number)
        reader = RecordReader(client, "many", 0, 0)
        found = {record.offset: record.value async for record in reader.until(300)}
        assert {offset: b"%d" % number for number, offset in offsets.items()} == found

    with_client(node.bootstrap, test)


def test_producer_record_above_the_limit_is_refused_and_the_next_is_written(node: Node) -> None:
    async def test(client: KafkaClient) -> None:
        await create_topic(client, "small", configs={"max.message.bytes": "1000"})
        producer = Producer(client)
        assert await producer.send("small", 0, records(b"a")) == 0
        with pytest.raises(KafkaError) as refused:
            await producer.send("small", 0, records(b"x" * 2000))
        assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE
        assert await producer.send("small", 0, records(b"b")) == 1

    with_client(node.bootstrap, test)


def test_reader_waits_for_records_that_come_later(node: Node) -> None:
    async def test(client: KafkaClient) -> None:
        await create_topic(client, "later")
        found: list[bytes | None] = []

        async def read() -> None:
            async for record in RecordReader(client, "later", 0, 0):
                found.append(record.value)
                if len(found) == 3:
                    return

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            producer = Producer(client)
            for value in (b"a", b"b", b"c"):
                await trio.sleep(0.02)
                await producer.send("later", 0, records(value))
        assert found == [b"a", b"b", b"c"]

    with_client(node.bootstrap, test)


def test_reader_position_beyond_the_end_raises_offset_out_of_range(node: Node) -> None:
    async def test(client: KafkaClient) -> None:
        await create_topic(client, "short")
        with pytest.raises(KafkaError) as refused:
            await RecordReader(client, "short", 0, 5).fetch()
        assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE

    with_client(node.bootstrap, test)


def test_list_offset_by_time_finds_the_first_record_since(node: Node) -> None:
    async def test(client: KafkaClient) -> None:
        await create_topic(client, "times", configs={"retention.ms": "-1"})
        for time in (1000, 2000, 3000):
            await Producer(client).send("times", 0, [NewRecord(b"k", b"v", (), time)])
        assert await list_offset(client, "times", 0, 1500) == 1
        assert await list_offset(client, "times", 0, 9000) == -1

    with_client(node.bootstrap, test)

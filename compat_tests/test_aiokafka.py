"""aiokafka: asyncio's producer and consumer."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

CODECS = [None, "gzip", "snappy", "lz4", "zstd"]


def run(scenario: Callable[[], Awaitable[None]], timeout_s: float = 90) -> None:
    asyncio.run(asyncio.wait_for(scenario(), timeout_s))


async def read(consumer: AIOKafkaConsumer, count: int) -> list:
    records: list = []
    while len(records) < count:
        for batch in (await consumer.getmany(timeout_ms=200)).values():
            records.extend(batch)
    return records


@pytest.mark.parametrize("codec", CODECS)
def test_records_come_back_with_every_codec(bootstrap, topics, codec) -> None:
    from aiokafka import codec as packages

    if codec is not None and not getattr(packages, f"has_{codec}")():
        pytest.skip(f"aiokafka has no package for {codec} here")
    topic = topics.create("aio-codec")

    async def scenario() -> None:
        idempotent = {"enable_idempotence": True, "compression_type": codec}
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, **idempotent) as producer:
            sent = [
                await producer.send(topic, b"v%d" % i, key=b"k", headers=[("h", b"%d" % i)])
                for i in range(500)
            ]
            done = await asyncio.gather(*sent)
        assert [metadata.offset for metadata in done] == list(range(500))
        async with AIOKafkaConsumer(
            topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest"
        ) as consumer:
            records = await read(consumer, 500)
        assert [r.value for r in records] == [b"v%d" % i for i in range(500)]
        assert list(records[7].headers) == [("h", b"7")]

    run(scenario)


def test_a_rebalance_and_a_commit_lose_and_repeat_nothing(bootstrap, topics, unique) -> None:
    topic, group = topics.create("aio-group", partitions=4), unique("g")
    settings = {
        "bootstrap_servers": bootstrap,
        "group_id": group,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "heartbeat_interval_ms": 200,
        "session_timeout_ms": 6000,
    }

    async def scenario() -> None:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
            for i in range(200):
                await producer.send_and_wait(topic, b"%d" % i, partition=i % 4)
        first = AIOKafkaConsumer(topic, **settings)
        await first.start()
        values = [record.value for record in await read(first, 100)]
        await first.commit()
        second = AIOKafkaConsumer(topic, **settings)
        await second.start()
        while [len(first.assignment()), len(second.assignment())] != [2, 2]:
            for consumer in (first, second):
                for batch in (await consumer.getmany(timeout_ms=100)).values():
                    values += [record.value for record in batch]
        while len(set(values)) < 200:
            for consumer in (first, second):
                for batch in (await consumer.getmany(timeout_ms=100)).values():
                    values += [record.value for record in batch]
        await first.commit()
        await second.commit()
        await first.stop()
        await second.stop()
        async with AIOKafkaConsumer(topic, **settings) as third:
            assert await third.getmany(timeout_ms=2000) == {}
            assert {await third.committed(TopicPartition(topic, p)) for p in range(4)} == {50}
        assert set(values) == {b"%d" % i for i in range(200)}

    run(scenario)


def test_positions_are_sought_and_looked_up_by_time(bootstrap, topics) -> None:
    topic = topics.create("aio-seek")
    partition = TopicPartition(topic, 0)

    async def scenario() -> None:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
            for i in range(50):
                await producer.send_and_wait(topic, b"%d" % i, timestamp_ms=1_700_000_000_000 + i)
        async with AIOKafkaConsumer(bootstrap_servers=bootstrap) as consumer:
            consumer.assign([partition])
            assert await consumer.beginning_offsets([partition]) == {partition: 0}
            assert await consumer.end_offsets([partition]) == {partition: 50}
            found = await consumer.offsets_for_times({partition: 1_700_000_000_020})
            assert found[partition].offset == 20
            consumer.seek(partition, 33)
            assert (await consumer.getone()).offset == 33

    run(scenario)

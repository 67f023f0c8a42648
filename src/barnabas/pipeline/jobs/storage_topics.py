"""Connect's three topics in Kafka: creating and checking them, reading them, appending to them."""

import logging
from collections.abc import Callable, Sequence
from typing import Final

import trio

from barnabas.client import KafkaClient, NewRecord, Producer, RecordReader
from barnabas.client.admin_calls import (
    EARLIEST,
    TOPIC_RESOURCE,
    describe_configs,
    describe_topic,
    ensure_topic,
    list_offset,
)
from barnabas.pipeline.data.key_partitioner import partition_of
from barnabas.pipeline.jobs.runner_settings import StorageTopic
from barnabas.protocol.batches.record_decoding import Record

logger = logging.getLogger(__name__)

_WATCH_S: Final = 30.0
_READ_S: Final = 0.5
_REPLICAS_MAX: Final = 3

Replay = Callable[[Record], None]
KeyValue = tuple[bytes, bytes | None]


class StorageTopicError(Exception):
    """A topic exists but cannot be used: its records would be lost."""


async def prepare_topic(client: KafkaClient, topic: StorageTopic, *, is_single: bool) -> int:
    """Create the topic unless it exists; return its number of partitions.

    Raises StorageTopicError when it is not compacted, or `is_single` and it has more than one
    partition.
    """
    found = await describe_topic(client, topic.name)
    if found is None:
        await _create(client, topic)
        found = await describe_topic(client, topic.name)
    count = topic.partitions if found is None else found.partition_count
    if is_single and count != 1:
        raise StorageTopicError(f"topic {topic.name} has {count} partitions: it must have one")
    policy = (await describe_configs(client, TOPIC_RESOURCE, topic.name)).get("cleanup.policy")
    if policy is None or policy.value != "compact":
        shown = None if policy is None else policy.value
        raise StorageTopicError(
            f"topic {topic.name} has cleanup.policy={shown}: its records would be deleted; set it "
            "to compact"
        )
    return count


async def _create(client: KafkaClient, topic: StorageTopic) -> None:
    factor = topic.replication_factor
    if factor < 0:
        factor = max(1, min(_REPLICAS_MAX, len(client.metadata.brokers)))
    created = await ensure_topic(
        client,
        topic.name,
        partitions=topic.partitions,
        replication_factor=factor,
        configs={"cleanup.policy": "compact"},
    )
    if created:
        logger.info("created topic=%s partitions=%d", topic.name, topic.partitions)


class StorageLog:
    """Replays all partitions of one topic, and appends to it by the murmur2 hash of the key."""

    def __init__(self, client: KafkaClient, topic: str, partitions: int, replay: Replay) -> None:
        self.topic = topic
        self._client = client
        self._replay = replay
        self._producer = Producer(client)
        self._readers = [
            RecordReader(client, topic, partition, 0, read_committed=True)
            for partition in range(partitions)
        ]
        self._replayed = trio.Event()

    async def read_to_end(self) -> None:
        """Replay what the topic holds now."""
        async with trio.open_nursery() as nursery:
            for reader in self._readers:
                nursery.start_soon(self._read_partition, reader)

    async def _read_partition(self, reader: RecordReader) -> None:
        start = await list_offset(self._client, self.topic, reader.partition, EARLIEST)
        reader.position = max(start, 0)
        end = await self._end(reader.partition)
        while reader.position < end:
            await self._fetch(reader, _READ_S)

    async def follow(self) -> None:
        """Replay new records for as long as the task runs."""
        async with trio.open_nursery() as nursery:
            for reader in self._readers:
                nursery.start_soon(self._follow_partition, reader)

    async def _follow_partition(self, reader: RecordReader) -> None:
        while True:
            await self._fetch(reader, _WATCH_S)

    async def append(self, records: Sequence[KeyValue]) -> None:
        """Append records and return once they are replayed. Raises ClientError or KafkaError."""
        by_partition: dict[int, list[NewRecord]] = {}
        for key, value in records:
            partition = partition_of(key, len(self._readers))
            by_partition.setdefault(partition, []).append(NewRecord(key, value))
        for partition, batch in by_partition.items():
            await self._producer.send(self.topic, partition, batch)
        for partition in by_partition:
            await self._catch_up(self._readers[partition])

    async def catch_up(self) -> None:
        """Return once everything that the topic holds now is replayed; `follow` must run."""
        for reader in self._readers:
            await self._catch_up(reader)

    async def replayed_to(self, offset: int) -> None:
        """Return once the topic's only partition is replayed up to an offset."""
        (reader,) = self._readers
        await self._wait_for(reader, offset)

    async def _catch_up(self, reader: RecordReader) -> None:
        await self._wait_for(reader, await self._end(reader.partition))

    async def _wait_for(self, reader: RecordReader, offset: int) -> None:
        while reader.position < offset:
            await self._replayed.wait()

    async def _end(self, partition: int) -> int:
        """Return the last stable offset: records of open transactions are not read."""
        return await list_offset(self._client, self.topic, partition, read_committed=True)

    async def _fetch(self, reader: RecordReader, max_wait_s: float) -> None:
        for record in await reader.fetch(max_wait_s):
            self._replay(record)
        self._replayed.set()
        self._replayed = trio.Event()

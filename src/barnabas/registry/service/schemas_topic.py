"""The topic of the registry: creating and checking it, reading it to its end, appending."""

import logging
from collections import deque
from collections.abc import Sequence

import attrs
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
from barnabas.protocol.batches.record_decoding import Record
from barnabas.registry.core.registry_core import RegistryCore
from barnabas.registry.core.topic_records import TopicRecord

logger = logging.getLogger(__name__)

REPLICAS_MAX = 3
_PARTITION = 0
_WATCH_S = 30.0
_WRITE_TIMEOUT_S = 30.0
_UNDONE_MAX = 1000


class TopicRefusedError(Exception):
    """The topic exists but cannot be used: serving from it would lose schemas."""


async def prepare_topic(client: KafkaClient, topic: str) -> None:
    """Create the topic unless it is there, and check that it keeps the last record of a key.

    Raises TopicRefusedError when the topic has several partitions or another cleanup policy.
    """
    found = await describe_topic(client, topic)
    if found is None:
        replicas = max(1, min(REPLICAS_MAX, len(client.metadata.brokers)))
        created = await ensure_topic(
            client,
            topic,
            partitions=1,
            replication_factor=replicas,
            configs={"cleanup.policy": "compact"},
        )
        if created:
            logger.info("created topic=%s replicas=%d", topic, replicas)
    elif found.partition_count != 1:
        raise TopicRefusedError(
            f"topic {topic} has {found.partition_count} partitions: it must have one"
        )
    policy = (await describe_configs(client, TOPIC_RESOURCE, topic)).get("cleanup.policy")
    if policy is None or policy.value != "compact":
        raise TopicRefusedError(
            f"topic {topic} has cleanup.policy={policy and policy.value}: schemas would be "
            "deleted; set it to compact"
        )


@attrs.frozen
class Appended:
    """The place of appended records."""

    first_offset: int
    count: int

    @property
    def end(self) -> int:
        """Return the offset after the records."""
        return self.first_offset + self.count


class SchemasTopic:
    """Replays the topic into a core and appends to it."""

    def __init__(self, client: KafkaClient, topic: str, core: RegistryCore) -> None:
        self._client = client
        self._topic = topic
        self._core = core
        self._producer = Producer(client)
        self._reader: RecordReader | None = None
        self._replayed = trio.Event()
        self.position = 0
        self._undone: deque[int] = deque(maxlen=_UNDONE_MAX)

    async def read_to_end(self) -> None:
        """Replay what the topic holds now."""
        start = await list_offset(self._client, self._topic, _PARTITION, EARLIEST)
        self._reader = RecordReader(self._client, self._topic, _PARTITION, max(start, 0))
        self.position = self._reader.position
        end = await self.end()
        while self.position < end:
            await self._fetch(0.5)

    async def follow(self) -> None:
        """Replay new records for as long as the task runs."""
        while True:
            await self._fetch(_WATCH_S)

    async def end(self) -> int:
        """Return the offset of the next record of the topic."""
        return await list_offset(self._client, self._topic, _PARTITION)

    async def wait_replayed(self, end: int) -> None:
        """Return when all records before an offset are replayed."""
        while self.position < end:
            await self._replayed.wait()

    async def append(self, records: Sequence[TopicRecord]) -> Appended:
        """Append records as one batch and wait until they are replayed.

        Raises ClientError or KafkaError when they are not acknowledged, RecordError when they
        could not be read back.
        """
        written = [NewRecord(key, value) for key, value in self._core.encoded(records)]
        first = await self._producer.send(self._topic, _PARTITION, written)
        # The broker does not know the offset of a batch that it had before: read to the end.
        end = await self.end() if first < 0 else first + len(written)
        with trio.fail_after(_WRITE_TIMEOUT_S):
            await self.wait_replayed(end)
        return Appended(end - len(written), len(written))

    def counts(self, appended: Appended) -> bool:
        """True when all appended records count: none came after one that excludes it."""
        return not any(appended.first_offset <= offset < appended.end for offset in self._undone)

    async def _fetch(self, max_wait_s: float) -> None:
        if self._reader is None:
            raise RuntimeError("the topic is followed before it is read to its end")
        for record in await self._reader.fetch(max_wait_s):
            self.replay(record)
        self.position = self._reader.position
        self._replayed.set()
        self._replayed = trio.Event()

    def replay(self, record: Record) -> None:
        """Take one record into the core."""
        undone = self._core.state.undone_records
        skipped = self._core.replay(
            record.key, record.value, offset=record.offset, timestamp_ms=record.timestamp
        )
        if skipped is not None:
            logger.warning(
                "skipping record topic=%s offset=%d reason=%s",
                self._topic,
                skipped.offset,
                skipped.reason,
            )
        if self._core.state.undone_records > undone:
            self._undone.append(record.offset)
            logger.warning(
                "ignoring other content of a known id or version topic=%s offset=%d",
                self._topic,
                record.offset,
            )

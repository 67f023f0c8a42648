"""Reading and writing MirrorMaker 2's own topics: one partition, compacted."""

from collections.abc import Collection, Iterable
from typing import Final, Protocol

from barnabas.client import ClientError, KafkaClient, NewRecord, Producer, RecordReader
from barnabas.client.admin_calls import (
    BROKER_DEFAULT,
    EARLIEST,
    LATEST,
    describe_topic,
    ensure_topic,
    list_offset,
)
from barnabas.pipeline.mirror.flow_connector import SyncTopic
from barnabas.pipeline.mirror.mirrormaker.internal_records import InternalRecordError, OffsetSync
from barnabas.pipeline.mirror.mirrormaker.offset_translation import (
    OffsetSyncStore,
    Partition,
    PartitionSyncs,
    SyncPoint,
)
from barnabas.protocol.batches.record_decoding import Record
from barnabas.protocol.errors import KafkaError

_COMPACTED: Final = {"cleanup.policy": "compact"}


class Written(Protocol):
    """A record with a key and a value."""

    def key(self) -> bytes:
        """Return the key."""
        ...

    def value(self) -> bytes:
        """Return the value."""
        ...


class InternalTopic:
    """One topic of MirrorMaker 2 at one cluster, which is created when it is missing."""

    def __init__(
        self, client: KafkaClient, name: str, replication_factor: int = BROKER_DEFAULT
    ) -> None:
        self.name = name
        self._client = client
        self._replication_factor = replication_factor
        self._producer: Producer | None = None
        self._position = 0

    async def create(self) -> None:
        """Create the topic unless it exists. Raises KafkaError, ClientError."""
        if await describe_topic(self._client, self.name) is None:
            await ensure_topic(
                self._client,
                self.name,
                partitions=1,
                replication_factor=self._replication_factor,
                configs=_COMPACTED,
            )

    async def new_records(self) -> list[Record]:
        """Return the records since the last call, or all; up to the end of now.

        Raises KafkaError, ClientError.
        """
        found, self._position = await stored_records(self._client, self.name, 0, self._position)
        return found

    async def write(self, records: Iterable[Written], timestamp_ms: int | None = None) -> None:
        """Append records. Raises KafkaError, ClientError."""
        found = [
            NewRecord(key=each.key(), value=each.value(), timestamp=timestamp_ms)
            for each in records
        ]
        if found:
            if self._producer is None:
                self._producer = Producer(self._client)
            await self._producer.send(self.name, 0, found)


async def stored_records(
    client: KafkaClient, topic: str, partition: int, position: int = 0
) -> tuple[list[Record], int]:
    """Return the committed records from a position up to the end of now, and this end.

    Raises KafkaError, ClientError.
    """
    start = await list_offset(client, topic, partition, EARLIEST)
    end = await list_offset(client, topic, partition, LATEST)
    position = max(start, position)
    if end < position:  # the topic was created again
        position = start
    reader = RecordReader(client, topic, partition, position, read_committed=True)
    try:
        return [record async for record in reader.until(end)], end
    finally:
        reader.close()


class OffsetSyncs:
    """The offset syncs of a flow: those in its topic, and newer ones that are not written yet."""

    def __init__(self, topic: InternalTopic) -> None:
        self.topic = topic
        self._store = OffsetSyncStore()
        self._pending: dict[Partition, PartitionSyncs] = {}
        self._is_loaded = False

    @classmethod
    def of(cls, place: SyncTopic, source: KafkaClient, target: KafkaClient) -> "OffsetSyncs":
        """Return the syncs in a topic of one of the clusters."""
        side = source if place.at_source else target
        return cls(InternalTopic(side, place.name, place.replication_factor))

    def add(self, where: Partition, points: Collection[SyncPoint]) -> None:
        """Take in the syncs of a copy, in order."""
        for point in points:
            self._pending.setdefault(where, PartitionSyncs()).add(point)

    def translate(self, where: Partition, offset: int) -> int | None:
        """Return the target's offset for one of the source; see PartitionSyncs."""
        return self._store.translate(where, offset)

    async def follow(self) -> None:
        """Read the topic the first time, and write the syncs that it lacks.

        Raises KafkaError, ClientError.
        """
        if not self._is_loaded:
            await self.refresh()
        pending, self._pending = self._pending, {}
        try:
            await self.topic.write(
                OffsetSync(*where, *point)
                for where, syncs in pending.items()
                for point in syncs.points()
            )
        except (KafkaError, ClientError):
            self._pending = pending
            raise
        for where, syncs in pending.items():
            for point in syncs.points():
                self._store.add(where, point)

    async def refresh(self) -> None:
        """Read what is new in the topic. Raises KafkaError, ClientError."""
        if not self._is_loaded:
            await self.topic.create()
        for record in await self.topic.new_records():
            self._take(record)
        self._is_loaded = True

    def _take(self, record: Record) -> None:
        """Take in a record of the topic; one of an unknown format is passed over."""
        try:
            sync = OffsetSync.of(record.key, record.value)
        except InternalRecordError:
            return
        point = SyncPoint(sync.upstream, sync.downstream)
        self._store.add((sync.topic, sync.partition), point)

"""From a topic to a view's store: read committed records, apply them, notice what changed.

One task reads each partition. Before records are applied, the topic's id is compared with that of
the stored rows: the client fetches by the id that its metadata has, so records of a recreated topic
are never applied to rows of its predecessor.
"""

import logging
import time
from collections.abc import Callable
from typing import Final

import attrs
import trio

from barnabas.client import KafkaClient, RecordReader
from barnabas.client.admin_calls import (
    EARLIEST,
    TOPIC_RESOURCE,
    describe_configs,
    describe_topic,
    list_offset,
)
from barnabas.pipeline.views.view_keys import BadViewKeyError, ViewKeys
from barnabas.pipeline.views.view_store import Change, Origin, ViewStore
from barnabas.protocol.batches.record_decoding import Record
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.types import ZERO_UUID

logger = logging.getLogger(__name__)

_WAIT_S: Final = 0.5
_MISSING_TOPIC_S: Final = 1.0
_REFRESH_S: Final = 15.0
_DELETE_RETENTION: Final = "delete.retention.ms"


class ViewTopicError(Exception):
    """The records of a topic do not suit the view; reading them again gives the same."""


class _RebuildError(Exception):
    """The stored rows are of no use; the message names the reason."""


@attrs.define
class FeedFigures:
    """Figures of a feed since it started."""

    records: int = 0
    null_keys: int = 0
    """Records without a key, which no row can hold."""
    rebuilds: int = 0
    rebuilt_because: str | None = None
    batches: int = 0
    updated_ms: int = 0
    oldest_ms: int = 0
    """The timestamp of the oldest record of the newest batch."""
    topic_id: str = ""
    positions: dict[int, int] = attrs.field(factory=dict[int, int])
    ends: dict[int, int] = attrs.field(factory=dict[int, int])


class ViewFeed:
    """Keeps one store equal to one topic, until it is cancelled."""

    def __init__(
        self,
        client: KafkaClient,
        store: ViewStore,
        topic: str,
        keys: ViewKeys,
        now_ms: Callable[[], int] = lambda: int(time.time() * 1000),
    ) -> None:
        self.figures = FeedFigures()
        self.moved = trio.Event()
        """Set, and replaced, when a position moves."""
        self._client = client
        self._store = store
        self._topic = topic
        self._keys = keys
        self._now_ms = now_ms
        self._started_ms = 0
        self._targets: dict[int, int] = {}
        """The end that each partition had when the feed started."""
        self._prepared_id: str | None = None
        """The id of the topic whose partitions are read; None until their positions are known."""
        self._current_ms: dict[int, int] = {}
        """For each partition the newest time at which all its records were applied."""

    async def run(self) -> None:
        """Feed the store. Raises ViewTopicError, or KafkaError when the broker refuses."""
        reason: str | None = None
        while True:
            origin, partitions = await self._find_topic()
            if reason is None:
                reason = self._store.open(origin)
                reason = reason or await self._missed_tombstones()
            if reason is not None:
                self._rebuild(origin, reason)
            try:
                await self._read(origin, partitions)
            except* _RebuildError as group:
                reason = str(first_error(group))
            finally:
                self._prepared_id = None

    def _rebuild(self, origin: Origin, reason: str) -> None:
        logger.warning("rebuilding view path=%s reason=%s", self._store.path, reason)
        self._store.reset(origin)
        self.figures.rebuilds += 1
        self.figures.rebuilt_because = reason

    async def _find_topic(self) -> tuple[Origin, int]:
        """Return the topic's origin and its number of partitions; wait for one that is missing."""
        is_reported = False
        while (found := await describe_topic(self._client, self._topic)) is None:
            if not is_reported:
                logger.warning("waiting for a topic that does not exist topic=%s", self._topic)
                is_reported = True
            await trio.sleep(_MISSING_TOPIC_S)
        topic_id = _id_text(found.topic_id)
        self.figures.topic_id = topic_id
        cluster = self._client.metadata.cluster_id or ""
        keys = f"{self._keys.form} of {self._keys.size_ms} ms" if self._keys.size_ms else ""
        return Origin(cluster, self._topic, topic_id, keys or str(self._keys.form)), (
            found.partition_count
        )

    async def _missed_tombstones(self) -> str | None:
        """Return why records that removed keys may be gone, or None.

        Compaction deletes them `delete.retention.ms` after they were written.
        """
        if not self._store.is_built:
            return None
        configs = await describe_configs(self._client, TOPIC_RESOURCE, self._topic)
        policy, retention = configs.get("cleanup.policy"), configs.get(_DELETE_RETENTION)
        if policy is None or "compact" not in (policy.value or "") or retention is None:
            return None
        behind_ms = self._now_ms() - self._store.current_at_ms
        if behind_ms <= int(retention.value or 0):
            return None
        return (
            f"the view is {behind_ms} ms old, and topic {self._topic} keeps the removals of keys "
            f"for {_DELETE_RETENTION}={retention.value}"
        )

    async def _read(self, origin: Origin, partitions: int) -> None:
        """Read all partitions until one needs a rebuild. Raises _RebuildError in a group."""
        stored = self._store.positions()
        self.figures.positions = dict(stored)
        self._started_ms = self._now_ms()
        self._current_ms.clear()
        self._targets.clear()
        for partition in range(partitions):
            await self._prepare(partition, stored)
        self._note_current()
        self._prepared_id = origin.topic_id
        self._wake()
        async with trio.open_nursery() as nursery:
            for partition in range(partitions):
                nursery.start_soon(self._read_partition, origin, partition)
            nursery.start_soon(self._watch_topic, origin, partitions, nursery)

    async def _prepare(self, partition: int, stored: dict[int, int]) -> None:
        """Set the position of a partition, and the end up to which it must be read first."""
        start = stored.get(partition)
        if start is None:
            start = await list_offset(self._client, self._topic, partition, EARLIEST)
        end = await list_offset(self._client, self._topic, partition, read_committed=True)
        self.figures.positions[partition] = start
        self.figures.ends[partition] = self._targets[partition] = end
        if start >= end:
            self._current_ms[partition] = self._started_ms

    async def _read_partition(self, origin: Origin, partition: int) -> None:
        reader = RecordReader(
            self._client,
            self._topic,
            partition,
            self.figures.positions[partition],
            read_committed=True,
        )
        while True:
            before, asked_ms = reader.position, self._now_ms()
            try:
                records = await reader.fetch(_WAIT_S)
            except KafkaError as error:
                self._check_id(origin)
                if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                    raise
                raise _RebuildError(
                    f"offset {before} of {self._topic}-{partition} is no longer in the log: "
                    "records were deleted or truncated before the view read them"
                ) from None
            self._check_id(origin)
            if reader.position == before:  # it waited at the end of the committed records
                self._current_ms[partition] = asked_ms
            else:
                self._take(partition, before, reader, records)
            self.figures.ends[partition] = max(reader.high_watermark, reader.position)
            self._note_current()
            self._wake()

    def _wake(self) -> None:
        self.moved.set()
        self.moved = trio.Event()

    def _check_id(self, origin: Origin) -> None:
        """Raise _RebuildError when the topic was recreated."""
        found = self._client.metadata.topic(self._topic)
        if found is None or found.topic_id == ZERO_UUID or found.topic_id.hex() == origin.topic_id:
            return
        now = attrs.evolve(origin, topic_id=found.topic_id.hex())
        raise _RebuildError(str(origin.difference(now)))

    def _take(
        self, partition: int, before: int, reader: RecordReader, records: list[Record]
    ) -> None:
        self._store.apply(partition, before, reader.position, self._changes(partition, records))
        figures = self.figures
        figures.positions[partition] = reader.position
        figures.records += len(records)
        figures.batches += 1
        figures.updated_ms = self._now_ms()
        figures.oldest_ms = min((each.timestamp for each in records), default=0)
        if reader.position >= self._targets[partition]:
            self._current_ms.setdefault(partition, self._started_ms)

    def _note_current(self) -> None:
        """Store up to when the view is current, at once when it is built, later once in a while."""
        if len(self._current_ms) < len(self._targets):
            return
        current_ms = min(self._current_ms.values(), default=self._started_ms)
        if not self._store.is_built:
            logger.info("built view path=%s records=%d", self._store.path, self.figures.records)
        elif current_ms - self._store.current_at_ms < _REFRESH_S * 1000:
            return
        self._store.note_current(current_ms)

    def _changes(self, partition: int, records: list[Record]) -> list[Change]:
        changes: list[Change] = []
        for record in records:
            if record.key is None:
                self.figures.null_keys += 1
                continue
            try:
                key = self._keys.row_key(record.key)
            except BadViewKeyError as error:
                place = f"{self._topic}-{partition}@{record.offset}"
                raise ViewTopicError(f"{error} at {place}") from None
            changes.append(Change(key, record.value, record.timestamp))
        return changes

    async def _watch_topic(self, origin: Origin, partitions: int, nursery: trio.Nursery) -> None:
        """Start to read partitions that are added."""
        while True:
            await trio.sleep(_REFRESH_S)
            found = await describe_topic(self._client, self._topic)
            self._check_id(origin)
            count = 0 if found is None else found.partition_count
            for partition in range(partitions, count):
                await self._prepare(partition, {})
                nursery.start_soon(self._read_partition, origin, partition)
            partitions = max(partitions, count)

    async def catch_up(self) -> None:
        """Return once the store holds all that the topic holds now; at once without a topic."""
        await self.built()
        found = await describe_topic(self._client, self._topic)
        if found is None:
            return
        ends = [
            await list_offset(self._client, self._topic, partition, read_committed=True)
            for partition in range(found.partition_count)
        ]
        await self._until(lambda: self._holds(_id_text(found.topic_id), ends))

    def _holds(self, topic_id: str, ends: list[int]) -> bool:
        """True when the store has a topic's records up to the end of each partition."""
        positions = self.figures.positions
        return (
            self._prepared_id == topic_id
            and self._store.is_built
            and all(positions.get(partition, 0) >= end for partition, end in enumerate(ends))
        )

    async def built(self) -> None:
        """Return once the view has read its topic up to an end."""
        await self._until(lambda: self._store.is_built)

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await self.moved.wait()


def _id_text(topic_id: bytes) -> str:
    """Return a topic's id as the store has it: empty for a broker without topic ids."""
    return topic_id.hex() if topic_id != ZERO_UUID else ""


def first_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first error of nested groups."""
    error: BaseException = group
    while inner := getattr(error, "exceptions", None):
        error = inner[0]
    return error

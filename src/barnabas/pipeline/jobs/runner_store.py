"""The runner's view of Connect's three topics, and its writes to them."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import trio

from barnabas.client import KafkaClient
from barnabas.pipeline.delivery.plan.kafka_properties import for_librdkafka
from barnabas.pipeline.jobs.configs_writer import ConfigsWriteError, ConfigsWriter
from barnabas.pipeline.jobs.core.store_records import (
    ActiveTopicRecord,
    ConfigRecord,
    LoggerRecord,
    OffsetRecord,
    RestartRecord,
    SourceTopicRecord,
    StatusRecord,
    UnreadableRecordError,
    decode_config,
    decode_offset,
    decode_status,
    encode_config,
    encode_offset,
    encode_status,
)
from barnabas.pipeline.jobs.core.store_state import StoreState
from barnabas.pipeline.jobs.runner_settings import RunnerSettings, StorageTopic
from barnabas.pipeline.jobs.storage_topics import KeyValue, StorageLog, prepare_topic
from barnabas.protocol.batches.record_decoding import Record

logger = logging.getLogger(__name__)

T = TypeVar("T")


class RunnerStore:
    """Configurations, statuses and offsets of all connectors of a group."""

    def __init__(
        self, client: KafkaClient, settings: RunnerSettings, *, reads_offsets: bool = True
    ) -> None:
        self.state = StoreState()
        self.changed = trio.Event()
        """Set, and replaced, when a configuration changes."""
        self.on_restart: Callable[[RestartRecord], None] = lambda record: None
        """Called for requests to restart that were written after the start."""
        self.on_logger: Callable[[LoggerRecord], None] = lambda record: None
        self.on_fenced: Callable[[], None] = lambda: None
        """Called when another runner has taken over the configurations."""
        self._client = client
        self._settings = settings
        self._is_read = False
        self._reads_offsets = reads_offsets
        properties = for_librdkafka(settings.client_properties)
        self._writer = ConfigsWriter(properties, settings.group_id, settings.configs.name)
        self._configs: StorageLog | None = None
        self._status: StorageLog | None = None
        self._offsets: StorageLog | None = None

    async def open(self) -> None:
        """Create the topics where they are missing, and replay what they hold.

        Raises StorageTopicError, or what the client raises.
        """
        settings = self._settings
        self._configs = await self._log(settings.configs, self._replay_config, is_single=True)
        self._status = await self._log(settings.status, self._replay_status)
        if self._reads_offsets:
            self._offsets = await self._log(settings.offsets, self._replay_offset)
        async with trio.open_nursery() as nursery:
            for log in self._logs():
                nursery.start_soon(log.read_to_end)
        self._is_read = True
        logger.info(
            "read topics configs=%s connectors=%d",
            settings.configs.name,
            len(self.state.connectors),
        )

    async def _log(
        self, topic: StorageTopic, replay: Callable[[Record], None], *, is_single: bool = False
    ) -> StorageLog:
        partitions = await prepare_topic(self._client, topic, is_single=is_single)
        return StorageLog(self._client, topic.name, partitions, replay)

    async def follow(self) -> None:
        """Replay new records for as long as the task runs."""
        async with trio.open_nursery() as nursery:
            for log in self._logs():
                nursery.start_soon(log.follow)

    def _logs(self) -> list[StorageLog]:
        return [log for log in (self._configs, self._status, self._offsets) if log is not None]

    async def take_over(self) -> None:
        """Become the only writer of configurations, at their end. Raises ConfigsWriteError."""
        await self._writer.take_over()
        await self.catch_up()

    async def release(self) -> None:
        """Refuse to write configurations until the next `take_over`."""
        await self._writer.release()

    async def catch_up(self) -> None:
        """Return once all configurations are replayed."""
        await _opened(self._configs).catch_up()

    async def catch_up_offsets(self) -> None:
        """Return once all offsets are replayed."""
        await _opened(self._offsets).catch_up()

    async def write_configs(self, records: Sequence[ConfigRecord]) -> None:
        """Write records in one transaction; return once they are replayed.

        Raises ConfigsWriteError.
        """
        await self.write_with(records, {})

    async def write_with(
        self, records: Sequence[ConfigRecord], others: Mapping[str, Sequence[KeyValue]]
    ) -> Mapping[str, int]:
        """Write configurations, and records of other topics, in one transaction.

        Return the offset behind the last record of each topic, once the configurations are
        replayed. Raises ConfigsWriteError.
        """
        own = [encode_config(record) for record in records]
        topic = self._settings.configs.name
        given = {topic: own, **others}
        try:
            following = await self._writer.write_all({k: v for k, v in given.items() if v})
        except ConfigsWriteError as error:
            if error.is_fenced:
                self.on_fenced()
            raise
        if topic in following:
            await _opened(self._configs).replayed_to(following[topic])
        return following

    async def write_statuses(self, records: Sequence[StatusRecord | ActiveTopicRecord]) -> None:
        """Write records; return once they are replayed. Raises ClientError or KafkaError."""
        await _opened(self._status).append([encode_status(record) for record in records])

    async def write_offsets(self, records: Sequence[OffsetRecord | SourceTopicRecord]) -> None:
        """Write records; return once they are replayed. Raises ClientError or KafkaError."""
        await _opened(self._offsets).append([encode_offset(record) for record in records])

    def _replay_config(self, record: Record) -> None:
        found = self._decoded(record, decode_config)
        if found is None:
            return
        self.state.replay_config(found)
        if isinstance(found, LoggerRecord):
            self.on_logger(found)
        elif isinstance(found, RestartRecord):
            if self._is_read:
                self.on_restart(found)
        else:
            self.changed.set()
            self.changed = trio.Event()

    def _replay_status(self, record: Record) -> None:
        found = self._decoded(record, decode_status)
        if found is not None:
            self.state.replay_status(found)

    def _replay_offset(self, record: Record) -> None:
        found = self._decoded(record, decode_offset)
        if found is not None:
            self.state.replay_offset(found)

    def _decoded(
        self, record: Record, decode: Callable[[bytes, bytes | None], T | None]
    ) -> T | None:
        """Return a record's content, None for one that cannot be read."""
        if record.key is None:
            return None
        try:
            return decode(record.key, record.value)
        except UnreadableRecordError as error:
            logger.warning(
                "ignoring record key=%r offset=%d error=%s", record.key, record.offset, error
            )
            return None


def _opened(log: StorageLog | None) -> StorageLog:
    if log is None:
        raise RuntimeError("the store is used before it is opened")
    return log

"""The topic of the stored catalog, replayed on every runner and written by the active one."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from barnabas.pipeline.jobs.storage_topics import StorageLog, prepare_topic
from barnabas.pipeline.sql.stored.catalog_records import CatalogReplay, changes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.client import KafkaClient
    from barnabas.pipeline.jobs.core.store_records import ConfigRecord
    from barnabas.pipeline.jobs.runner_settings import StorageTopic
    from barnabas.pipeline.jobs.runner_store import RunnerStore
    from barnabas.pipeline.sql.catalog.catalog_changes import Catalog
    from barnabas.protocol.batches.record_decoding import Record

logger: Final = logging.getLogger("barnabas.pipeline.sql")


class CatalogTopic:
    """Replays the catalog; `store` writes it together with configurations of jobs."""

    def __init__(self, client: KafkaClient, topic: StorageTopic, store: RunnerStore) -> None:
        self._client = client
        self._topic = topic
        self._store = store
        self._replay = CatalogReplay()
        self._log: StorageLog | None = None

    @property
    def catalog(self) -> Catalog:
        """Return the catalog as it is replayed now."""
        return self._replay.catalog

    @property
    def problem(self) -> str | None:
        """Return why the catalog is not complete, or None."""
        return self._replay.problem

    async def open(self) -> None:
        """Create the topic unless it exists, and replay it.

        Raises StorageTopicError, or what the client raises.
        """
        partitions = await prepare_topic(self._client, self._topic, is_single=True)
        self._log = StorageLog(self._client, self._topic.name, partitions, self._replayed)
        await self._log.read_to_end()
        if self.problem is not None:
            logger.error("the SQL catalog is not complete: %s", self.problem)
        logger.info("read topic=%s sources=%d", self._topic.name, len(self.catalog.sources))

    async def follow(self) -> None:
        """Replay new records for as long as the task runs."""
        await self._opened().follow()

    async def catch_up(self) -> None:
        """Return once all that is written is replayed."""
        await self._opened().catch_up()

    async def write(
        self, before: Catalog, after: Catalog, configurations: Sequence[ConfigRecord]
    ) -> None:
        """Write a change and the configurations of its jobs, in one transaction.

        Returns once both are replayed. Raises ConfigsWriteError.
        """
        records = changes(before, after)
        name = self._topic.name
        following = await self._store.write_with(configurations, {name: records})
        if name in following:
            await self._opened().replayed_to(following[name])

    def _opened(self) -> StorageLog:
        if self._log is None:
            raise RuntimeError("the catalog is used before it is opened")
        return self._log

    def _replayed(self, record: Record) -> None:
        place = f"offset {record.offset} of topic {self._topic.name}"
        self._replay.apply(record.key, record.value, place)

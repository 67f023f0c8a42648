"""Periodic work on logs: retention, checkpoints, flushes, deleted files, expired producers.

Each task has an interval by Kafka's property and does nothing in between. An error on one partition
is logged and does not affect other partitions. The cleaner, the moves between directories and the
scrubber are started here too.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from barnabas import tasks
from barnabas.clock import Clock
from barnabas.cluster.replication.partition import Partition
from barnabas.log import LogConfig, PartitionLog
from barnabas.protocol.errors import KafkaError
from barnabas.server.storage.log_cleaner import LogCleaner
from barnabas.server.storage.relocation_worker import RelocationWorker
from barnabas.server.storage.scrubber import Scrubber

if TYPE_CHECKING:
    from barnabas.cluster.replication import ReplicaManager
    from barnabas.config import NodeConfig
    from barnabas.log import LogManager
    from barnabas.server.storage.directory_assignments import DirectoryAssignments
    from barnabas.server.storage.disk_threads import DiskThreads
    from barnabas.server.storage.helper_pool import HelperPool

logger = logging.getLogger(__name__)

# The number of logs after which other tasks run: a log that is not open yet takes 0.3 ms.
_LOGS_PER_TURN = 10
_DELETION_INTERVAL_MS = 5_000
_ROLLED_INTERVAL_MS = 1_000
# The default of flush intervals: never.
_NEVER_MS = 2**63 - 1


class BackgroundTasks:
    """The periodic tasks of a node."""

    def __init__(
        self,
        *,
        config: Callable[[], "NodeConfig"],
        logs: "LogManager",
        replicas: "ReplicaManager",
        disk: "DiskThreads",
        helpers: "HelperPool",
        directories: "DirectoryAssignments",
        clock: Clock,
    ) -> None:
        self._config = config
        self._logs = logs
        self._replicas = replicas
        self._disk = disk
        self._now_ms = clock.wall_ms
        self.log_cleaner = LogCleaner(config, logs, replicas, disk, helpers, clock)
        self.relocation_worker = RelocationWorker(logs, replicas, disk, directories, config, clock)
        self.scrubber = Scrubber(config, logs, helpers)

    async def run(self) -> None:
        """Run all tasks until cancelled."""
        config = self._config()
        delay_ms = config.get_int("log.initial.task.delay.ms")
        async with tasks.open_nursery() as nursery:
            for name, work in (
                ("log.retention.check.interval.ms", self.apply_retention),
                ("log.flush.scheduler.interval.ms", self.flush_old),
                ("log.flush.offset.checkpoint.interval.ms", self.checkpoint),
                ("replica.high.watermark.checkpoint.interval.ms", self.checkpoint_high_watermarks),
                ("producer.id.expiration.check.interval.ms", self.expire_producers),
            ):
                interval_ms = config.get_int(name)
                if interval_ms < _NEVER_MS:
                    nursery.start_soon(_every, interval_ms, work, delay_ms)
            nursery.start_soon(_every, _DELETION_INTERVAL_MS, self.remove_deleted)
            nursery.start_soon(_every, _ROLLED_INTERVAL_MS, self.flush_rolled)
            nursery.start_soon(self.log_cleaner.run)
            nursery.start_soon(self.relocation_worker.run)
            nursery.start_soon(self.scrubber.run)

    async def _each_log(self, work: Callable[[PartitionLog], object], what: str) -> None:
        for count, log in enumerate(list(self._logs.logs())):
            try:
                work(log)
            except Exception:
                logger.exception("%s failed topic=%s partition=%d", what, log.topic, log.partition)
            if count % _LOGS_PER_TURN == 0:
                await tasks.checkpoint()

    async def apply_retention(self) -> None:
        """Delete segments by age and size (log.retention.*)."""
        now_ms = self._now_ms()
        for count, partition in enumerate(list(self._replicas.partitions())):
            if count % _LOGS_PER_TURN == 0:
                await tasks.checkpoint()
            try:
                if not self._retention_is_due(partition, now_ms):
                    continue
                deleted = partition.apply_retention(now_ms)
            except Exception:
                logger.exception(
                    "retention failed topic=%s partition=%d",
                    partition.topic,
                    partition.partition,
                )
                continue
            if deleted:
                logger.info(
                    "retention deleted segments=%d topic=%s partition=%d",
                    deleted,
                    partition.topic,
                    partition.partition,
                )

    def _retention_is_due(self, partition: Partition, now_ms: int) -> bool:
        """True when the log may have segments to delete. A log that is not loaded stays so."""
        log = self._logs.known(partition.topic, partition.partition)
        if log is None or log.volume.failure is not None:
            return False
        if log.is_loaded:
            return True
        log.update_config(LogConfig.from_topic(self._replicas.topic_config(partition.topic)))
        return log.retention_is_due(now_ms)

    async def expire_producers(self) -> None:
        """Remove idle producers (producer.id.expiration.ms)."""
        now_ms = self._now_ms()
        expiration_ms = self._config().get_int("producer.id.expiration.ms")
        await self._each_log(
            lambda log: log.expire_producers(now_ms, expiration_ms), "producer expiry"
        )

    async def flush_old(self) -> None:
        """Sync logs whose last flush is more than flush.ms ago."""
        now_ms = self._now_ms()
        for log in list(self._logs.logs()):
            if log.volume.failure is None and log.needs_flush(now_ms):
                try:
                    await self._disk.fsync(log, log.flush)
                except KafkaError as error:  # the log was deleted meanwhile, or its disk failed
                    if log.volume.failure is None:  # a failure has its own line
                        logger.warning("flush failed log=%s error=%s", log.directory, error)

    async def remove_deleted(self) -> None:
        """Remove the files of deleted segments and logs after file.delete.delay.ms."""
        due = self._logs.due_deletions(self._now_ms())
        if due:
            await self._disk.run(self._logs.remove_deleted, due)

    async def flush_rolled(self) -> None:
        """Sync complete segments, so that recovery does not check them."""
        logs = self._logs.take_rolled()
        if logs:
            await self._disk.run(self._logs.flush_rolled, logs)

    async def checkpoint_high_watermarks(self) -> None:
        """Write the high watermarks, which a replica starts with after a kill."""
        await self._disk.run(self._logs.checkpoint_high_watermarks)

    async def checkpoint(self) -> None:
        """Write recovery points, log start offsets and high watermarks."""
        await self._disk.run(self._logs.checkpoint)


async def _every(
    interval_ms: int, work: Callable[[], Awaitable[object]], delay_ms: int = _NEVER_MS
) -> None:
    """Run `work` at each interval, first after the delay where that is shorter."""
    await tasks.sleep(min(interval_ms, delay_ms) / 1000)
    while True:
        try:
            await work()
        except Exception:
            logger.exception("background task failed")
        await tasks.sleep(interval_ms / 1000)

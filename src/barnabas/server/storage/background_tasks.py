"""Work that comes round: retention, checkpoints, flushes, deleted files, expired producers.

Each kind has its interval, told by Kafka's property; between them nothing runs. A fault on one
partition is logged and touches no other.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import trio

from barnabas.cluster.replication.partition import Partition
from barnabas.log import LogConfig, PartitionLog
from barnabas.protocol.errors import KafkaError
from barnabas.server.storage.log_cleaner import LogCleaner
from barnabas.server.storage.relocation_worker import RelocationWorker
from barnabas.server.storage.scrubber import Scrubber

if TYPE_CHECKING:
    from barnabas.server.node.node import Node

logger = logging.getLogger(__name__)

# LogManager.InitialTaskDelayMs: at the start there is enough to do.
_INITIAL_DELAY_MS = 30_000
# Logs handled before other tasks get a turn: one that was not opened yet takes 0.3 ms.
_LOGS_PER_TURN = 10
_DELETION_INTERVAL_MS = 5_000
_ROLLED_INTERVAL_MS = 1_000
# A node that is never flushed by time has this in place of an interval.
_NEVER_MS = 2**63 - 1


class BackgroundTasks:
    """The round tasks of a node."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self.log_cleaner = LogCleaner(node)
        self.relocation_worker = RelocationWorker(node)
        self.scrubber = Scrubber(node)

    async def run(self) -> None:
        """Work until cancelled."""
        config = self._node.config
        async with trio.open_nursery() as nursery:
            for name, work in (
                ("log.retention.check.interval.ms", self.apply_retention),
                ("log.flush.scheduler.interval.ms", self.flush_old),
                ("log.flush.offset.checkpoint.interval.ms", self.checkpoint),
                ("producer.id.expiration.check.interval.ms", self.expire_producers),
            ):
                interval_ms = config.get_int(name)
                if interval_ms < _NEVER_MS:
                    nursery.start_soon(_every, interval_ms, work)
            nursery.start_soon(_every, _DELETION_INTERVAL_MS, self.remove_deleted)
            nursery.start_soon(_every, _ROLLED_INTERVAL_MS, self.flush_rolled)
            nursery.start_soon(self.log_cleaner.run)
            nursery.start_soon(self.relocation_worker.run)
            nursery.start_soon(self.scrubber.run)

    async def _each_log(self, work: Callable[[PartitionLog], object], what: str) -> None:
        for count, log in enumerate(list(self._node.logs.logs())):
            try:
                work(log)
            except Exception:
                logger.exception("%s failed topic=%s partition=%d", what, log.topic, log.partition)
            if count % _LOGS_PER_TURN == 0:
                await trio.lowlevel.checkpoint()

    async def apply_retention(self) -> None:
        """Delete segments that size and time no longer keep (log.retention.*)."""
        now_ms = self._node.now_ms()
        for count, partition in enumerate(list(self._node.replicas.partitions())):
            if count % _LOGS_PER_TURN == 0:
                await trio.lowlevel.checkpoint()
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
        """Whether to look closer: a log that nobody has used since the start is not opened."""
        log = self._node.logs.known(partition.topic, partition.partition)
        if log is None or log.volume.failure is not None:
            return False
        if log.is_loaded:
            return True
        log.update_config(LogConfig.from_topic(self._node.replicas.topic_config(partition.topic)))
        return log.retention_is_due(now_ms)

    async def expire_producers(self) -> None:
        """Forget idle producers (producer.id.expiration.ms)."""
        now_ms = self._node.now_ms()
        expiration_ms = self._node.config.get_int("producer.id.expiration.ms")
        await self._each_log(
            lambda log: log.expire_producers(now_ms, expiration_ms), "producer expiry"
        )

    async def flush_old(self) -> None:
        """Sync logs that were last flushed longer than flush.ms ago."""
        now_ms = self._node.now_ms()
        for log in list(self._node.logs.logs()):
            if log.volume.failure is None and log.needs_flush(now_ms):
                try:
                    await self._node.disk.fsync(log, log.flush)
                except KafkaError as error:  # deleted meanwhile, or its disk failed
                    logger.warning("flush failed log=%s error=%s", log.directory, error)

    async def remove_deleted(self) -> None:
        """Remove the files of segments and logs whose file.delete.delay.ms is over."""
        node = self._node
        due = node.logs.due_deletions(node.now_ms())
        if due:
            await node.disk.run(node.logs.remove_deleted, due)

    async def flush_rolled(self) -> None:
        """Sync segments that are complete, so that recovery need not check them."""
        logs = self._node.logs.take_rolled()
        if logs:
            await self._node.disk.run(self._node.logs.flush_rolled, logs)

    async def checkpoint(self) -> None:
        """Write recovery points, log starts and high watermarks."""
        await self._node.disk.run(self._node.logs.checkpoint)


async def _every(interval_ms: int, work: Callable[[], Awaitable[object]]) -> None:
    await trio.sleep(min(interval_ms, _INITIAL_DELAY_MS) / 1000)
    while True:
        try:
            await work()
        except Exception:
            logger.exception("background work failed")
        await trio.sleep(interval_ms / 1000)

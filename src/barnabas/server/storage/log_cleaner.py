"""Compaction beside the loop: choose the next log, have a helper clean it, swap the segments.

Up to `log.cleaner.threads` helper processes clean one log each. The loop only renames files when a
group of segments is ready (see `barnabas.log.compaction`).
"""

import errno
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import attrs

from barnabas import tasks
from barnabas.clock import Clock
from barnabas.log import PartitionLog
from barnabas.log.compaction.compaction_failures import CompactionFailures
from barnabas.log.helper_framing import CLEAN_JOB
from barnabas.log.partition import segment_swap
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.server.storage.helper_pool import CLEANING, HelperPool
from barnabas.server.storage.helper_process import HelperGoneError, HelperProcess

if TYPE_CHECKING:
    from barnabas.cluster.replication import ReplicaManager
    from barnabas.config import NodeConfig
    from barnabas.log import LogManager
    from barnabas.log.compaction.cleaning_plan import Candidate, Limits
    from barnabas.server.storage.disk_threads import DiskThreads

logger = logging.getLogger(__name__)

# Errors of a broken disk; they take its directory offline.
_BROKEN = (errno.EIO, errno.EROFS)


class CleaningRefusedError(Exception):
    """The helper could not do its job, because of a system error that may pass."""


@attrs.define(slots=True)
class CleanerCounts:
    """Counts of the cleaner's passes and bytes since the start."""

    cleaned: int = 0
    retried: int = 0
    given_up: int = 0
    bytes_read: int = 0
    bytes_written: int = 0


class LogCleaner:
    """Cleans the compacted logs of a node, as many at a time as `log.cleaner.threads`."""

    def __init__(
        self,
        config: Callable[[], "NodeConfig"],
        logs: "LogManager",
        replicas: "ReplicaManager",
        disk: "DiskThreads",
        helpers: HelperPool,
        clock: Clock,
    ) -> None:
        self._config = config
        self._logs = logs
        self._replicas = replicas
        self._disk = disk
        self._helpers = helpers
        self._clock = clock
        self._busy: set[PartitionLog] = set()
        self.failures = CompactionFailures()
        self.counts = CleanerCounts()

    @property
    def _threads(self) -> int:
        return self._config().get_int("log.cleaner.threads")

    @property
    def _has_room(self) -> bool:
        return len(self._busy) < self._threads

    async def run(self) -> None:
        """Clean logs until cancelled."""
        if not self._config().get("log.cleaner.enable"):
            return
        async with tasks.open_nursery() as nursery:
            while True:
                await tasks.sleep(self._config().get_int("log.cleaner.backoff.ms") / 1000)
                while (chosen := await self._claim()) is not None:
                    nursery.start_soon(self._clean_until_done, chosen)

    async def _clean_until_done(self, chosen: "Candidate | None") -> None:
        """Clean one log after the other until no log needs it."""
        while chosen is not None:
            await self._clean_one(chosen)
            chosen = await self._claim()

    async def _claim(self) -> "Candidate | None":
        """Choose and claim the log to clean next; None without one or without a free helper."""
        if not self._has_room:
            return None
        try:
            chosen = await self._choose()
        except Exception:
            logger.exception("cannot choose a log to compact")
            return None
        # Another task may have claimed a log meanwhile.
        if chosen is None or not self._has_room or chosen.log in self._busy:
            return None
        self._busy.add(chosen.log)
        return chosen

    async def _clean_one(self, chosen: "Candidate") -> None:
        log = chosen.log
        directory = log.directory
        try:
            await self._clean(chosen)
        except (KafkaError, CleaningRefusedError, HelperGoneError) as error:
            if not log.is_gone and log.directory == directory and log.volume.failure is None:
                await self._note_failure(log, error)
        except Exception:
            logger.exception("compaction failed log=%s", directory)
            self.failures.mark_uncleanable(log)
        else:
            self.failures.forget(log)
        finally:
            self._busy.discard(log)

    async def _note_failure(self, log: PartitionLog, error: Exception) -> None:
        """Skip the log for a while; after corrupt records, until its start offset moves."""
        if isinstance(error, KafkaError) and error.code is ErrorCode.CORRUPT_MESSAGE:
            self.failures.mark_uncleanable(log)
            self.counts.given_up += 1
            logger.error("marking log as uncleanable log=%s error=%r", log.directory, error)
        else:
            backoff_ms = self._config().get_int("log.cleaner.backoff.ms")
            delay_ms = self.failures.retry(log, self._clock.monotonic_ms(), backoff_ms)
            self.counts.retried += 1
            logger.error(
                "compaction failed log=%s error=%r retry_ms=%.0f", log.directory, error, delay_ms
            )
        try:
            await self._disk.run(segment_swap.discard_all, log.directory)
        except OSError as failure:
            logger.warning("cannot remove cleaned files log=%s error=%s", log.directory, failure)

    async def _choose(self) -> "Candidate | None":
        from barnabas.log.compaction import cleaning_plan

        wall_ms, now_ms = self._clock.wall_ms(), self._clock.monotonic_ms()
        self.failures.prune()
        candidates: list[Candidate] = []
        for partition in list(self._replicas.partitions()):
            if not self._replicas.topic_config(partition.topic).is_compacted:
                continue
            await tasks.checkpoint()
            known = self._logs.known(partition.topic, partition.partition)
            if known is None or known.volume.failure is not None:
                continue
            try:
                log = self._logs.get(partition.topic, partition.partition)
                if log is None or log in self._busy or not self.failures.allows(log, now_ms):
                    continue
                if log.recovery_point < log.active.base_offset:  # only synced segments are cleaned
                    await self._disk.run(log.flush_rolled)
                found = log.guarded(cleaning_plan.candidate, log, wall_ms)
                if found is not None:
                    candidates.append(found)
            except KafkaError as error:
                if known.volume.failure is None:  # a failure has its own line
                    logger.error("cannot compact partition=%r error=%s", partition, error)
        return cleaning_plan.filthiest(candidates)

    def _limits(self) -> "Limits":
        """Return the limits of one helper: its part of the limits of all (`CleanerThread`)."""
        from barnabas.log.compaction.cleaning_plan import Limits

        config = self._config()
        helpers = max(self._threads, 1)
        return Limits(
            config.get_int("log.cleaner.dedupe.buffer.size") // helpers,
            config.get("log.cleaner.io.buffer.load.factor"),
            config.get_int("log.cleaner.io.buffer.size") // helpers // 2,  # half to read and write
            config.get("log.cleaner.io.max.bytes.per.second") / helpers,
        )

    async def _clean(self, chosen: "Candidate") -> None:
        from barnabas.log.compaction import cleaning_plan

        log = chosen.log
        job = cleaning_plan.job_for(chosen, self._limits(), self._clock.wall_ms())
        # Gaps above the checkpointed recovery point would look like damage after a kill.
        await self._disk.run(self._logs.checkpoint)
        began = tasks.current_time()
        async with self._helpers.borrow(CLEANING) as helper:
            await helper.send({"job": CLEAN_JOB, **attrs.asdict(job, recurse=False)})
            result = await self._swap_groups(log, helper)
        if result is None:
            logger.info("discarded a compaction, the log has changed log=%s", log.directory)
            return
        self.counts.cleaned += 1
        self.counts.bytes_read += result["read"]
        self.counts.bytes_written += result["written"]
        log.mark_cleaned(result["end_offset"])
        await self._disk.run(log.volume.write_cleaner_offsets)
        logger.info(
            "compacted log=%s to=%d bytes_read=%d bytes_left=%d ms=%.0f",
            log.directory,
            log.first_dirty_offset,
            result["read"],
            result["written"],
            (tasks.current_time() - began) * 1000,
        )

    async def _swap_groups(self, log: PartitionLog, helper: HelperProcess) -> dict[str, Any] | None:
        """Swap each group of segments that the helper cleaned, and return its last answer.

        None when the log changed meanwhile, so that a group was not swapped.
        """
        is_current = True
        while True:
            answer, _ = await helper.receive()
            if "end_offset" in answer:
                return answer if is_current else None
            if answer.get("errno") == errno.ENOENT:  # the log was deleted while it was read
                with suppress(OSError):  # the directory may be gone
                    await self._disk.run(segment_swap.discard_all, log.directory)
                return None
            if "error" in answer:
                raise self._error(log, answer)
            group = list(zip(answer["group"], answer["sizes"], strict=True))
            is_swapped = log.swap_cleaned(group, answer["size"])
            is_current = is_current and is_swapped

    def _error(self, log: PartitionLog, answer: dict[str, Any]) -> Exception:
        number = answer["errno"]
        if number is None:
            return KafkaError(ErrorCode.CORRUPT_MESSAGE, answer["error"])
        if number in _BROKEN and not log.is_gone:
            return log.volume.fail(OSError(number, answer["error"]))
        return CleaningRefusedError(answer["error"])

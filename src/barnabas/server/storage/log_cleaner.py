"""Compaction beside the loop: which logs are next, the helpers that clean them, the swap.

A helper process is started when a log first needs it and told a log at a time, up to
`log.cleaner.threads` of them; the loop only renames files when a group of segments is ready (see
`barnabas.log.compaction`).
"""

import errno
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import attrs
import trio

from barnabas.log import PartitionLog
from barnabas.log.compaction import segment_swap
from barnabas.log.compaction.compaction_failures import CompactionFailures
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.server.storage.helper_process import Helper, HelperGoneError

if TYPE_CHECKING:
    from barnabas.log.compaction.cleaning_plan import Candidate, Limits
    from barnabas.server.node.node import Node

logger = logging.getLogger(__name__)

# What a disk that does not work answers; it takes its directory offline.
_BROKEN = (errno.EIO, errno.EROFS)


class RefusedError(Exception):
    """The helper could not do its job: the system refused something, which may pass."""


@attrs.define(slots=True)
class Counts:
    """What the cleaner did since the start."""

    cleaned: int = 0
    retried: int = 0
    given_up: int = 0
    bytes_read: int = 0
    bytes_written: int = 0


class LogCleaner:
    """Cleans the compacted logs of a node, as many at a time as there are helpers."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self._idle: list[Helper] = []
        self._busy: set[PartitionLog] = set()
        self.failures = CompactionFailures()
        self.counts = Counts()

    @property
    def _helpers_max(self) -> int:
        return self._node.config.get_int("log.cleaner.threads")

    @property
    def _has_room(self) -> bool:
        return len(self._busy) < self._helpers_max

    async def run(self) -> None:
        """Work until cancelled."""
        if not self._node.config.get("log.cleaner.enable"):
            return
        try:
            async with trio.open_nursery() as nursery:
                while True:
                    await trio.sleep(self._node.config.get_int("log.cleaner.backoff.ms") / 1000)
                    while (chosen := await self._claimed()) is not None:
                        nursery.start_soon(self._work, chosen)
        finally:
            for helper in self._idle:
                await helper.kill()

    async def _work(self, chosen: "Candidate | None") -> None:
        """Clean one log after the other while any needs it."""
        helper = self._idle.pop() if self._idle else Helper("barnabas.log.compaction")
        try:
            while chosen is not None:
                await self._clean_one(helper, chosen)
                chosen = await self._claimed()
        finally:
            self._idle.append(helper)
            if len(self._idle) + len(self._busy) > self._helpers_max:  # fewer are wanted now
                await self._idle.pop().kill()

    async def _claimed(self) -> "Candidate | None":
        """The log that needs it most, claimed; None if none does or all helpers are busy."""
        if not self._has_room:
            return None
        try:
            chosen = await self._chosen()
        except Exception:
            logger.exception("cannot tell which log to compact")
            return None
        # Others chose meanwhile.
        if chosen is None or not self._has_room or chosen.log in self._busy:
            return None
        self._busy.add(chosen.log)
        return chosen

    async def _clean_one(self, helper: Helper, chosen: "Candidate") -> None:
        log = chosen.log
        directory = log.directory
        try:
            await self._clean(helper, chosen)
        except (KafkaError, RefusedError, HelperGoneError) as error:
            await helper.kill()  # what it may still say is of a job that nobody waits for
            if not log.is_gone and log.directory == directory and log.volume.failure is None:
                await self._put_off(log, error)
        except Exception:
            await helper.kill()
            logger.exception("compaction failed log=%s", directory)
            self.failures.mark_uncleanable(log)
        else:
            self.failures.forget(log)
        finally:
            self._busy.discard(log)

    async def _put_off(self, log: PartitionLog, error: Exception) -> None:
        """Leave the log alone for a while, or for good."""
        if isinstance(error, KafkaError) and error.code is ErrorCode.CORRUPT_MESSAGE:
            self.failures.mark_uncleanable(log)
            self.counts.given_up += 1
            logger.error("cannot be compacted, left as it is log=%s error=%r", log.directory, error)
        else:
            backoff_ms = self._node.config.get_int("log.cleaner.backoff.ms")
            delay_ms = self.failures.retry(log, trio.current_time() * 1000, backoff_ms)
            self.counts.retried += 1
            logger.error(
                "compaction failed log=%s error=%r retry_ms=%.0f", log.directory, error, delay_ms
            )
        try:
            await self._node.disk.run(segment_swap.discard_all, log.directory)
        except OSError as more:
            logger.warning("cleaned files stay log=%s error=%s", log.directory, more)

    async def _chosen(self) -> "Candidate | None":
        from barnabas.log.compaction import cleaning_plan

        node = self._node
        now_ms, here_ms = node.now_ms(), trio.current_time() * 1000
        self.failures.prune()
        candidates: list[Candidate] = []
        for partition in list(node.replicas.partitions()):
            if not node.replicas.topic_config(partition.topic).is_compacted:
                continue
            await trio.lowlevel.checkpoint()
            known = node.logs.known(partition.topic, partition.partition)
            if known is None or known.volume.failure is not None:
                continue
            try:
                log = node.logs.get(partition.topic, partition.partition)
                if log is not None and log not in self._busy and self.failures.allows(log, here_ms):
                    if log.recovery_point < log.active.base_offset:  # or it is no candidate
                        await node.disk.run(log.flush_rolled)
                    found = log.cleaning_candidate(now_ms)
                    if found is not None:
                        candidates.append(found)
            except KafkaError as error:
                logger.error("cannot compact partition=%r error=%s", partition, error)
        return cleaning_plan.filthiest(candidates)

    def _limits(self) -> "Limits":
        """What one helper may use: its share of what all may (`CleanerThread`)."""
        from barnabas.log.compaction.cleaning_plan import Limits

        config = self._node.config
        share = max(self._helpers_max, 1)
        return Limits(
            config.get_int("log.cleaner.dedupe.buffer.size") // share,
            config.get("log.cleaner.io.buffer.load.factor"),
            config.get_int("log.cleaner.io.buffer.size") // share // 2,  # to read, and to write
            config.get("log.cleaner.io.max.bytes.per.second") / share,
        )

    async def _clean(self, helper: Helper, chosen: "Candidate") -> None:
        from barnabas.log.compaction import cleaning_plan

        node, log = self._node, chosen.log
        job = cleaning_plan.job_for(chosen, self._limits(), node.now_ms())
        # A log with holes behind its recovery point would look torn after a kill.
        await node.disk.run(node.logs.checkpoint)
        began = trio.current_time()
        await helper.send(attrs.asdict(job, recurse=False))
        is_current = True
        while "end_offset" not in (message := await helper.message()):
            if message.get("errno") == errno.ENOENT:  # deleted while it was read
                is_current = False
                with suppress(OSError):  # of a log that is no more, or elsewhere
                    await node.disk.run(segment_swap.discard_all, log.directory)
                break
            if "error" in message:
                raise self._error(log, message)
            group = list(zip(message["group"], message["sizes"], strict=True))
            is_swapped = log.swap_cleaned(group, message["size"])
            is_current = is_current and is_swapped
        if not is_current:
            logger.info("compaction outrun by other changes log=%s", log.directory)
            return
        self.counts.cleaned += 1
        self.counts.bytes_read += message["read"]
        self.counts.bytes_written += message["written"]
        log.mark_cleaned(message["end_offset"])
        await node.disk.run(log.volume.write_cleaner_offsets)
        logger.info(
            "compacted log=%s to=%d bytes_read=%d bytes_left=%d ms=%.0f",
            log.directory,
            log.first_dirty_offset,
            message["read"],
            message["written"],
            (trio.current_time() - began) * 1000,
        )

    def _error(self, log: PartitionLog, message: dict[str, Any]) -> Exception:
        number = message["errno"]
        if number is None:
            return KafkaError(ErrorCode.CORRUPT_MESSAGE, message["error"])
        if number in _BROKEN and not log.is_gone:
            return log.volume.fail(OSError(number, message["error"]))
        return RefusedError(message["error"])

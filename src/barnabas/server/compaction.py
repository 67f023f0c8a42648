"""Compaction beside the loop: which log is next, the helper process that cleans it, the swap.

The helper is started when a log first needs it and told a log at a time; the loop only renames
files when a group of segments is ready (see `barnabas.log.compaction`).
"""

import errno
import json
import logging
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import attrs
import trio

from barnabas.log import PartitionLog
from barnabas.log.compaction import plan, swap
from barnabas.log.compaction.plan import Candidate
from barnabas.log.compaction.setbacks import Setbacks
from barnabas.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from barnabas.server.node import Node

logger = logging.getLogger(__name__)

_READ_BYTES = 65_536
# What a disk that does not work answers; it takes its directory offline.
_BROKEN = (errno.EIO, errno.EROFS)


class HelperGoneError(Exception):
    """The helper process ended in the middle of its work."""


class Helper:
    """The process that works on records; low in priority, its memory bounded by its jobs."""

    def __init__(self) -> None:
        self._process: trio.Process | None = None
        self._received = bytearray()

    async def _started(self) -> trio.Process:
        process = self._process
        if process is None or process.returncode is not None:
            self._received.clear()
            process = self._process = await trio.lowlevel.open_process(
                [sys.executable, "-m", "barnabas.log.compaction"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            logger.info("helper process started pid=%d", process.pid)
        return process

    async def send(self, job: dict[str, Any]) -> None:
        """Give it a job; HelperGoneError."""
        process = await self._started()
        if process.stdin is None:
            raise HelperGoneError
        try:
            await process.stdin.send_all(json.dumps(job).encode() + b"\n")
        except trio.BrokenResourceError as error:
            raise HelperGoneError from error

    async def message(self) -> dict[str, Any]:
        """What it says next; HelperGoneError."""
        process = self._process
        if process is None or process.stdout is None:
            raise HelperGoneError
        while b"\n" not in self._received:
            data = await process.stdout.receive_some(_READ_BYTES)
            if not data:
                await process.wait()
                raise HelperGoneError
            self._received += data
        line, _, rest = self._received.partition(b"\n")
        self._received = rest
        return json.loads(line)

    async def kill(self) -> None:
        """End it at once: what it leaves are `.cleaned` files, which the next start removes."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()


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


class Compactor:
    """Cleans the compacted logs of a node, one after the other."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self._helper = Helper()
        self.setbacks = Setbacks()
        self.counts = Counts()

    async def run(self) -> None:
        """Work until cancelled."""
        if not self._node.config.get("log.cleaner.enable"):
            return
        try:
            while True:
                await trio.sleep(self._node.config.get_int("log.cleaner.backoff.ms") / 1000)
                try:
                    while await self.clean_next():
                        pass
                except Exception:
                    logger.exception("compaction failed")
        finally:
            await self._helper.kill()

    async def clean_next(self) -> bool:
        """Clean the log that needs it most; False if none does."""
        chosen = await self._chosen()
        if chosen is None:
            return False
        log = chosen.log
        directory = log.directory
        try:
            await self._clean(chosen)
        except (KafkaError, RefusedError, HelperGoneError) as error:
            await self._helper.kill()  # what it may still say is of a job that nobody waits for
            if not log.is_gone and log.directory == directory and log.volume.failure is None:
                await self._put_off(log, error)
        else:
            self.setbacks.forget(log)
        return True

    async def _put_off(self, log: PartitionLog, error: Exception) -> None:
        """Leave the log alone for a while, or for good."""
        if isinstance(error, KafkaError) and error.code is ErrorCode.CORRUPT_MESSAGE:
            self.setbacks.give_up(log)
            self.counts.given_up += 1
            logger.error("cannot be compacted, left as it is log=%s error=%r", log.directory, error)
        else:
            backoff_ms = self._node.config.get_int("log.cleaner.backoff.ms")
            delay_ms = self.setbacks.retry(log, trio.current_time() * 1000, backoff_ms)
            self.counts.retried += 1
            logger.error(
                "compaction failed log=%s error=%r retry_ms=%.0f", log.directory, error, delay_ms
            )
        try:
            await self._node.disk.run(swap.discard_all, log.directory)
        except OSError as more:
            logger.warning("cleaned files stay log=%s error=%s", log.directory, more)

    async def _chosen(self) -> Candidate | None:
        node = self._node
        now_ms, here_ms = node.now_ms(), trio.current_time() * 1000
        self.setbacks.prune()
        candidates: list[Candidate] = []
        for partition in list(node.replicas.partitions()):
            if not node.replicas.topic_config(partition.topic).is_compacted:
                continue
            await trio.lowlevel.checkpoint()
            try:
                log = node.logs.get(partition.topic, partition.partition)
                if log is not None and self.setbacks.allows(log, here_ms):
                    if log.recovery_point < log.active.base_offset:  # or it is no candidate
                        await node.disk.run(log.flush_rolled)
                    found = log.cleaning_candidate(now_ms)
                    if found is not None:
                        candidates.append(found)
            except KafkaError as error:
                logger.error("cannot compact partition=%r error=%s", partition, error)
        return plan.filthiest(candidates)

    async def _clean(self, chosen: "Candidate") -> None:
        node, log = self._node, chosen.log
        config = node.config
        limits = plan.Limits(
            config.get_int("log.cleaner.dedupe.buffer.size"),
            config.get("log.cleaner.io.buffer.load.factor"),
            config.get("log.cleaner.io.max.bytes.per.second"),
        )
        job = plan.job_for(chosen, limits, node.now_ms())
        # A log with holes behind its recovery point would look torn after a kill.
        await node.disk.run(node.logs.checkpoint)
        began = trio.current_time()
        await self._helper.send(attrs.asdict(job, recurse=False))
        is_current = True
        while "end_offset" not in (message := await self._helper.message()):
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
        log.first_dirty_offset = message["end_offset"]
        log.volume.cleaner_offsets[log.topic, log.partition] = log.first_dirty_offset
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

"""Move logs to other data directories, and resume interrupted moves at start-up."""

import itertools
import logging
from typing import TYPE_CHECKING, Final

from barnabas import tasks
from barnabas.clock import Clock
from barnabas.cluster.replication.replication_quota import UNLIMITED, ReplicationQuota
from barnabas.log.directories.log_relocation import LAST_STEP_MAX, LogRelocation, StaleCopyError
from barnabas.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.cluster.replication import ReplicaManager
    from barnabas.config import NodeConfig
    from barnabas.log import LogManager
    from barnabas.server.storage.directory_assignments import DirectoryAssignments
    from barnabas.server.storage.disk_threads import DiskThreads

logger = logging.getLogger(__name__)

# A producer may write faster than the copy. After this number of rounds, the last step follows.
_ROUNDS_MAX: Final = 50
# With a bound of the rate, copies are made in portions, between which others may use the disk.
_PORTION_MAX: Final = 1 << 20
_QUOTA_PAUSE_S: Final = 0.05


class RelocationWorker:
    """Runs moves between data directories (Kafka's `ReplicaAlterLogDirsThread`)."""

    def __init__(
        self,
        logs: "LogManager",
        replicas: "ReplicaManager",
        disk: "DiskThreads",
        directories: "DirectoryAssignments",
        config: "Callable[[], NodeConfig]",
        clock: Clock,
    ) -> None:
        self._config = config
        self._now_ms = clock.monotonic_ms
        self.quota = ReplicationQuota(
            config().get_int("alter.log.dirs.replication.quota.window.num"),
            config().get_int("alter.log.dirs.replication.quota.window.size.seconds") * 1000,
        )
        self._logs = logs
        self._replicas = replicas
        self._disk = disk
        self._directories = directories
        self._nursery: tasks.Nursery | None = None

    async def run(self) -> None:
        """Resume interrupted moves, and run those that `begin` receives, until cancelled."""
        relocations = self._logs.relocations
        async with tasks.open_nursery() as nursery:
            self._nursery = nursery
            for move in list(relocations.active.values()):  # requested before this task started
                nursery.start_soon(self._run_move, move, False)
            self._open_interrupted()
            for move in relocations.resume():
                logger.info(
                    "resuming interrupted move log=%s copy=%s", move.log.directory, move.directory
                )
                nursery.start_soon(self._run_move, move, True)
            try:
                await tasks.sleep_forever()
            finally:
                for move in relocations.active.values():
                    move.is_stopped = True

    def _open_interrupted(self) -> None:
        """Open the logs of interrupted moves, or the copy of a log that is missing."""
        for topic, number in self._logs.relocations.interrupted():
            hosted = self._replicas.hosted(topic, number)
            try:
                _ = hosted and hosted.log
            except KafkaError as error:
                logger.error(
                    "cannot open the log of an interrupted move log=%s-%d error=%s",
                    topic,
                    number,
                    error,
                )

    def begin(self, move: LogRelocation) -> None:
        """Run a new move."""
        if self._nursery is not None:
            self._nursery.start_soon(self._run_move, move, False)

    async def _run_move(self, move: LogRelocation, is_resumed: bool) -> None:
        """Copy until little remains, then switch. A cancelled move keeps its copy for a resume."""
        log, relocations = move.log, self._logs.relocations
        try:
            if is_resumed:
                await self._disk.run(move.resume)
            if not await self._copy(move):
                return
            await self._disk.run(move.make_ready)
            async with self._directories.moving(log, move.target):
                if not await self._copy(move):  # records appended meanwhile
                    return
                await tasks.checkpoint_if_cancelled()
                move.finish()
            logger.info("moved log=%s-%d to=%s", log.topic, log.partition, log.directory)
            relocations.end(move)
            await self._disk.run(self._logs.checkpoint)
        except (StaleCopyError, FileNotFoundError):
            if relocations.is_active(move):  # otherwise the move was cancelled and its copy removed
                logger.warning("abandoning move, the log changed log=%s", log.directory)
        except Exception:
            logger.exception("move failed log=%s", log.directory)
        relocations.end(move)

    async def _copy(self, move: LogRelocation) -> bool:
        """Copy until little remains or the rounds are used up. Return False when cancelled.

        With a bound of the rate there is no last round: a producer that writes faster than the
        bound keeps its log where it is, as in Kafka.
        """
        for number in itertools.count(1):
            await self._copy_round(move)
            if not self._logs.relocations.is_active(move):
                return False
            is_last = number >= _ROUNDS_MAX and self._rate() == UNLIMITED
            if is_last or move.left_bytes <= LAST_STEP_MAX:
                break
        return True

    async def _copy_round(self, move: LogRelocation) -> None:
        """Copy what the log has now, or portions of it while the rate has a bound."""
        left = move.left_bytes
        while True:
            while self._is_over_rate():
                await tasks.sleep(_QUOTA_PAUSE_S)
                if not self._logs.relocations.is_active(move):
                    return
            rate = self.quota.rate
            portion = None if rate == UNLIMITED else min(max(rate, 1), _PORTION_MAX)
            copied = await self._disk.run(move.copy, portion)
            self.quota.record(copied, self._now_ms())
            left -= copied
            if portion is None or copied == 0 or left <= 0:
                return

    def _is_over_rate(self) -> bool:
        """True when moves must wait, by the rate that is configured now."""
        self.quota.rate = self._rate()
        return self.quota.is_exceeded(self._now_ms())

    def _rate(self) -> int:
        """Return the allowed bytes a second of all moves together."""
        return self._config().get_int("replica.alter.log.dirs.io.max.bytes.per.second")

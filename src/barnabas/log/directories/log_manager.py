"""All logs of a node, over its data directories (Kafka's `LogManager`)."""

import logging
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from threading import Thread
from typing import Final

from barnabas.log.directories.directory_names import copied_partition_of, is_deleted, partition_of
from barnabas.log.directories.relocation_registry import RelocationRegistry
from barnabas.log.directories.volume import Volume
from barnabas.log.log_config import LONG_MAX, LogConfig
from barnabas.log.partition.partition_log import PartitionLog
from barnabas.log.segment.log_segment import sizes_on_disk
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.types import Uuid

logger = logging.getLogger(__name__)

METADATA_LOG: Final = "__cluster_metadata-0"

# Checking again takes 0.2 to 2.5 s a GB, the more the smaller the batches are.
_CHECKPOINT_BYTES: Final = 1 << 30
_UNSYNCED_BYTES_MAX: Final = 16 << 20


def _each(call: Callable[[PartitionLog], object], logs: Iterator[PartitionLog]) -> None:
    for log in logs:
        call(log)


def _reach(log: PartitionLog) -> tuple[int, int]:
    """How far a log goes that may not be loaded: its last segment's first offset and size."""
    try:
        return max(sizes_on_disk(log.directory).items(), default=(0, 0))
    except OSError as error:
        log.volume.refused(error)
        return 0, 0


def _recover(log: PartitionLog) -> None:
    try:
        log.load(recover=True)
    except KafkaError as error:
        logger.error("recovery failed log=%s error=%s", log.directory, error)
    except Exception:  # of this log: the others are recovered all the same
        logger.exception("recovery failed log=%s", log.directory)


def _tell_of_flush(log: PartitionLog, error: KafkaError) -> None:
    if not log.is_gone:  # deleted meanwhile: nobody misses it
        logger.error("flush failed log=%s error=%s", log.directory, error)


class LogManager:
    """Finds, creates, deletes and checkpoints logs.

    `volumes` are locked and their checkpoints read; the `metadata_volume`, one of them or not, has
    the quorum's log, which is none of these. `config` is for logs whose topic is not known yet.
    After a kill every log is recovered by `open`, `recovery_threads` at a time in each directory;
    otherwise a log is loaded when it is first asked for.
    """

    def __init__(
        self,
        volumes: list[Volume],
        metadata_volume: Volume,
        config: LogConfig,
        *,
        recovery_threads: int = 1,
    ) -> None:
        self.volumes = volumes
        self.metadata_volume = metadata_volume
        self.broker_epoch = -1
        self._config = config
        self._recovery_threads = recovery_threads
        self._synced_bytes = 0  # behind the checkpoints that were last written
        self._logs: dict[tuple[str, int], PartitionLog] = {}
        self.relocations = RelocationRegistry(volumes, self.get)
        self._doubles: list[PartitionLog] = []  # of partitions that another directory has too

    def open(self) -> None:
        """Find the logs that are there; recover those of a directory that was not stopped."""
        killed: list[Volume] = []
        for volume in self._working():
            try:
                names = sorted(os.listdir(volume.path))
            except OSError as error:
                volume.fail(error)
                continue
            for name in names:
                self._found(volume, name)
            if not volume.was_clean and volume.logs:
                killed.append(volume)
        if killed:
            self._recover(killed)

    def _found(self, volume: Volume, name: str) -> None:
        path = f"{volume.path}/{name}"
        if is_deleted(name):
            volume.deletions.add(0, partial(shutil.rmtree, path, ignore_errors=True))
            return
        copied = copied_partition_of(name)
        if copied is not None:
            self.relocations.found(volume, path, copied)
            return
        key = partition_of(name)
        if key is None or name == METADATA_LOG or not os.path.isdir(path):
            return
        if key in self._logs:
            self._doubles.append(self._logs[key])
        self._take_in(PartitionLog(volume, *key, self._config))

    def _take_in(self, log: PartitionLog) -> None:
        """A log that is there, of which its directory's checkpoints tell."""
        volume, key = log.volume, (log.topic, log.partition)
        log.recovery_point = volume.recovery_points.get(key, 0)
        log.high_watermark = volume.high_watermarks.get(key, 0)
        log.log_start_offset = volume.log_starts.get(key, 0)
        log.first_dirty_offset = volume.cleaner_offsets.get(key, 0)
        volume.logs[key] = self._logs[key] = log

    def _recover(self, volumes: list[Volume]) -> None:
        """Check what a kill may have left torn, before anybody reads it."""
        started = time.monotonic()
        self._in_threads(volumes, _recover)
        logger.info(
            "recovered directories=%s logs=%d ms=%.0f",
            ",".join(str(volume.path) for volume in volumes),
            sum(len(volume.logs) for volume in volumes),
            (time.monotonic() - started) * 1000,
        )

    def _in_threads(self, volumes: list[Volume], call: Callable[[PartitionLog], object]) -> None:
        """Do this to all logs; each directory has its threads, as it may be a disk of its own."""
        threads: list[Thread] = []
        for volume in volumes:
            logs = iter(list(volume.logs.values()))  # each thread takes the next
            count = min(self._recovery_threads, len(volume.logs))
            threads += (Thread(target=_each, args=(call, logs)) for _ in range(count))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def settle(self, fitness: Callable[[PartitionLog], tuple[bool, ...]]) -> None:
        """Of a partition in two directories, use the log that is fitter, or else goes further.

        The other is set aside. There are two after a move whose old directory could not be renamed,
        and where a directory comes back: its topic may have been deleted and created again, or a
        copy taken for its log. To be called once the metadata are known, before any log is used.
        """
        doubles, self._doubles = self._doubles, []
        for log in doubles:
            key = (log.topic, log.partition)
            both = (log, self._logs[key])
            used, other = sorted(both, key=lambda each: (fitness(each), _reach(each)), reverse=True)
            self._logs[key] = used
            logger.error(
                "the same partition in two directories, ignored path=%s used=%s set_aside=%s",
                other.directory,
                used.directory,
                self._put_away(other, "stray"),
            )

    # Logs

    def get(self, topic: str, partition: int) -> PartitionLog | None:
        """The partition's log, loaded; None if there is none here.

        Raises KafkaError KAFKA_STORAGE_ERROR or CORRUPT_MESSAGE when it cannot be read.
        """
        log = self._logs.get((topic, partition))
        if log is not None and not log.is_loaded:
            log.load(recover=not log.volume.was_clean)
        return log

    def create(
        self,
        topic: str,
        topic_id: Uuid,
        partition: int,
        config: LogConfig,
        directory_id: Uuid | None = None,
    ) -> PartitionLog:
        """A new log, in the directory of that id, or in the working one that has the fewest.

        Raises KafkaError KAFKA_STORAGE_ERROR when that one is offline, without any, or when the
        disk refuses.
        """
        volume = self._place(directory_id)
        log = PartitionLog(volume, topic, partition, config)
        try:
            if directory_id is not None and self.relocations.take_copy(log, topic_id):
                self._take_in(log)
                log.first_dirty_offset = LONG_MAX  # what compaction took out is no tear
                log.load(recover=True)
                return log
            volume.make_room((topic, partition))
        except OSError as error:
            raise volume.refused(error) from error
        log.create(topic_id)
        volume.logs[topic, partition] = self._logs[topic, partition] = log
        return log

    def _place(self, directory_id: Uuid | None) -> Volume:
        working = self._working()
        if directory_id is not None:
            for volume in working:
                if volume.directory_id == directory_id:
                    return volume
            # It may have the log: a new one elsewhere would hide it.
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"directory {directory_id} is offline")
        if not working:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "all data directories are offline")
        return min(working, key=lambda each: len(each.logs))

    def known(self, topic: str, partition: int) -> PartitionLog | None:
        """The partition's log, loaded or not; None if there is none here."""
        return self._logs.get((topic, partition))

    def delete(self, topic: str, partition: int) -> None:
        """Rename a log away at once; its files go after file.delete.delay.ms.

        Nothing happens where there is none; a disk that refuses goes offline.
        """
        log = self._logs.pop((topic, partition), None)
        aside = log and self._put_away(log, "delete")
        if log and aside:
            remove = partial(shutil.rmtree, aside, ignore_errors=True)
            log.volume.deletions.add(log.config.file_delete_delay_ms, remove)

    def set_aside(self, topic: str, partition: int) -> None:
        """Rename a log that no topic owns, and keep its files (Kafka's stray logs)."""
        log = self._logs.pop((topic, partition), None)
        aside = log and self._put_away(log, "stray")
        if log and aside:
            logger.warning("no topic has this log=%s set_aside=%s", log.directory, aside)

    def _put_away(self, log: PartitionLog, purpose: str) -> str | None:
        """Rename a log's directory; its name then, None if it stays. The disk may go offline."""
        volume = log.volume
        volume.forget((log.topic, log.partition))
        log.is_gone = True
        log.release()
        if volume.failure is not None:
            return None
        return volume.put_aside(log.directory, (log.topic, log.partition), purpose)

    def logs(self) -> Iterator[PartitionLog]:
        """Every log, loaded or not."""
        yield from self._logs.values()

    def due_deletions(self, now_ms: int) -> list[tuple[Volume, Callable[[], object]]]:
        """What was deleted long enough ago, for `remove_deleted`."""
        return [
            (volume, remove)
            for volume in self._working()
            for remove in volume.deletions.due(now_ms)
        ]

    def remove_deleted(self, deletions: Iterable[tuple[Volume, Callable[[], object]]]) -> None:
        """Remove the files of what was deleted. For a thread."""
        for volume, remove in deletions:
            try:
                remove()
            except OSError as error:
                volume.refused(error)

    def flush_rolled(self, logs: Iterable[PartitionLog]) -> None:
        """Make complete segments durable, which moves the recovery points. For a thread.

        The points are written down whenever that was much, so that a start after a kill does not
        check it again.
        """
        for log in logs:
            try:
                self._synced_bytes += log.flush_rolled()
            except KafkaError as error:
                _tell_of_flush(log, error)
        if self._synced_bytes >= _CHECKPOINT_BYTES:
            self._write_checkpoints()

    def take_rolled(self) -> list[PartitionLog]:
        """The logs that rolled since the last call."""
        logs: list[PartitionLog] = []
        for volume in self._working():
            logs += volume.rolled
            volume.rolled.clear()
        return logs

    # Failures, checkpoints and the end

    @property
    def is_lost(self) -> bool:
        """Whether the disks that are left do not do: none, or not the quorum's."""
        return self.metadata_volume.failure is not None or not self._working()

    def _working(self) -> list[Volume]:
        return [volume for volume in self.volumes if volume.failure is None]

    def checkpoint(self) -> None:
        """Write recovery points, high watermarks and log starts. For a thread.

        Logs of which a start after a kill would have much to check are synced before.
        """
        for log in list(self._logs.values()):
            if log.is_loaded and log.unsynced_bytes > _UNSYNCED_BYTES_MAX:
                try:
                    log.flush()
                except KafkaError as error:
                    _tell_of_flush(log, error)
        self._write_checkpoints()

    def _write_checkpoints(self) -> None:
        self._synced_bytes = 0
        for volume in self._working():
            try:
                volume.write_checkpoints()
            except OSError as error:
                volume.refused(error)

    def checkpoint_log_start_offsets(self) -> None:
        """Write where logs begin, durably. For a thread.

        Raises KafkaError KAFKA_STORAGE_ERROR when a disk refuses.
        """
        for volume in self._working():
            try:
                volume.write_log_starts()
            except OSError as error:
                raise volume.refused(error) from error

    def close(self, clean: bool) -> None:
        """Make all durable and let others use the directories. For a thread.

        Without `clean` nothing is written: the next start recovers.
        """
        if clean:
            self._close_logs(self._working())
        for volume in self.volumes:
            for log in volume.logs.values():
                log.release()
            volume.unlock()
        self.metadata_volume.unlock()

    def _close_logs(self, volumes: list[Volume]) -> None:
        # Where a log could not be checked after a kill, the next start has to try again.
        failed = {
            volume
            for volume in volumes
            if not volume.was_clean and any(not log.is_loaded for log in volume.logs.values())
        }

        def close(log: PartitionLog) -> None:
            try:
                log.close()
            except Exception as error:
                failed.add(log.volume)
                logger.error("not stopped cleanly log=%s error=%s", log.directory, error)

        self._in_threads(volumes, close)
        for volume in volumes:
            try:
                if volume not in failed:
                    volume.write_checkpoints()
                    volume.mark_clean(self.broker_epoch)
            except OSError as error:
                volume.refused(error)

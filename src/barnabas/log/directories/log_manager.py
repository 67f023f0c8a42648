"""All logs of a node, over its data directories (Kafka's `LogManager`)."""

import logging
import os
import shutil
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Final

from barnabas.log.checkpoints import UNREGISTERED
from barnabas.log.directories.relocation_registry import RelocationRegistry
from barnabas.log.directory_names import copied_partition_of, is_deleted, partition_of
from barnabas.log.log_config import LONG_MAX, LogConfig
from barnabas.log.partition.partition_log import PartitionLog
from barnabas.log.segment.log_segment import sizes_on_disk
from barnabas.log.volume import Volume, VolumeLog
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.types import Uuid

logger = logging.getLogger(__name__)

METADATA_LOG: Final = "__cluster_metadata-0"

# A check after a kill takes 0.2 to 2.5 s per GB; small batches take longest.
_CHECKPOINT_BYTES: Final = 1 << 30
_UNSYNCED_BYTES_MAX: Final = 16 << 20


def _each(call: Callable[[VolumeLog], object], logs: Iterator[VolumeLog]) -> None:
    for log in logs:
        call(log)


def _last_segment(log: PartitionLog) -> tuple[int, int]:
    """Return base offset and size of the last segment of a log that may not be loaded."""
    try:
        return max(sizes_on_disk(log.directory).items(), default=(0, 0))
    except OSError as error:
        log.volume.refused(error)
        return 0, 0


def _recover(log: VolumeLog) -> None:
    try:
        log.load(recover=True)
    except KafkaError as error:
        logger.error("recovery failed log=%s error=%s", log.directory, error)
    except Exception:  # fails this log only: the others are recovered
        logger.exception("recovery failed log=%s", log.directory)


def _log_flush_failure(log: VolumeLog, error: KafkaError) -> None:
    # A log that was deleted meanwhile needs no flush, and a failure of its volume has its own line.
    if not log.is_gone and log.volume.failure is None:
        logger.error("flush failed log=%s error=%s", log.directory, error)


class LogManager:
    """Finds, creates, deletes and checkpoints logs.

    `volumes` are locked and their checkpoints are read. `metadata_volume` has the metadata log,
    which is not managed here; it may be one of `volumes`. `config` is for logs whose topic is not
    known yet. `open` finds the logs; after a kill, `recover` checks them before they are used.
    Otherwise a log is loaded on first use. `recover` and `close` use `recovery_threads` threads for
    each directory.
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
        self.broker_epoch: Callable[[], int] = lambda: UNREGISTERED
        self._config = config
        self.recovery_threads = recovery_threads
        self._synced_bytes = 0  # synced since the checkpoints were last written
        self._logs: dict[tuple[str, int], PartitionLog] = {}
        self.relocations = RelocationRegistry(volumes, self.get)
        self._duplicates: list[PartitionLog] = []  # a second directory has the same partition

    def open(self) -> None:
        """Find the existing logs."""
        for volume in self._working():
            try:
                names = sorted(os.listdir(volume.path))
            except OSError as error:
                volume.fail(error)
                continue
            for name in names:
                self._found(volume, name)

    def _found(self, volume: Volume, name: str) -> None:
        path = f"{volume.path}/{name}"
        if is_deleted(name):
            volume.deletions.add(0, partial(shutil.rmtree, path, ignore_errors=True))
            return
        copied = copied_partition_of(name)
        if copied is not None:
            self.relocations.add_interrupted(volume, path, copied)
            return
        key = partition_of(name)
        if key is None or name == METADATA_LOG or not os.path.isdir(path):
            return
        if key in self._logs:
            self._duplicates.append(self._logs[key])
        first_dirty = volume.cleaner_offsets.get(key, 0)
        self._add_existing(PartitionLog(volume, *key, self._config), first_dirty)

    def _add_existing(self, log: PartitionLog, first_dirty_offset: int) -> None:
        """Add a log whose files exist, with the offsets in its directory's checkpoints."""
        volume, key = log.volume, (log.topic, log.partition)
        log.restore_checkpoints(
            recovery_point=volume.recovery_points.get(key, 0),
            high_watermark=volume.high_watermarks.get(key, 0),
            log_start_offset=volume.log_starts.get(key, 0),
            first_dirty_offset=first_dirty_offset,
        )
        volume.logs[key] = self._logs[key] = log

    def recover(self) -> None:
        """Check the logs of directories without a clean shutdown. For a thread.

        A log that is used before this is recovered by its first use.
        """
        volumes = [each for each in self._working() if not each.was_clean and each.logs]
        if not volumes:
            return
        started = time.monotonic()
        self._in_threads(volumes, _recover)
        for volume in volumes:
            try:
                volume.write_lost_offsets()
            except OSError as error:
                volume.refused(error)
        logger.info(
            "recovered directories=%s logs=%d ms=%.0f",
            ",".join(str(volume.path) for volume in volumes),
            sum(len(volume.logs) for volume in volumes),
            (time.monotonic() - started) * 1000,
        )

    def _in_threads(self, volumes: list[Volume], call: Callable[[VolumeLog], object]) -> None:
        """Call `call` for all logs; each directory, which may be a disk, has separate threads."""
        threads: list[Thread] = []
        for volume in volumes:
            logs = iter(list(volume.logs.values()))  # each thread takes the next
            count = min(self.recovery_threads, len(volume.logs))
            threads += (Thread(target=_each, args=(call, logs)) for _ in range(count))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def resolve_duplicates(self, rank: Callable[[PartitionLog], tuple[bool, ...]]) -> None:
        """For a partition in two directories, use the log of higher rank; quarantine the other.

        With equal ranks, the log with the higher last segment is used. Two logs exist after a move
        whose old directory could not be renamed, and when a directory comes back after its topic
        was created again or its log was replaced by a copy. Call it when the metadata are known and
        before any log is used.
        """
        duplicates, self._duplicates = self._duplicates, []
        for log in duplicates:
            key = (log.topic, log.partition)
            both = (log, self._logs[key])
            used, other = sorted(
                both, key=lambda each: (rank(each), _last_segment(each)), reverse=True
            )
            self._logs[key] = used
            logger.error(
                "quarantining duplicate log, partition is in two directories"
                " path=%s used=%s renamed_to=%s",
                other.directory,
                used.directory,
                self._remove_log(other, "stray"),
            )

    # Logs

    def get(self, topic: str, partition: int) -> PartitionLog | None:
        """Return the partition's log, loaded; None if this node has none.

        Raises KafkaError KAFKA_STORAGE_ERROR or CORRUPT_MESSAGE when it cannot be read.
        """
        log = self._logs.get((topic, partition))
        if log is None:
            return None
        if not log.is_loaded:
            log.load(recover=not log.volume.was_clean)
        try:
            log.volume.write_lost_offsets()
        except OSError as error:
            raise log.volume.refused(error) from error
        return log

    def create(
        self,
        topic: str,
        topic_id: Uuid,
        partition: int,
        config: LogConfig,
        directory_id: Uuid | None = None,
    ) -> PartitionLog:
        """Create a log in the directory with that id, or in the one with the fewest logs.

        Raises KafkaError KAFKA_STORAGE_ERROR when that directory is offline, when no directory is
        online, and after an I/O error.
        """
        volume = self._place(directory_id)
        log = PartitionLog(volume, topic, partition, config)
        try:
            if directory_id is not None and self.relocations.use_copy(log, topic_id):
                # LONG_MAX: any gap between segments is a result of compaction, not damage.
                self._add_existing(log, first_dirty_offset=LONG_MAX)
                log.load(recover=True)
                volume.write_lost_offsets()
                return log
            volume.clear_checkpoints((topic, partition))
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
            # That directory may have the log: a new log in another directory would hide it.
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"directory {directory_id} is offline")
        volume = self.volume_of_new_logs()
        if volume is None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "all data directories are offline")
        return volume

    def volumes_of_new_logs(self) -> list[Volume]:
        """Return the online directories that are not cordoned.

        When all are cordoned, the first one: the replica was placed here just before. None are left
        when all directories are offline.
        """
        working = self._working()
        return [volume for volume in working if not volume.is_cordoned] or working[:1]

    def volume_of_new_logs(self) -> Volume | None:
        """Return the directory with the fewest logs of those that new logs are created in."""
        return min(self.volumes_of_new_logs(), key=lambda each: len(each.logs), default=None)

    def cordon(self, directories: Collection[Path]) -> None:
        """Create no new logs in these directories, and in all others again."""
        for volume in self.volumes:
            volume.is_cordoned = volume.path in directories

    def known(self, topic: str, partition: int) -> PartitionLog | None:
        """Return the partition's log, loaded or not; None if this node has none."""
        return self._logs.get((topic, partition))

    def delete(self, topic: str, partition: int) -> None:
        """Rename a log's directory at once; remove its files after file.delete.delay.ms.

        Nothing happens when the log does not exist. An I/O error takes the directory offline.
        """
        log = self._logs.pop((topic, partition), None)
        renamed = log and self._remove_log(log, "delete")
        if log and renamed:
            remove = partial(shutil.rmtree, renamed, ignore_errors=True)
            log.volume.deletions.add(log.config.file_delete_delay_ms, remove)

    def quarantine(self, topic: str, partition: int) -> None:
        """Rename a log that belongs to no topic, and keep its files (Kafka's stray logs)."""
        log = self._logs.pop((topic, partition), None)
        renamed = log and self._remove_log(log, "stray")
        if log and renamed:
            logger.warning(
                "quarantining stray log, no topic has it log=%s renamed_to=%s",
                log.directory,
                renamed,
            )

    def _remove_log(self, log: PartitionLog, purpose: str) -> str | None:
        """Rename a removed log's directory and return its new path; None after an I/O error."""
        volume = log.volume
        volume.forget((log.topic, log.partition))
        log.mark_deleted()
        log.release()
        if volume.failure is not None:
            return None
        return volume.rename_directory(log.directory, (log.topic, log.partition), purpose)

    def logs(self) -> Iterator[PartitionLog]:
        """Yield every log, loaded or not."""
        yield from self._logs.values()

    def due_deletions(self, now_ms: int) -> list[tuple[Volume, Callable[[], object]]]:
        """Return the deletions whose delay is over, for `remove_deleted`."""
        return [
            (volume, remove)
            for volume in self._working()
            for remove in volume.deletions.due(now_ms)
        ]

    def remove_deleted(self, deletions: Iterable[tuple[Volume, Callable[[], object]]]) -> None:
        """Remove the files of deleted logs and segments. For a thread."""
        for volume, remove in deletions:
            try:
                remove()
            except OSError as error:
                volume.refused(error)

    def flush_rolled(self, logs: Iterable[VolumeLog]) -> None:
        """Make complete segments durable, which advances the recovery points. For a thread.

        After 1 GiB the checkpoints are written, so that a start after a kill does not check these
        segments again.
        """
        for log in logs:
            try:
                self._synced_bytes += log.flush_rolled()
            except KafkaError as error:
                _log_flush_failure(log, error)
        if self._synced_bytes >= _CHECKPOINT_BYTES:
            self._write_checkpoints()

    def take_rolled(self) -> list[VolumeLog]:
        """Return the logs that rolled since the last call."""
        logs: list[VolumeLog] = []
        for volume in self._working():
            logs += volume.rolled
            volume.rolled.clear()
        return logs

    # Failures, checkpoints and shutdown

    @property
    def is_lost(self) -> bool:
        """True when no directory is online, or the metadata log's directory is offline."""
        return self.metadata_volume.failure is not None or not self._working()

    @property
    def has_offline(self) -> bool:
        """True when a data directory of this node is offline."""
        return len(self._working()) < len(self.volumes)

    def is_online(self, directory_id: Uuid) -> bool:
        """True when this node has the directory with that id online."""
        return any(volume.directory_id == directory_id for volume in self._working())

    def _working(self) -> list[Volume]:
        return [volume for volume in self.volumes if volume.failure is None]

    def checkpoint(self) -> None:
        """Write recovery points, high watermarks and log start offsets. For a thread.

        Logs with more than 16 MiB of unsynced bytes are synced first, so that a start after a kill
        has little to check.
        """
        for log in list(self._logs.values()):
            if log.is_loaded and log.unsynced_bytes > _UNSYNCED_BYTES_MAX:
                try:
                    log.flush()
                except KafkaError as error:
                    _log_flush_failure(log, error)
        self._write_checkpoints()

    def _write_checkpoints(self) -> None:
        self._synced_bytes = 0
        for volume in self._working():
            try:
                volume.write_checkpoints()
            except OSError as error:
                volume.refused(error)

    def checkpoint_high_watermarks(self) -> None:
        """Write the high watermarks that changed. For a thread."""
        for volume in self._working():
            try:
                volume.write_high_watermarks()
            except OSError as error:
                volume.refused(error)

    def checkpoint_log_start_offsets(self) -> None:
        """Write the log start offsets durably. For a thread.

        Raises KafkaError KAFKA_STORAGE_ERROR after an I/O error.
        """
        for volume in self._working():
            try:
                volume.write_log_starts()
            except OSError as error:
                raise volume.refused(error) from error

    def close(self, clean: bool) -> None:
        """Make all logs durable and unlock the directories. For a thread.

        Without `clean`, nothing is written, and the next start recovers the logs.
        """
        if clean:
            self._close_logs(self._working())
        for volume in self.volumes:
            for log in volume.logs.values():
                log.release()
            volume.unlock()
        self.metadata_volume.unlock()

    def _close_logs(self, volumes: list[Volume]) -> None:
        # A log that could not be recovered after a kill must be recovered by the next start.
        failed = {
            volume
            for volume in volumes
            if not volume.was_clean and any(not log.is_loaded for log in volume.logs.values())
        }

        def close(log: VolumeLog) -> None:
            try:
                log.close()
            except Exception as error:
                failed.add(log.volume)
                logger.error("cannot close log=%s error=%s", log.directory, error)

        self._in_threads(volumes, close)
        for volume in volumes:
            try:
                if volume not in failed:
                    volume.write_checkpoints()
                    volume.mark_clean(self.broker_epoch())
            except OSError as error:
                volume.refused(error)

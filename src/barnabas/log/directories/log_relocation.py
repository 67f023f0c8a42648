"""Move one log to another data directory while it is written (Kafka's future log, KIP-113).

A copy grows in a directory named `-future`. A thread copies and syncs complete segments and most of
the active one; the loop copies the last bytes, when no append can happen. Then the copy is renamed
to the log's name, the old directory is removed, and the `PartitionLog` uses the new files. The
metadata name the new directory before this last step (KIP-858), so by then the copy must be usable
as the log (`make_ready`). An interrupted move resumes at start-up, after the copy is compared with
the log.
"""

import logging
import os
import shutil
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from barnabas.log.checkpoints import (
    LEADER_EPOCHS,
    MIRROR_END,
    PARTITION_METADATA,
    encode_epochs,
    encode_mirror_end,
    encode_partition_metadata,
)
from barnabas.log.file_operations import replace_file, sync_path
from barnabas.log.segment.log_segment import SUFFIXES, Segment, file_name
from barnabas.log.volume import Volume
from barnabas.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from barnabas.log.partition.partition_log import PartitionLog

logger = logging.getLogger(__name__)

LAST_STEP_MAX: Final = 1 << 20
"""The loop copies the rest when at most this number of bytes remains."""

_SNAPSHOT: Final = ".snapshot"
_COPY_BYTES: Final = 4 << 20
_COMPARE_BYTES: Final = 1 << 18


class StaleCopyError(Exception):
    """The log was truncated, compacted or deleted during the copy, so the copy is useless."""


class LogRelocation:
    """The move of one log to the volume `target`; `copied` has the copied bytes of each segment.

    `is_stopped` makes a copy that runs in a thread return soon; the copy can be resumed. The
    constructor creates the directory if necessary. Raises OSError.
    """

    def __init__(self, log: "PartitionLog", target: Volume, directory: str) -> None:
        self.log = log
        self.target = target
        self.directory = directory
        self.copied: dict[Segment, int] = {}
        self.is_stopped = False
        self._synced: set[Segment] = set()
        os.makedirs(directory, exist_ok=True)

    @property
    def left_bytes(self) -> int:
        """The number of bytes that remain to be copied."""
        return sum(each.size - self.copied.get(each, 0) for each in tuple(self.log.segments))

    @property
    def reached_offset(self) -> int:
        """The base offset of the last segment in the copy."""
        return max((segment.base_offset for segment in tuple(self.copied)), default=0)

    @property
    def copied_bytes(self) -> int:
        """The number of bytes in the copy."""
        return sum(self.copied.values())

    def resume(self) -> None:
        """Keep the part of an interrupted copy that equals the log. For a thread.

        All bytes are compared: the log may have been compacted or truncated after the copy, and
        bytes that were not synced may be wrong. Raises StaleCopyError, OSError.
        """
        wanted = {file_name(segment.base_offset, ".log"): segment for segment in self.log.segments}
        for name in os.listdir(self.directory):
            path = f"{self.directory}/{name}"
            if name not in wanted:
                os.unlink(path)
                continue
            same = self._same_bytes(wanted[name].path, path)
            os.truncate(path, same)
            if same:
                self.copied[wanted[name]] = same

    def _same_bytes(self, path: str, copy: str) -> int:
        """Return the number of equal bytes at the start of two files, in whole blocks."""
        same = 0
        try:
            with open(path, "rb", buffering=0) as source, open(copy, "rb", buffering=0) as target:
                while not self.is_stopped:
                    theirs = target.read(_COMPARE_BYTES)
                    if not theirs or source.read(len(theirs)) != theirs:
                        break
                    same += len(theirs)
        except FileNotFoundError:
            raise StaleCopyError from None
        return same

    def copy(self, max_bytes: int | None = None) -> int:
        """Copy what the copy lacks, at most `max_bytes`; return the number of copied bytes.

        For a thread. Raises StaleCopyError, OSError.
        """
        segments = tuple(self.log.segments)
        before = self.copied_bytes
        for segment in segments:
            done = self.copied_bytes - before
            if self.is_stopped or done == max_bytes:
                break
            end = segment.size
            if max_bytes is not None:
                end = min(end, self.copied.get(segment, 0) + max_bytes - done)
            self._copy_batches(segment, end)
            if segment is segments[-1]:
                sync_path(self._path(segment, ".log"))  # keeps the last step short
            elif self.copied[segment] == segment.size and segment not in self._synced:
                self._copy_indexes(segment)
                self._sync(segment)
        return self.copied_bytes - before

    def _sync(self, segment: Segment) -> None:
        for suffix in SUFFIXES:
            sync_path(self._path(segment, suffix))
        self._synced.add(segment)

    def _path(self, segment: Segment, suffix: str) -> str:
        return f"{self.directory}/{file_name(segment.base_offset, suffix)}"

    def _copy_batches(self, segment: Segment, end: int) -> None:
        start = self.copied.get(segment, 0)
        if start > end or self.log.is_gone:
            raise StaleCopyError
        source = os.open(segment.path, os.O_RDONLY)
        try:
            # At position 0, truncate: an older file may be of a segment before compaction.
            flags = os.O_WRONLY | os.O_CREAT | (0 if start else os.O_TRUNC)
            target = os.open(self._path(segment, ".log"), flags, 0o644)
            try:
                os.lseek(target, start, os.SEEK_SET)
                while start < end and not self.is_stopped:
                    count = os.sendfile(target, source, start, min(_COPY_BYTES, end - start))
                    if not count:
                        raise StaleCopyError
                    start += count
            finally:
                os.close(target)
        finally:
            os.close(source)
        self.copied[segment] = start

    def make_ready(self) -> None:
        """Make the copy usable as the log, for a start that finds only the copy. For a thread.

        Raises OSError.
        """
        self._copy_small_files()
        sync_path(f"{self.directory}/{PARTITION_METADATA}")
        sync_path(self.directory)

    # The last step, in the loop

    def finish(self) -> None:
        """Copy the rest and switch the log to its new directory. Raises StaleCopyError, OSError."""
        log, self.is_stopped = self.log, False
        if log.is_gone or any(each.size < size for each, size in self.copied.items()):
            raise StaleCopyError
        self._drop_deleted_segments()
        rest = [each for each in log.segments if not self._is_complete(each)]
        for segment in rest:
            self._synced.discard(segment)
            self._copy_batches(segment, segment.size)
            self._copy_indexes(segment)
        self._copy_small_files()
        if log.recovery_point > rest[0].base_offset:
            # Records that were durable (flush.messages) stay durable when the old files go.
            for segment in rest:
                self._sync(segment)
            sync_path(f"{self.directory}/{LEADER_EPOCHS}")
        old_volume, old_directory = log.volume, log.directory
        new_directory = f"{self.target.path}/{log.topic}-{log.partition}"
        self._write_checkpoints()
        sync_path(self.directory)
        os.rename(self.directory, new_directory)
        try:
            # After a power loss, one of the two directory names must exist.
            sync_path(self.target.path)
        except OSError:
            os.rename(new_directory, self.directory)
            raise
        self._switch(new_directory)
        aside = f"{old_directory}.{os.urandom(16).hex()}-delete"
        try:
            os.rename(old_directory, aside)
        except OSError as error:
            old_volume.fail(error)
            return
        old_volume.deletions.add(
            log.config.file_delete_delay_ms, lambda: shutil.rmtree(aside, ignore_errors=True)
        )

    def _is_complete(self, segment: Segment) -> bool:
        is_whole = segment in self._synced and self.copied[segment] == segment.size
        return is_whole and segment is not self.log.active

    def _write_checkpoints(self) -> None:
        """Write the log's offsets to the target's checkpoints, as a kill may come at any time.

        After it, deleted records stay deleted, and gaps of compaction are not taken for damage.
        """
        key = (self.log.topic, self.log.partition)
        self.target.clear_checkpoints(key)
        self.target.logs[key] = self.log
        try:
            self.target.write_checkpoints()
        finally:
            del self.target.logs[key]

    def _drop_deleted_segments(self) -> None:
        """Remove copies of segments that retention deleted meanwhile."""
        current = set(self.log.segments)
        bases = {segment.base_offset for segment in current}
        for segment in [each for each in self.copied if each not in current]:
            del self.copied[segment]
            if segment.base_offset not in bases:
                _remove(self._path(segment, ".log"))

    def _copy_indexes(self, segment: Segment) -> None:
        if segment is self.log.active:
            segment.finish()
        for suffix in SUFFIXES:
            if suffix != ".log":
                _copy_file(segment.path_of(suffix), self._path(segment, suffix))

    def _copy_small_files(self) -> None:
        log = self.log
        for name in os.listdir(log.directory):
            if name.endswith(_SNAPSHOT):
                _copy_file(f"{log.directory}/{name}", f"{self.directory}/{name}")
        epochs = encode_epochs(log.epochs.entries)
        replace_file(f"{self.directory}/{LEADER_EPOCHS}", epochs, sync=False)
        if log.mirror_end >= 0:
            content = encode_mirror_end(log.mirror_end)
            replace_file(f"{self.directory}/{MIRROR_END}", content, sync=False)
        if log.topic_id is not None:
            content = encode_partition_metadata(log.topic_id)
            replace_file(f"{self.directory}/{PARTITION_METADATA}", content, sync=False)

    def _switch(self, directory: str) -> None:
        log, target = self.log, self.target
        key = (log.topic, log.partition)
        segments = [each.moved(directory, target.files) for each in log.segments]
        unsynced = (each.base_offset for each in log.segments if each not in self._synced)
        synced_to = next(unsynced, log.log_end_offset)
        for segment in log.segments:
            segment.close()
        dirty = log.volume.cleaner_offsets.get(key)
        log.volume.forget(key)
        if dirty is not None:
            target.cleaner_offsets[key] = dirty
        log.move_to(target, directory, segments, synced_to)
        target.logs[key] = log
        target.rolled.add(log)


def _copy_file(source: str, target: str) -> None:
    try:
        shutil.copyfile(source, target)
    except FileNotFoundError:
        return


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return


def find_volume(volumes: Iterable[Volume], path: str) -> Volume:
    """Return the data directory at `path`.

    Raises KafkaError LOG_DIR_NOT_FOUND, or KAFKA_STORAGE_ERROR when it is offline.
    """
    for volume in volumes:
        if os.path.abspath(volume.path) == path:
            if volume.failure is not None:
                raise volume.offline()
            return volume
    raise KafkaError(ErrorCode.LOG_DIR_NOT_FOUND, f"{path} is not one of log.dirs")

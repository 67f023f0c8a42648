"""One data directory: its lock, identity, checkpoints, and the failure of its disk.

Kafka calls it "log directory". Here it is a `Volume`, because the directory of one partition is a
log directory too.
"""

import errno
import fcntl
import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol, TypeVar

from barnabas.log.checkpoints import (
    CLEAN_SHUTDOWN,
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_STARTS,
    META_PROPERTIES,
    RECOVERY_POINTS,
    UNREGISTERED,
    CheckpointError,
    MetaProperties,
    Offsets,
    decode_clean_shutdown,
    decode_offsets,
    encode_clean_shutdown,
    encode_offsets,
)
from barnabas.log.directory_names import renamed_name
from barnabas.log.file_cache import FileCache
from barnabas.log.file_operations import replace_file, sync_path
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.types import Uuid

logger = logging.getLogger(__name__)

LOCK: Final = ".lock"
_NOT_THE_DISK: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)

_T = TypeVar("_T")

# A POSIX lock does not exclude the process that holds it, so this set does.
_locked_here: set[tuple[int, int]] = set()


class DataDirectoryError(Exception):
    """A data directory that this node must not use; the message is one line with a remedy."""


class VolumeLog(Protocol):
    """A log in a data directory, as the directory uses it (`PartitionLog`)."""

    volume: "Volume"
    directory: str
    is_loaded: bool
    is_gone: bool
    recovery_point: int
    high_watermark: int
    log_start_offset: int

    @property
    def starts_inside_segment(self) -> bool:
        """True when the log start offset is not that of a segment."""
        ...

    def load(self, *, recover: bool) -> None:
        """Read the log's files. Raises KafkaError."""
        ...

    def flush_rolled(self) -> int:
        """Make the complete segments durable; return their bytes. Raises KafkaError."""
        ...

    def close(self) -> None:
        """Make the log durable, and close its files. Raises KafkaError."""
        ...

    def release(self) -> None:
        """Close the files."""
        ...


class Volume:
    """A locked data directory and the state that its logs share.

    The first I/O error sets `failure`: from then on the directory is not read or written, and its
    partitions answer KAFKA_STORAGE_ERROR.
    """

    def __init__(self, path: Path, files: FileCache) -> None:
        self.path = path
        self.files = files
        self.failure: OSError | None = None
        self.on_failure: Callable[[Volume], object] | None = None
        self.properties: MetaProperties | None = None
        self.is_cordoned = False
        """True when new partitions are created in other directories (KIP-1066)."""
        self.was_clean = False
        self.previous_broker_epoch = UNREGISTERED
        self.recovery_points: Offsets = {}
        self.high_watermarks: Offsets = {}
        self.log_starts: Offsets = {}
        self.cleaner_offsets: Offsets = {}  # logs are compacted below these offsets
        self._checkpointed: dict[str, frozenset[tuple[str, int]]] = {}  # partitions in each file
        self.deletions = Deletions()
        self.logs: dict[tuple[str, int], VolumeLog] = {}
        self.rolled: set[VolumeLog] = set()  # logs with complete segments that are not synced
        self._losses = 0  # logs that were loaded and end below their checkpointed offsets
        self._written_losses = 0  # of these, the ones whose offsets the checkpoints have
        self.mutex = threading.Lock()  # held briefly, as two threads change recovery points
        self._checkpoint_mutex = threading.Lock()  # held while checkpoints are written
        self._lock_fd = -1
        self._lock_key: tuple[int, int] | None = None

    def __repr__(self) -> str:
        return f"<Volume {self.path}>"

    @property
    def directory_id(self) -> Uuid | None:
        """The directory's id in `meta.properties`."""
        return None if self.properties is None else self.properties.directory_id

    # Opening

    def lock(self) -> None:
        """Create the directory if necessary, and lock it against other nodes, also Apache Kafka.

        Raises DataDirectoryError when another node has locked it, and OSError.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        fd = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        stat = os.fstat(fd)
        key = (stat.st_dev, stat.st_ino)
        if key in _locked_here:
            # The descriptor stays open: closing it would release this process's own lock.
            raise self._in_use()
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            raise self._in_use() from None
        _locked_here.add(key)
        self._lock_fd, self._lock_key = fd, key

    def _in_use(self) -> DataDirectoryError:
        return DataDirectoryError(
            f"{self.path} is in use by another node: stop that one, or choose another directory"
        )

    def unlock(self) -> None:
        """Release the lock."""
        if self._lock_key is not None:
            _locked_here.discard(self._lock_key)
            self._lock_key = None
            os.close(self._lock_fd)

    def read_properties(self) -> MetaProperties | None:
        """Return the content of `meta.properties`, None in a new directory.

        Raises DataDirectoryError when the file is damaged.
        """
        file = self.path / META_PROPERTIES
        content = self._read(file.name, bytes, b"")
        if not content:
            return None
        try:
            self.properties = MetaProperties.decode(content)
        except CheckpointError as error:
            raise DataDirectoryError(f"{file} is damaged: {error}") from error
        return self.properties

    def write_properties(self, properties: MetaProperties) -> None:
        """Write `meta.properties` durably. Raises OSError."""
        self.properties = properties
        replace_file(self.path / META_PROPERTIES, properties.encode())

    def load_checkpoints(self) -> None:
        """Read the checkpoints of the last run, and remove its clean shutdown file.

        Raises OSError.
        """
        marker = self.path / CLEAN_SHUTDOWN
        content = self._read(CLEAN_SHUTDOWN, bytes, None)
        if content is not None:
            self.was_clean = True
            self.previous_broker_epoch = decode_clean_shutdown(content)
            marker.unlink()
            sync_path(self.path)
        self.recovery_points = self._read(RECOVERY_POINTS, decode_offsets, {})
        self.high_watermarks = self._read(HIGH_WATERMARKS, decode_offsets, {})
        self.log_starts = self._read(LOG_STARTS, decode_offsets, {})
        self.cleaner_offsets = self._read(CLEANER_OFFSETS, decode_offsets, {})
        self._checkpointed = {
            RECOVERY_POINTS: frozenset(self.recovery_points),
            HIGH_WATERMARKS: frozenset(self.high_watermarks),
            LOG_STARTS: frozenset(self.log_starts),
            CLEANER_OFFSETS: frozenset(self.cleaner_offsets),
        }

    def _read(self, name: str, decode: Callable[[bytes], _T], default: _T) -> _T:
        """Return a file's content; `default` if it is missing or damaged (which is logged)."""
        path = self.path / name
        try:
            return decode(path.read_bytes())
        except FileNotFoundError:
            return default
        except CheckpointError as error:
            logger.warning("ignoring damaged checkpoint file=%s reason=%s", path, error)
            return default

    # Checkpoints

    def write_checkpoints(self) -> None:
        """Write recovery points, high watermarks and log start offsets of all logs.

        Logs that are not loaded keep the offsets read at start-up. Raises OSError.
        """
        with self._checkpoint_mutex:
            losses = self._losses
            for key, log in list(self.logs.items()):
                if log.is_loaded:
                    self.recovery_points[key] = log.recovery_point
                    self.high_watermarks[key] = log.high_watermark
            self._write(RECOVERY_POINTS, self.recovery_points)
            self._write(HIGH_WATERMARKS, self.high_watermarks)
            self._write_log_starts()
            self._written_losses = losses

    def note_lost_offsets(self) -> None:
        """A log was loaded that ends below its checkpointed offsets. May run in a thread."""
        with self.mutex:
            self._losses += 1

    def write_lost_offsets(self) -> None:
        """Write the checkpoints if a loaded log ends below offsets in them. Raises OSError.

        Without this, a start after a kill would take the offsets of lost records for those of the
        records that replaced them, and serve uncommitted ones.
        """
        if self._written_losses != self._losses:
            self.write_checkpoints()

    def write_high_watermarks(self) -> None:
        """Write the high watermarks of all logs, unless nothing changed. Raises OSError."""
        with self._checkpoint_mutex:
            before = dict(self.high_watermarks)
            for key, log in list(self.logs.items()):
                if log.is_loaded:
                    self.high_watermarks[key] = log.high_watermark
            if self.high_watermarks != before:
                self._write(HIGH_WATERMARKS, self.high_watermarks)

    def write_log_starts(self) -> None:
        """Write durably the log start offsets that are inside a segment (DeleteRecords).

        Raises OSError.
        """
        with self._checkpoint_mutex:
            self._write_log_starts()

    def _write_log_starts(self) -> None:
        for key, log in list(self.logs.items()):
            if log.is_loaded:
                if log.starts_inside_segment:
                    self.log_starts[key] = log.log_start_offset
                else:
                    self.log_starts.pop(key, None)
        self._write(LOG_STARTS, self.log_starts)

    def write_cleaner_offsets(self) -> None:
        """Write durably the offsets below which logs are compacted. Raises OSError."""
        with self._checkpoint_mutex:
            self._write(CLEANER_OFFSETS, self.cleaner_offsets)

    def _write(self, name: str, offsets: Offsets) -> None:
        # Copy the dict first: the loop may remove deleted partitions meanwhile.
        known = {key: offset for key, offset in dict(offsets).items() if key in self.logs}
        keys = frozenset(known)
        self._checkpointed[name] = self._checkpointed.get(name, keys) | keys  # while it is written
        replace_file(self.path / name, encode_offsets(known))
        self._checkpointed[name] = keys

    def clear_checkpoints(self, key: tuple[str, int]) -> None:
        """Remove an earlier log of the same name from the checkpoints, before a new one is created.

        Otherwise a start after a kill would remove the new log's records below the old log's start.
        Kafka writes the files at each deletion (`LogManager.asyncDelete`). Raises OSError.
        """
        self.forget(key)
        if any(key in named for named in self._checkpointed.values()):
            self.write_checkpoints()
            self.write_cleaner_offsets()

    def forget(self, key: tuple[str, int]) -> None:
        """Remove a partition that is no longer in this directory."""
        log = self.logs.pop(key, None)
        if log is not None:
            self.rolled.discard(log)
        for offsets in (
            self.recovery_points,
            self.high_watermarks,
            self.log_starts,
            self.cleaner_offsets,
        ):
            offsets.pop(key, None)

    def mark_clean(self, broker_epoch: int) -> None:
        """Write the clean shutdown file, as the last file of a run. Raises OSError.

        A run that ends before it has registered changes no records, so the epoch of the run before
        it still names the state of the directory. Kafka writes -1 then, and the controller takes
        the next registration for one after an unclean stop: the broker leaves its ELRs, and its
        partitions without another replica are elected uncleanly.
        """
        epoch = self.previous_broker_epoch if broker_epoch == UNREGISTERED else broker_epoch
        replace_file(self.path / CLEAN_SHUTDOWN, encode_clean_shutdown(epoch))

    # Failure

    def refused(self, error: OSError) -> KafkaError:
        """Return the KafkaError for an I/O error.

        The directory goes offline, except when the process lacks descriptors or memory, which may
        pass.
        """
        if error.errno in _NOT_THE_DISK:
            logger.error("out of process resources path=%s error=%s", self.path, error)
            return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
        return self.fail(error)

    def rename_directory(self, directory: str, key: tuple[str, int], purpose: str) -> str | None:
        """Rename a directory that is no longer the log of `key`, and return its new path.

        Return None when it does not exist, and after an I/O error, which may take the volume
        offline.
        """
        renamed = f"{self.path}/{renamed_name(*key, purpose)}"
        try:
            os.rename(directory, renamed)
        except FileNotFoundError:
            return None
        except OSError as error:
            self.refused(error)
            return None
        return renamed

    def fail(self, error: OSError) -> KafkaError:
        """Take the directory offline until a restart, and return the KafkaError to raise."""
        if self.failure is None:
            self.failure = error
            logger.error(
                "log directory offline path=%s logs=%d error=%s", self.path, len(self.logs), error
            )
            if self.on_failure is not None:
                self.on_failure(self)
        return self.offline()

    def offline(self) -> KafkaError:
        """Return the KafkaError of partitions in an offline directory."""
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.path} is offline: {self.failure}")


class Deletions:
    """Renamed files that are removed later (`file.delete.delay.ms`).

    The delay starts with the first call of `due` after `add`. Only the loop may use it.
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[int, Callable[[], object]]] = []
        self._new: list[tuple[int, Callable[[], object]]] = []

    def __len__(self) -> int:
        return len(self._waiting) + len(self._new)

    def add(self, delay_ms: int, remove: Callable[[], object]) -> None:
        """Add a call that removes files after `delay_ms`."""
        self._new.append((delay_ms, remove))

    def due(self, now_ms: int) -> list[Callable[[], object]]:
        """Remove and return the calls whose delay is over."""
        new, self._new = self._new, []
        self._waiting += [(now_ms + delay_ms, remove) for delay_ms, remove in new]
        due = [remove for deadline, remove in self._waiting if deadline <= now_ms]
        self._waiting = [each for each in self._waiting if each[0] > now_ms]
        return due

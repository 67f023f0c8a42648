"""One data directory: its lock, its identity, its checkpoints, and whether its disk works.

"Log directory" is Kafka's name for it; `Volume` here, so that it is not mistaken for the directory
of one partition.
"""

import errno
import fcntl
import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from barnabas.log.checkpoints import (
    CLEAN_SHUTDOWN,
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_STARTS,
    META_PROPERTIES,
    RECOVERY_POINTS,
    CheckpointError,
    MetaProperties,
    Offsets,
    decode_clean_shutdown,
    decode_offsets,
    encode_clean_shutdown,
    encode_offsets,
)
from barnabas.log.directories.directory_names import aside_name
from barnabas.log.file_cache import FileCache
from barnabas.log.file_operations import replace_file, sync_path
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.types import Uuid

if TYPE_CHECKING:
    from barnabas.log.partition.partition_log import PartitionLog

logger = logging.getLogger(__name__)

LOCK: Final = ".lock"
_NOT_THE_DISK: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)

_T = TypeVar("_T")

# A POSIX lock does not exclude a second opener in the same process: that is kept here.
_locked_here: set[tuple[int, int]] = set()


class DataDirectoryError(Exception):
    """A data directory that this node must not use; one line that says what to do."""


class Volume:
    """A locked data directory and the state that its logs share.

    `failure` is set by the first I/O error: from then on nothing of it is read or written, and
    its partitions answer KAFKA_STORAGE_ERROR.
    """

    def __init__(self, path: Path, files: FileCache) -> None:
        self.path = path
        self.files = files
        self.failure: OSError | None = None
        self.on_failure: Callable[[Volume], object] | None = None
        self.properties: MetaProperties | None = None
        self.was_clean = False
        self.previous_broker_epoch = -1
        self.recovery_points: Offsets = {}
        self.high_watermarks: Offsets = {}
        self.log_starts: Offsets = {}
        self.cleaner_offsets: Offsets = {}  # up to where logs are compacted
        self._checkpointed: dict[str, frozenset[tuple[str, int]]] = {}  # whom each file names
        self.deletions = Deletions()
        self.logs: dict[tuple[str, int], PartitionLog] = {}
        self.rolled: set[PartitionLog] = set()  # have segments to sync that are complete
        self.mutex = threading.Lock()  # held for moments: recovery points move in two threads
        self._checkpoint_mutex = threading.Lock()  # held while checkpoints are written
        self._lock_fd = -1
        self._lock_key: tuple[int, int] | None = None

    def __repr__(self) -> str:
        return f"<Volume {self.path}>"

    @property
    def directory_id(self) -> Uuid | None:
        """Its id in `meta.properties`."""
        return None if self.properties is None else self.properties.directory_id

    # Opening

    def lock(self) -> None:
        """Create it if need be and keep every other node out, Apache Kafka too.

        Raises DataDirectoryError when another node has it. OSError.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        fd = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        stat = os.fstat(fd)
        key = (stat.st_dev, stat.st_ino)
        if key in _locked_here:
            # Closing a descriptor of the file would drop the lock that this process holds.
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
        """Let others in."""
        if self._lock_key is not None:
            _locked_here.discard(self._lock_key)
            self._lock_key = None
            os.close(self._lock_fd)

    def read_properties(self) -> MetaProperties | None:
        """Read `meta.properties`; None in a new directory. DataDirectoryError when damaged."""
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
        """Make the directory this node's, durably; OSError."""
        self.properties = properties
        replace_file(self.path / META_PROPERTIES, properties.encode())

    def load_checkpoints(self) -> None:
        """Read what the last run left, and forget that it ended well; OSError."""
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
        """A file's content, `default` where there is none or it is damaged (which is logged)."""
        path = self.path / name
        try:
            return decode(path.read_bytes())
        except FileNotFoundError:
            return default
        except CheckpointError as error:
            logger.warning("checkpoint ignored file=%s reason=%s", path, error)
            return default

    # Checkpoints

    def write_checkpoints(self) -> None:
        """Write recovery points, high watermarks and log starts of all logs; OSError.

        Logs that were not opened keep what was read.
        """
        with self._checkpoint_mutex:
            for key, log in list(self.logs.items()):
                if log.is_loaded:
                    self.recovery_points[key] = log.recovery_point
                    self.high_watermarks[key] = log.high_watermark
            self._write(RECOVERY_POINTS, self.recovery_points)
            self._write(HIGH_WATERMARKS, self.high_watermarks)
            self._write_log_starts()

    def write_log_starts(self) -> None:
        """Write where logs begin that begin inside a segment (DeleteRecords), durably; OSError."""
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
        """Write up to where logs are compacted, durably; OSError."""
        with self._checkpoint_mutex:
            self._write(CLEANER_OFFSETS, self.cleaner_offsets)

    def _write(self, name: str, offsets: Offsets) -> None:
        # A copy: the loop forgets deleted partitions meanwhile.
        known = {key: offset for key, offset in dict(offsets).items() if key in self.logs}
        keys = frozenset(known)
        self._checkpointed[name] = self._checkpointed.get(name, keys) | keys  # while it is written
        replace_file(self.path / name, encode_offsets(known))
        self._checkpointed[name] = keys

    def make_room(self, key: tuple[str, int]) -> None:
        """A new log is to come: nothing that the files say of an earlier one is its own. OSError.

        After a kill its records below the old log's start would be gone. Kafka writes the files
        with each deletion (`LogManager.asyncDelete`).
        """
        self.forget(key)
        if any(key in named for named in self._checkpointed.values()):
            self.write_checkpoints()
            self.write_cleaner_offsets()

    def forget(self, key: tuple[str, int]) -> None:
        """A partition left this directory."""
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
        """Say that all was closed in order: the last thing written. OSError."""
        replace_file(self.path / CLEAN_SHUTDOWN, encode_clean_shutdown(broker_epoch))

    # Failure

    def refused(self, error: OSError) -> KafkaError:
        """What to raise for an operation that the system refused.

        It takes the directory offline, unless the process is out of something: that passes.
        """
        if error.errno in _NOT_THE_DISK:
            logger.error("out of resources path=%s error=%s", self.path, error)
            return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
        return self.fail(error)

    def put_aside(self, directory: str, key: tuple[str, int], purpose: str) -> str | None:
        """Rename a directory that is no log of `key` any more; its path then.

        None if it is not there, or if the disk refuses, which may take it offline.
        """
        aside = f"{self.path}/{aside_name(*key, purpose)}"
        try:
            os.rename(directory, aside)
        except FileNotFoundError:
            return None
        except OSError as error:
            self.refused(error)
            return None
        return aside

    def fail(self, error: OSError) -> KafkaError:
        """Take the directory offline for good; what to raise."""
        if self.failure is None:
            self.failure = error
            logger.error(
                "log directory offline path=%s logs=%d error=%s", self.path, len(self.logs), error
            )
            if self.on_failure is not None:
                self.on_failure(self)
        return self.offline()

    def offline(self) -> KafkaError:
        """What partitions of a failed directory answer."""
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.path} is offline: {self.failure}")


class Deletions:
    """Files that were renamed away and are removed later (`file.delete.delay.ms`).

    The delay counts from the first `due` that sees them. For the loop alone.
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[int, Callable[[], object]]] = []
        self._new: list[tuple[int, Callable[[], object]]] = []

    def __len__(self) -> int:
        return len(self._waiting) + len(self._new)

    def add(self, delay_ms: int, remove: Callable[[], object]) -> None:
        """Call `remove` when `delay_ms` have passed."""
        self._new.append((delay_ms, remove))

    def due(self, now_ms: int) -> list[Callable[[], object]]:
        """Take out what is to be removed now."""
        new, self._new = self._new, []
        self._waiting += [(now_ms + delay_ms, remove) for delay_ms, remove in new]
        due = [remove for deadline, remove in self._waiting if deadline <= now_ms]
        self._waiting = [each for each in self._waiting if each[0] > now_ms]
        return due

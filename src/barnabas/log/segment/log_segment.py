"""One segment of a log: a file of batches and its indexes (Kafka's `LogSegment`)."""

import logging
import os
import re
from collections.abc import Iterator
from typing import Final

from barnabas.log.file_cache import FileCache, OpenFile
from barnabas.log.file_operations import read_at, sync_path, write_at
from barnabas.log.log_config import LogConfig
from barnabas.log.segment import legacy_messages
from barnabas.log.segment.segment_index import OffsetIndex, TimeIndex, TransactionIndex
from barnabas.protocol.batches.batch_header import BatchHeader, CorruptBatch, read_header
from barnabas.protocol.batches.batch_layout import HEADER_SIZE, MAGIC

logger = logging.getLogger(__name__)

NO_TIMESTAMP: Final = -1
RELATIVE_OFFSET_MAX: Final = (1 << 31) - 1

OFFSET_NAME: Final = re.compile(r"[0-9]{20}")
"""What `file_name` makes of an offset, without the suffix."""

_SEGMENT: Final = re.compile(rf"{OFFSET_NAME.pattern}\.log")

SUFFIXES: Final = (".log", ".index", ".timeindex", ".txnindex")

_fdatasync = getattr(os, "fdatasync", os.fsync)  # macOS has only the one


def _extend(fd: int, _: int, size: int) -> None:
    os.ftruncate(fd, size)


_fallocate = getattr(os, "posix_fallocate", _extend)  # so is this

_UNKNOWN: Final = -2
_HEADERS_CHUNK: Final = 8192


def file_name(offset: int, suffix: str) -> str:
    """The name of a partition's file that begins at `offset`."""
    return f"{offset:020d}{suffix}"


def sizes_on_disk(directory: str) -> dict[int, int]:
    """Of a log that is not loaded: its segments' sizes in bytes by their base offsets. OSError."""
    with os.scandir(directory) as entries:
        return {
            int(entry.name[:20]): entry.stat().st_size
            for entry in entries
            if _SEGMENT.fullmatch(entry.name) and entry.is_file()
        }


class Segment:
    """Batches from `base_offset` on. Positions and sizes in bytes, timestamps in ms.

    `size` is how much of the file is batches. Nothing is opened or read before it is needed.
    """

    __slots__ = (
        "_max_timestamp",
        "_max_timestamp_offset",
        "_offset_index",
        "_time_index",
        "_transaction_index",
        "base_offset",
        "bytes_since_index",
        "created_ms",
        "directory",
        "file",
        "files",
        "first_timestamp",
        "roll_jitter_ms",
        "size",
    )

    def __init__(self, directory: str, base_offset: int, files: FileCache, size: int = 0) -> None:
        self.directory = directory
        self.base_offset = base_offset
        self.files = files
        self.file: OpenFile | None = None
        self.size = size
        self.bytes_since_index = 0
        self.created_ms = 0
        self.roll_jitter_ms = 0
        unknown = _UNKNOWN if size else NO_TIMESTAMP
        self.first_timestamp = unknown  # the largest of the first batch, by which rolls are timed
        self._max_timestamp = unknown
        self._max_timestamp_offset = -1
        self._offset_index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        self._transaction_index: TransactionIndex | None = None

    def __repr__(self) -> str:
        return f"<Segment {self.path} of {self.size} bytes>"

    @property
    def path(self) -> str:
        """The `.log` file."""
        return f"{self.directory}/{self.base_offset:020d}.log"

    def path_of(self, suffix: str) -> str:
        """A file that goes with it."""
        return f"{self.directory}/{self.base_offset:020d}{suffix}"

    def opened(self) -> OpenFile:
        """Its file, opened if need be, and open while it is referred to; OSError."""
        file = self.file or self.files.open(self)
        file.is_used = True
        return file

    # Writing

    def create(self, preallocate_bytes: int) -> None:
        """Make its files; OSError.

        Room on the disk may be taken at once: what is not used of it goes with `finish`.
        """
        file = self.opened()
        if preallocate_bytes:
            _fallocate(file.fd, 0, preallocate_bytes)
        self.empty_indexes()

    def append(
        self,
        records: bytes | bytearray | memoryview,
        last_offset: int,
        max_timestamp: int,
        index_interval: int,
    ) -> None:
        """Write one batch behind the others, to the page cache; OSError.

        An index entry is due when more than `index_interval` bytes were written since the last.
        """
        file = self.file or self.files.open(self)
        file.is_used = True
        position, size = self.size, len(records)
        if os.pwrite(file.fd, records, position) != size:
            write_at(file.fd, records, position)
        if not position:
            self.first_timestamp = max_timestamp
        if max_timestamp > self._max_timestamp:
            if self._max_timestamp == _UNKNOWN:
                self._load_max_timestamp()
            if max_timestamp > self._max_timestamp:
                self._max_timestamp = max_timestamp
                self._max_timestamp_offset = last_offset
        if self.bytes_since_index > index_interval:
            self.add_index_entries(last_offset, position)
        self.bytes_since_index += size
        self.size = position + size

    def add_index_entries(self, last_offset: int, position: int) -> None:
        """Index the batch at `position`, and the largest timestamp so far; OSError."""
        self.offset_index.append(last_offset - self.base_offset, position)
        self._index_max_timestamp()
        self.bytes_since_index = 0

    def _index_max_timestamp(self) -> None:
        if self.max_timestamp >= 0:
            relative = self._max_timestamp_offset - self.base_offset
            self.time_index.append(self._max_timestamp, relative)

    def is_full(self, index_bytes_max: int) -> bool:
        """Whether an index has no room for another entry (`OffsetIndex.isFull`)."""
        offsets, times = self._offset_index, self._time_index
        return (offsets is not None and len(offsets) >= index_bytes_max // 8) or (
            times is not None and len(times) >= index_bytes_max // 12 - 1
        )

    def is_due_to_roll(
        self, config: LogConfig, size: int, max_timestamp: int, last_offset: int, now_ms: int
    ) -> bool:
        """Whether a batch of `size` bytes that ends with `last_offset` belongs into a new segment.

        By size, age, full indexes and offsets out of reach (`LogSegment.shouldRoll`). CorruptBatch,
        OSError.
        """
        if not self.size:
            return last_offset - self.base_offset > RELATIVE_OFFSET_MAX
        if (
            self.size > config.segment_bytes - size
            or last_offset - self.base_offset > RELATIVE_OFFSET_MAX
            or self.is_full(config.segment_index_bytes)
        ):
            return True
        self.load_first_timestamp()
        if self.first_timestamp >= 0:
            waited = max_timestamp - self.first_timestamp
        else:
            self.created_ms = self.created_ms or now_ms
            waited = now_ms - self.created_ms
        return waited > config.segment_ms - self.roll_jitter_ms

    def finish(self) -> None:
        """Write the indexes whole: nothing more is appended here for now. OSError."""
        file = self.opened()
        if os.fstat(file.fd).st_size != self.size:  # preallocated, or of an append that failed
            os.ftruncate(file.fd, self.size)
        if self.max_timestamp >= 0:
            self._index_max_timestamp()
        self.offset_index.finish()
        self.time_index.finish()
        self.offset_index.close()
        self.time_index.close()

    def sync(self) -> None:
        """fsync all its files; OSError. Callable from a thread."""
        for suffix in SUFFIXES:
            sync_path(self.path_of(suffix))

    def sync_batches(self) -> None:
        """Sync the batches alone: indexes can be made again. OSError. Callable from a thread."""
        file = self.file  # kept open by this reference whatever the cache does
        if file is None:
            sync_path(self.path)
        else:
            _fdatasync(file.fd)

    def moved(self, directory: str, files: FileCache) -> "Segment":
        """The same segment, its files being in another directory now; they are not opened."""
        other = Segment(directory, self.base_offset, files, self.size)
        other._max_timestamp = self._max_timestamp
        other._max_timestamp_offset = self._max_timestamp_offset
        other.first_timestamp = self.first_timestamp
        other.created_ms = self.created_ms
        other.roll_jitter_ms = self.roll_jitter_ms
        other.bytes_since_index = self.bytes_since_index
        return other

    def close(self) -> None:
        """Let go of the descriptors."""
        self.files.close(self)
        if self._offset_index is not None:
            self._offset_index.close()
        if self._time_index is not None:
            self._time_index.close()

    # Indexes

    @property
    def offset_index(self) -> OffsetIndex:
        """The offset index, made again from the batches if its file is damaged; OSError."""
        index = self._offset_index
        if index is None:
            index = self._offset_index = OffsetIndex(self.path_of(".index"), self.files)
            fault = index.fault(self.size) if self.size else None
            if fault is not None:
                index, _ = self.rebuild_indexes(f"offset index {fault}")
        return index

    @property
    def time_index(self) -> TimeIndex:
        """The time index, made again from the batches if its file is damaged; OSError."""
        index = self._time_index
        if index is None:
            index = self._time_index = TimeIndex(self.path_of(".timeindex"), self.files)
            fault = self._time_fault(index) if self.size else None
            if fault is not None:
                _, index = self.rebuild_indexes(f"time index {fault}")
        return index

    def _time_fault(self, index: TimeIndex) -> str | None:
        fault = index.fault()
        if fault is None and not len(index):
            # Whoever stops writing to a segment leaves its largest timestamp in the index.
            for _, header in self.headers(end=HEADER_SIZE, whole=False):
                if header.max_timestamp >= 0 and header.record_count:
                    return "is empty"
        return fault

    @property
    def transaction_index(self) -> TransactionIndex:
        """The index of the transactions whose abort markers lie here."""
        index = self._transaction_index
        if index is None:
            index = self._transaction_index = TransactionIndex(self.path_of(".txnindex"))
        return index

    def empty_indexes(self) -> tuple[OffsetIndex, TimeIndex]:
        """Start both sparse indexes anew; OSError."""
        for index in (self._offset_index, self._time_index):
            if index is not None:
                index.close()
        offsets = self._offset_index = OffsetIndex(self.path_of(".index"), self.files)
        times = self._time_index = TimeIndex(self.path_of(".timeindex"), self.files)
        for index in (offsets, times):
            index.truncate(0)
        self.bytes_since_index = 0
        self._max_timestamp = NO_TIMESTAMP
        self._max_timestamp_offset = -1
        self.first_timestamp = NO_TIMESTAMP
        return offsets, times

    def rebuild_indexes(
        self, reason: str, index_interval: int = 4096
    ) -> tuple[OffsetIndex, TimeIndex]:
        """Make the indexes again from the batches' headers; CorruptBatch, OSError."""
        logger.warning("rebuilding indexes segment=%s reason=%s", self.path, reason)
        indexes = self.empty_indexes()
        for position, header in self.headers():
            self.note(position, header, index_interval)
        self._index_max_timestamp()
        for index in indexes:
            index.finish()
        return indexes

    def note(self, position: int, header: BatchHeader, index_interval: int) -> None:
        """Take a batch that is in the file already into the indexes; OSError."""
        if not position:
            self.first_timestamp = header.max_timestamp
        # A batch that compaction emptied has a timestamp, but no record that could be looked for.
        if header.max_timestamp > self._max_timestamp and header.record_count:
            self.note_timestamp(header.max_timestamp, header.last_offset)
        if self.bytes_since_index > index_interval:
            self.add_index_entries(header.last_offset, position)
        self.bytes_since_index += header.size

    def note_timestamp(self, timestamp: int, last_offset: int) -> None:
        """The largest timestamp so far is in the batch that ends with `last_offset`."""
        self._max_timestamp = timestamp
        self._max_timestamp_offset = last_offset

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp in it; -1 if it has none. OSError."""
        if self._max_timestamp == _UNKNOWN:
            self._load_max_timestamp()
        return self._max_timestamp

    @property
    def max_timestamp_offset(self) -> int:
        """The last offset of the batch that has the largest timestamp; OSError."""
        if self._max_timestamp == _UNKNOWN:
            self._load_max_timestamp()
        return self._max_timestamp_offset

    def _load_max_timestamp(self) -> None:
        """Take it from the last entry, which a roll or a clean stop writes."""
        index = self.time_index
        if self._max_timestamp != _UNKNOWN:  # the index had to be made again
            return
        last = index.last()
        if last is None:
            self._max_timestamp = NO_TIMESTAMP
        else:
            self._max_timestamp = last[0]
            self._max_timestamp_offset = self.base_offset + last[1]

    def load_first_timestamp(self) -> None:
        """Learn by what a roll is timed; CorruptBatch, OSError."""
        if self.first_timestamp == _UNKNOWN:
            first = next(self.headers(end=HEADER_SIZE, whole=False), None)
            self.first_timestamp = NO_TIMESTAMP if first is None else first[1].max_timestamp

    # Reading

    def headers(
        self, position: int = 0, end: int | None = None, *, whole: bool = True
    ) -> Iterator[tuple[int, BatchHeader]]:
        """Each batch's position and header; a batch cut off by `end` ends it if `whole`.

        Raises CorruptBatch at what is no batch, saying where, and OSError.
        """
        limit = self.size if end is None else end
        file = self.opened()  # held: the cache may let go of it between two batches
        block, start = b"", position
        while limit - position >= HEADER_SIZE:
            at = position - start
            if at + HEADER_SIZE > len(block):
                block = read_at(file.fd, min(_HEADERS_CHUNK, limit - position), position)
                start, at = position, 0
            try:
                header = read_header(block, at)
            except CorruptBatch as error:
                raise CorruptBatch(f"{self.path} at {position}: {error}") from None
            if header.magic != MAGIC:
                return legacy_messages.refuse(file.fd, position, limit)
            if whole and header.size > limit - position:
                return None
            yield position, header
            position += header.size
        return None

    def find(self, offset: int) -> tuple[int, BatchHeader] | None:
        """The batch that holds `offset`, or the first one behind it; None if all are before it.

        Raises CorruptBatch where the file is damaged, and OSError.
        """
        position = self._indexed_position(offset)
        for at, header in self.headers(position):
            if header.last_offset >= offset:
                return at, header
        return None

    def _indexed_position(self, offset: int) -> int:
        """A batch at or before the one with `offset`, by the index, which is checked."""
        index = self.offset_index
        number = index.search(offset - self.base_offset)
        if number < 0:
            return 0
        relative, position = index.entry(number)
        for _, header in self.headers(position, whole=False):
            if header.last_offset == self.base_offset + relative:
                return position
            break
        self.rebuild_indexes(f"offset index entry {number} points to no batch")
        number = self.offset_index.search(offset - self.base_offset)
        return self.offset_index.entry(number)[1] if number >= 0 else 0

    def end(self) -> tuple[int, int]:
        """The offset and the position behind its last whole batch; CorruptBatch, OSError.

        Found from the last index entry on.
        """
        offset = self.base_offset
        last = self.offset_index.last()
        position = last[1] if last else 0
        for at, header in self.headers(position):
            offset = header.next_offset
            position = at + header.size
        return offset, position

    def read_batch(self, position: int, header: BatchHeader) -> bytes:
        """The whole batch; OSError."""
        file = self.opened()
        return read_at(file.fd, header.size, position)

    # Recovering

    def keep_indexes(self, offset: int) -> int:
        """Cut the indexes to what is below `offset`; the position of the last batch they know."""
        offsets = self._offset_index = OffsetIndex(self.path_of(".index"), self.files)
        times = self._time_index = TimeIndex(self.path_of(".timeindex"), self.files)
        if offset > self.base_offset and not (offsets.fault(self.size) or self._time_fault(times)):
            number = offsets.search(offset - 1 - self.base_offset)
            if number >= 0:
                relative, position = offsets.entry(number)
                for _, header in self.headers(position, whole=False):
                    if header.last_offset == self.base_offset + relative:
                        self._cut_indexes(number + 1, relative)
                        return position
                    break
        self.empty_indexes()
        return 0

    def _cut_indexes(self, count: int, relative_offset: int) -> None:
        offsets, times = self.offset_index, self.time_index
        offsets.truncate(count)
        times.truncate(times.search(relative_offset, field=1) + 1)
        self.bytes_since_index = 0
        last = times.last()
        self._max_timestamp = NO_TIMESTAMP if last is None else last[0]
        self._max_timestamp_offset = -1 if last is None else self.base_offset + last[1]

    # Cutting

    def truncate(self, position: int, last_offset: int) -> None:
        """Cut the file at `position`; `last_offset` is the last one that stays. OSError."""
        file = self.opened()
        os.ftruncate(file.fd, position)
        offsets, times = self.offset_index, self.time_index
        offsets.truncate(offsets.search(last_offset - self.base_offset) + 1)
        times.truncate(times.search(last_offset - self.base_offset, field=1) + 1)
        self.transaction_index.truncate(last_offset + 1)
        self.size = position
        self.bytes_since_index = 0
        self._max_timestamp = NO_TIMESTAMP
        self._max_timestamp_offset = -1
        last = offsets.last()
        entry = times.last()
        if entry is not None:
            self._max_timestamp = entry[0]
            self._max_timestamp_offset = self.base_offset + entry[1]
        # Behind the last index entry there may be a later timestamp.
        for _, header in self.headers(last[1] if last else 0):
            if header.max_timestamp > self._max_timestamp:
                self._max_timestamp = header.max_timestamp
                self._max_timestamp_offset = header.last_offset
        if not position:
            self.first_timestamp = NO_TIMESTAMP

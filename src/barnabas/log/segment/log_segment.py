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
"""The form of a file name without its suffix, as `file_name` builds it."""

_SEGMENT: Final = re.compile(rf"{OFFSET_NAME.pattern}\.log")

SUFFIXES: Final = (".log", ".index", ".timeindex", ".txnindex")

_fdatasync = getattr(os, "fdatasync", os.fsync)  # macOS has no fdatasync


def _extend(fd: int, _: int, size: int) -> None:
    os.ftruncate(fd, size)


_fallocate = getattr(os, "posix_fallocate", _extend)  # macOS has no posix_fallocate

_UNKNOWN: Final = -2
_HEADERS_CHUNK: Final = 8192


def file_name(offset: int, suffix: str) -> str:
    """Return the name of a partition's file whose first offset is `offset`."""
    return f"{offset:020d}{suffix}"


def sizes_on_disk(directory: str) -> dict[int, int]:
    """Return the sizes in bytes of a log's segments by base offset, from the files.

    Raises OSError.
    """
    with os.scandir(directory) as entries:
        return {
            int(entry.name[:20]): entry.stat().st_size
            for entry in entries
            if _SEGMENT.fullmatch(entry.name) and entry.is_file()
        }


class Segment:
    """The batches from `base_offset` on. Positions and sizes in bytes, timestamps in ms.

    `size` is the part of the file that holds batches. Files are opened and read on first use.
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
        self.first_timestamp = unknown  # the first batch's largest one; rolls by age use it
        self._max_timestamp = unknown
        self._max_timestamp_offset = -1
        self._offset_index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        self._transaction_index: TransactionIndex | None = None

    def __repr__(self) -> str:
        return f"<Segment {self.path} of {self.size} bytes>"

    @property
    def path(self) -> str:
        """The path of the `.log` file."""
        return f"{self.directory}/{self.base_offset:020d}.log"

    def path_of(self, suffix: str) -> str:
        """Return the path of the segment's file with this suffix."""
        return f"{self.directory}/{self.base_offset:020d}{suffix}"

    def opened(self) -> OpenFile:
        """Return the open file; it stays open while the result is referenced. Raises OSError."""
        file = self.file or self.files.open(self)
        file.is_used = True
        return file

    # Writing

    def create(self, preallocate_bytes: int) -> None:
        """Create the files. Raises OSError.

        Disk space for `preallocate_bytes` is reserved; `finish` releases what is not used.
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
        """Write one batch at the end of the file, to the page cache. Raises OSError.

        An index entry is added after more than `index_interval` bytes since the last entry.
        """
        file = self.file or self.files.open(self)
        file.is_used = True
        position, size = self.size, len(records)
        if os.pwrite(file.fd, records, position) != size:
            write_at(file.fd, records, position)
        if not position:
            if self._time_index is None:  # read from the disk without batches, not created here
                self.empty_indexes()
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
        """Add entries for the batch at `position` and the largest timestamp. Raises OSError."""
        self.offset_index.append(last_offset - self.base_offset, position)
        self._index_max_timestamp()
        self.bytes_since_index = 0

    def _index_max_timestamp(self) -> None:
        if self.max_timestamp >= 0:
            relative = self._max_timestamp_offset - self.base_offset
            self.time_index.append(self._max_timestamp, relative)

    def is_full(self, index_bytes_max: int) -> bool:
        """True when an index has no room for another entry (`OffsetIndex.isFull`)."""
        offsets, times = self._offset_index, self._time_index
        return (offsets is not None and len(offsets) >= index_bytes_max // 8) or (
            times is not None and len(times) >= index_bytes_max // 12 - 1
        )

    def is_due_to_roll(
        self, config: LogConfig, size: int, max_timestamp: int, last_offset: int, now_ms: int
    ) -> bool:
        """True when a batch of `size` bytes that ends with `last_offset` needs a new segment.

        Reasons are size, age, a full index, and an offset out of the index's range
        (`LogSegment.shouldRoll`). Raises CorruptBatch, OSError.
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
        """Write the indexes completely, because appends stop for now. Raises OSError."""
        file = self.opened()
        if os.fstat(file.fd).st_size != self.size:  # preallocated, or part of a failed append
            os.ftruncate(file.fd, self.size)
        if self.max_timestamp >= 0:
            self._index_max_timestamp()
        self.offset_index.finish()
        self.time_index.finish()
        self.offset_index.close()
        self.time_index.close()

    def sync(self) -> None:
        """fsync all files. May run in a thread. Raises OSError."""
        for suffix in SUFFIXES:
            sync_path(self.path_of(suffix))

    def sync_batches(self) -> None:
        """Sync only the batches, because indexes can be rebuilt. May run in a thread.

        Raises OSError.
        """
        file = self.file  # this reference keeps it open if the cache closes it
        if file is None:
            sync_path(self.path)
        else:
            _fdatasync(file.fd)

    def moved(self, directory: str, files: FileCache) -> "Segment":
        """Return this segment for its files in another directory, without opening them."""
        other = Segment(directory, self.base_offset, files, self.size)
        other._max_timestamp = self._max_timestamp
        other._max_timestamp_offset = self._max_timestamp_offset
        other.first_timestamp = self.first_timestamp
        other.created_ms = self.created_ms
        other.roll_jitter_ms = self.roll_jitter_ms
        other.bytes_since_index = self.bytes_since_index
        return other

    def close(self) -> None:
        """Release the descriptors."""
        self.files.close(self)
        if self._offset_index is not None:
            self._offset_index.close()
        if self._time_index is not None:
            self._time_index.close()

    # Indexes

    @property
    def offset_index(self) -> OffsetIndex:
        """The offset index, rebuilt from the batches if its file is damaged. Raises OSError."""
        index = self._offset_index
        if index is None:
            index = self._offset_index = OffsetIndex(self.path_of(".index"), self.files)
            fault = index.fault(self.size) if self.size else None
            if fault is not None:
                index, _ = self.rebuild_indexes(f"offset index {fault}")
        return index

    @property
    def time_index(self) -> TimeIndex:
        """The time index, rebuilt from the batches if its file is damaged. Raises OSError."""
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
            # A segment with timestamps always has an entry once it is finished.
            for _, header in self.headers(end=HEADER_SIZE, whole=False):
                if header.max_timestamp >= 0 and header.record_count:
                    return "is empty"
        return fault

    @property
    def transaction_index(self) -> TransactionIndex:
        """The index of aborted transactions whose markers are in this segment."""
        index = self._transaction_index
        if index is None:
            index = self._transaction_index = TransactionIndex(self.path_of(".txnindex"))
        return index

    def empty_indexes(self) -> tuple[OffsetIndex, TimeIndex]:
        """Empty the offset index and the time index. Raises OSError."""
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
        """Rebuild the indexes from the batch headers. Raises CorruptBatch, OSError."""
        logger.warning("rebuilding indexes segment=%s reason=%s", self.path, reason)
        indexes = self.empty_indexes()
        for position, header in self.headers():
            self.note(position, header, index_interval)
        self._index_max_timestamp()
        for index in indexes:
            index.finish()
        return indexes

    def note(self, position: int, header: BatchHeader, index_interval: int) -> None:
        """Add a batch that is already in the file to the indexes. Raises OSError."""
        if not position:
            self.first_timestamp = header.max_timestamp
        # A batch emptied by compaction has a timestamp, but no record that a lookup could return.
        if header.max_timestamp > self._max_timestamp and header.record_count:
            self.note_timestamp(header.max_timestamp, header.last_offset)
        if self.bytes_since_index > index_interval:
            self.add_index_entries(header.last_offset, position)
        self.bytes_since_index += header.size

    def note_timestamp(self, timestamp: int, last_offset: int) -> None:
        """Record the largest timestamp so far, in the batch that ends with `last_offset`."""
        self._max_timestamp = timestamp
        self._max_timestamp_offset = last_offset

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp in the segment; -1 without any. Raises OSError."""
        if self._max_timestamp == _UNKNOWN:
            self._load_max_timestamp()
        return self._max_timestamp

    def _load_max_timestamp(self) -> None:
        """Set it from the last index entry, which a roll or a clean stop writes."""
        index = self.time_index
        if self._max_timestamp != _UNKNOWN:  # a rebuild of the index has set it
            return
        last = index.last()
        if last is None:
            self._max_timestamp = NO_TIMESTAMP
        else:
            self._max_timestamp = last[0]
            self._max_timestamp_offset = self.base_offset + last[1]

    def load_first_timestamp(self) -> None:
        """Read the first batch's timestamp for rolls by age. Raises CorruptBatch, OSError."""
        if self.first_timestamp == _UNKNOWN:
            first = next(self.headers(end=HEADER_SIZE, whole=False), None)
            self.first_timestamp = NO_TIMESTAMP if first is None else first[1].max_timestamp

    # Reading

    def headers(
        self, position: int = 0, end: int | None = None, *, whole: bool = True
    ) -> Iterator[tuple[int, BatchHeader]]:
        """Yield position and header of each batch; with `whole`, stop at one that `end` cuts off.

        Raises CorruptBatch, with the position, at anything that is not a batch, and OSError.
        """
        limit = self.size if end is None else end
        file = self.opened()  # keep a reference: the cache may close it between two batches
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
                return legacy_messages.refuse_legacy(file.fd, position, limit)
            if whole and header.size > limit - position:
                return None
            yield position, header
            position += header.size
        return None

    def find(self, offset: int) -> tuple[int, BatchHeader] | None:
        """Return position and header of the batch with `offset`, or of the first one above it.

        None if all batches are below it. Raises CorruptBatch at a damaged batch, and OSError.
        """
        position = self._indexed_position(offset)
        for at, header in self.headers(position):
            if header.last_offset >= offset:
                return at, header
        return None

    def _indexed_position(self, offset: int) -> int:
        """Return the position of a batch at or before `offset` from the index, and check it."""
        index = self.offset_index
        number = index.search(offset - self.base_offset)
        if number < 0:
            return 0
        relative, position = index.entry(number)
        for _, header in self.headers(position, whole=False):
            if header.last_offset == self.base_offset + relative:
                return position
            break
        self.rebuild_indexes(f"offset index entry {number} does not point to a batch")
        number = self.offset_index.search(offset - self.base_offset)
        return self.offset_index.entry(number)[1] if number >= 0 else 0

    def end(self) -> tuple[int, int]:
        """Return the offset and position after the last complete batch.

        The search starts at the last index entry. Raises CorruptBatch, OSError.
        """
        offset = self.base_offset
        last = self.offset_index.last()
        position = last[1] if last else 0
        for at, header in self.headers(position):
            offset = header.next_offset
            position = at + header.size
        return offset, position

    def read_batch(self, position: int, header: BatchHeader) -> bytes:
        """Return the complete batch. Raises OSError."""
        file = self.opened()
        return read_at(file.fd, header.size, position)

    # Recovering

    def keep_indexes(self, offset: int) -> int:
        """Cut the indexes to entries below `offset`; return the position of the last one kept."""
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
        """Cut the file at `position`; `last_offset` is the last offset kept. Raises OSError."""
        # Opening an index may read the batches, so the file is cut after that.
        offsets, times = self.offset_index, self.time_index
        file = self.opened()
        os.ftruncate(file.fd, position)
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
        # Batches after the last index entry may have a later timestamp.
        for _, header in self.headers(last[1] if last else 0):
            if header.max_timestamp > self._max_timestamp:
                self._max_timestamp = header.max_timestamp
                self._max_timestamp_offset = header.last_offset
        if not position:
            self.first_timestamp = NO_TIMESTAMP

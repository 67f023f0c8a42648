"""The indexes of a segment: by offset, by time, and of aborted transactions.

Entries are written to the file in groups. After a kill, recovery reads the segment anyway and
rebuilds the entries that were not written. Kafka maps its index files at full size, so after a kill
of Apache Kafka they end with zeros, which are not entries.
"""

import os
from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

from barnabas.log.file_cache import FileCache, OpenFile
from barnabas.log.file_operations import read_at, write_at

# The number of entries collected in memory before they are written.
_GROUP: Final = 256
# A search reads this number of entries, or fewer, at once.
_BLOCK: Final = 512


class Index:
    """An index file with entries of fixed size; both fields of the entries ascend."""

    __slots__ = ("_last", "_tail", "_written", "file", "files", "path")

    ENTRY: Struct

    def __init__(self, path: str, files: FileCache) -> None:
        self.path = path
        self.files = files
        self.file: OpenFile | None = None
        self._tail = bytearray()
        self._last: tuple[int, ...] | None = None
        self._written = -1  # the number of entries in the file; -1: not read yet

    def __len__(self) -> int:
        """The number of entries."""
        return self._on_disk() + len(self._tail) // self.ENTRY.size

    def _opened(self) -> OpenFile:
        file = self.file or self.files.open(self)
        file.is_used = True
        return file

    def _on_disk(self) -> int:
        count = self._written
        if count < 0:
            count = self._written = self._count_on_disk()
        return count

    def _count_on_disk(self) -> int:
        try:
            count = os.stat(self.path).st_size // self.ENTRY.size
        except FileNotFoundError:
            return 0
        # Binary search for the first zero entry: entries ascend, then only zeros follow. A single
        # zero entry is valid: a first record with timestamp 0.
        if count > 1 and not any(self._read(count - 1, 1)):
            low, high = 0, count
            while low < high:
                middle = (low + high) // 2
                if any(self._read(middle, 1)):
                    low = middle + 1
                else:
                    high = middle
            count = low
        return count

    def _read(self, first: int, count: int) -> bytes:
        size = self.ENTRY.size
        file = self._opened()  # keep a reference: another thread may make the cache close it
        return read_at(file.fd, count * size, first * size)

    def _append(self, *fields: int) -> None:
        self._tail += self.ENTRY.pack(*fields)
        self._last = fields
        if len(self._tail) >= _GROUP * self.ENTRY.size:
            self.write()

    def write(self) -> None:
        """Write the collected entries to the file. Raises OSError."""
        if self._tail:
            count = self._on_disk()
            size = self.ENTRY.size
            file = self._opened()
            write_at(file.fd, self._tail, count * size)
            self._written = count + len(self._tail) // size
            self._tail = bytearray()

    def entry(self, number: int) -> tuple[int, ...]:
        """Return the fields of an entry; `number` must be below the length."""
        count = self._on_disk()
        if number >= count:
            return self.ENTRY.unpack_from(self._tail, (number - count) * self.ENTRY.size)
        return self.ENTRY.unpack(self._read(number, 1))

    def last(self) -> tuple[int, ...] | None:
        """Return the fields of the last entry, None in an empty index."""
        if self._last is None:
            count = len(self)
            self._last = self.entry(count - 1) if count else None
        return self._last

    def search(self, value: int, field: int = 0) -> int:
        """Return the number of the last entry whose `field` is at most `value`; -1 without one."""
        count = self._on_disk()
        tail, size = self._tail, self.ENTRY.size
        if tail and self.ENTRY.unpack_from(tail, 0)[field] <= value:
            return count + self._search_in(tail, 0, len(tail) // size, value, field)
        low, high = 0, count
        while high - low > _BLOCK:
            middle = (low + high) // 2
            if self.entry(middle)[field] <= value:
                low = middle
            else:
                high = middle
        if low == high:
            return -1
        block = self._read(low, high - low)
        found = self._search_in(block, 0, len(block) // size, value, field)
        return -1 if found < 0 else low + found

    def _search_in(
        self, block: bytes | bytearray, low: int, high: int, value: int, field: int
    ) -> int:
        unpack, size = self.ENTRY.unpack_from, self.ENTRY.size
        while low < high:
            middle = (low + high) // 2
            if unpack(block, middle * size)[field] <= value:
                low = middle + 1
            else:
                high = middle
        return low - 1

    def truncate(self, count: int) -> None:
        """Keep only the first `count` entries. Raises OSError."""
        self._last = None
        on_disk = self._on_disk()
        if count >= on_disk:
            del self._tail[(count - on_disk) * self.ENTRY.size :]
            return
        self._tail.clear()
        file = self._opened()
        os.ftruncate(file.fd, count * self.ENTRY.size)
        self._written = count

    def finish(self) -> None:
        """Write the collected entries and cut zeros off; the file exists then. Raises OSError."""
        self._on_disk()
        file = self._opened()
        self.write()
        size = self._written * self.ENTRY.size
        if os.fstat(file.fd).st_size != size:
            os.ftruncate(file.fd, size)

    def close(self) -> None:
        """Release the descriptor."""
        self.files.close(self)


class OffsetIndex(Index):
    """Maps offsets (relative to the segment) to the position of the batch that ends with them."""

    __slots__ = ()

    ENTRY = Struct(">ii")

    def append(self, relative_offset: int, position: int) -> None:
        """Add the last offset of the batch at `position`; both must ascend."""
        self._append(relative_offset, position)

    def fault(self, segment_size: int) -> str | None:
        """Return the fault of a damaged file (`OffsetIndex.sanityCheck`), None if it is valid."""
        try:
            size = os.stat(self.path).st_size
        except FileNotFoundError:
            return "is missing"
        if size % self.ENTRY.size:
            return f"has {size} bytes, which is not a multiple of the entry size"
        last = self.last()
        if last is not None and not (last[0] >= 0 and 0 < last[1] < segment_size):
            return f"has a last entry {last} outside the segment of {segment_size} bytes"
        return None


class TimeIndex(Index):
    """Maps timestamps (ms) to the relative offset up to which no record is later."""

    __slots__ = ()

    ENTRY = Struct(">qi")

    def append(self, timestamp: int, relative_offset: int) -> None:
        """Add the largest timestamp so far and its batch's last offset; ignored unless later."""
        last = self.last()
        if last is None or timestamp > last[0]:
            self._append(timestamp, relative_offset)

    def peek_last(self) -> int | None:
        """Return the last timestamp, without caching the file; None if empty. Raises OSError."""
        try:
            with open(self.path, "rb", buffering=0) as file:
                size = os.fstat(file.fileno()).st_size
                if not size or size % self.ENTRY.size:
                    return None
                return self.ENTRY.unpack(
                    os.pread(file.fileno(), self.ENTRY.size, size - self.ENTRY.size)
                )[0]
        except FileNotFoundError:
            return None

    def fault(self) -> str | None:
        """Return the fault of a damaged file (`TimeIndex.sanityCheck`), None if it is valid."""
        try:
            size = os.stat(self.path).st_size
        except FileNotFoundError:
            return "is missing"
        if size % self.ENTRY.size:
            return f"has {size} bytes, which is not a multiple of the entry size"
        count = len(self)
        if count:
            first, last = self.entry(0), self.entry(count - 1)
            if last[1] < 0 or (count > 1 and (last[0] <= first[0] or last[1] <= first[1])):
                return f"has a last entry {last} that is not above the first entry {first}"
        return None


class AbortedTxn(NamedTuple):
    """An aborted transaction: producer id, offsets of its first record and of its marker, and the
    last stable offset after it."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


_ABORTED: Final = Struct(">hqqqq")
_ABORTED_VERSION: Final = 0
# The number of a segment's aborted transactions that are kept in memory, at about 150 bytes each.
_KEPT_MAX: Final = 500


def encode_aborted(aborted: AbortedTxn) -> bytes:
    """Return one entry of a transaction index."""
    return _ABORTED.pack(_ABORTED_VERSION, *aborted)


class TransactionIndex:
    """The aborted transactions whose markers are in a segment; without any, no file exists.

    Every read_committed fetch reads it, so a short index is cached.
    """

    __slots__ = ("_known", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self._known: Sequence[AbortedTxn] | None = None

    def append(self, aborted: AbortedTxn) -> None:
        """Add an aborted transaction. Raises OSError."""
        self._known = None
        fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        entry = encode_aborted(aborted)
        try:
            while entry:  # a nearly full disk may accept a part first, and then refuse the rest
                entry = entry[os.write(fd, entry) :]
        finally:
            os.close(fd)

    def read(self) -> Sequence[AbortedTxn]:
        """Return all entries in the order of their markers, without a torn one at the end.

        Raises OSError.
        """
        if self._known is not None:
            return self._known
        try:
            with open(self.path, "rb") as file:
                data = file.read()
        except FileNotFoundError:
            data = b""
        whole = memoryview(data)[: len(data) // _ABORTED.size * _ABORTED.size]
        found = [AbortedTxn(*fields[1:]) for fields in _ABORTED.iter_unpack(whole)]
        if len(found) <= _KEPT_MAX:
            self._known = found
        return found

    def truncate(self, offset: int) -> None:
        """Remove entries whose marker is at `offset` or above, and a torn end. Raises OSError."""
        kept = sum(entry.last_offset < offset for entry in self.read()) * _ABORTED.size
        self._known = None
        try:
            if os.stat(self.path).st_size > kept:
                os.truncate(self.path, kept)
        except FileNotFoundError:
            return

    def fault(self, base_offset: int) -> str | None:
        """Return the fault of a damaged file (`TransactionIndex.sanityCheck`), None if valid."""
        try:
            size = os.stat(self.path).st_size
        except FileNotFoundError:
            self._known = ()
            return None
        if size % _ABORTED.size:
            return f"has {size} bytes, which is not a multiple of the entry size"
        if any(entry.last_offset < base_offset for entry in self.read()):
            return f"has an entry below the segment's base offset {base_offset}"
        return None

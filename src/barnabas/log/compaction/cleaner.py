"""Clean a log (Kafka's `Cleaner`): find the last offset of each key, then copy the kept records.

Runs in a helper process. The number of keys of one pass bounds the memory: a pass over a log with
more keys ends early, and the next pass continues from there.
"""

import errno
import os
import traceback
from collections.abc import Iterator, Sequence
from typing import Any, Final

from barnabas.log.compaction.checked_batches import checked_batches
from barnabas.log.compaction.cleaned_transactions import CleanedTransactions
from barnabas.log.compaction.cleaning_job import CleanJob
from barnabas.log.compaction.offset_map import OffsetMap
from barnabas.log.file_cache import FileCache
from barnabas.log.file_operations import replace_file, write_at
from barnabas.log.helper_framing import Answer, Fields
from barnabas.log.segment.log_segment import RELATIVE_OFFSET_MAX, Segment, file_name
from barnabas.log.segment.segment_index import OffsetIndex, TimeIndex, encode_aborted
from barnabas.log.throttle import OrphanedError, Throttle
from barnabas.protocol.batches.batch_header import BatchHeader, CorruptBatch, read_header
from barnabas.protocol.batches.batch_rewriting import with_records, without_records
from barnabas.protocol.batches.compression import Buffer
from barnabas.protocol.batches.control_batches import decode_marker
from barnabas.protocol.batches.record_decoding import read_records, unpack_records
from barnabas.protocol.batches.record_walk import LocatedRecord, locate_records

CLEANED: Final = ".cleaned"


class MapTooSmallError(Exception):
    """The configured memory has no room for the keys of a single batch."""


def clean(job: CleanJob) -> Iterator[dict[str, Any]]:
    """Run one pass; yield a message for each group of segments that is ready to be swapped.

    The last message has the offset up to which the log is clean. Raises CorruptBatch,
    MapTooSmallError, OSError, OrphanedError.
    """
    files = FileCache(64, create=False)
    segments = [Segment(job.directory, base, files, size) for base, size in job.segments]
    throttle = Throttle(job.bytes_per_second)
    offsets = _build_map(job, segments, throttle)
    end_offset = offsets.end_offset
    below = [segment for segment in segments if segment.base_offset < end_offset]
    transactions = CleanedTransactions(job.aborted)
    read = written = 0
    for group in _groups(job, below):
        copy = _Copy(job, group, offsets, transactions, throttle)
        written += copy.run()
        read += sum(segment.size for segment in group)
        yield {
            "group": [segment.base_offset for segment in group],
            "sizes": [segment.size for segment in group],
            "size": copy.position,
        }
    yield {"end_offset": end_offset, "read": read, "written": written}


def run_clean_job(fields: Fields, _: Buffer) -> Iterator[Answer]:
    """Run a pass in the helper process; the last answer has `end_offset` or an `error`.

    Raises OrphanedError.
    """
    try:
        for message in clean(CleanJob.from_json(fields)):
            yield Answer(message, is_last="end_offset" in message)
    except OrphanedError:
        raise
    except (CorruptBatch, MapTooSmallError, OSError) as error:
        yield Answer({"error": str(error), "errno": getattr(error, "errno", None)})
    except MemoryError:
        yield Answer({"error": "out of memory", "errno": errno.ENOMEM})
    except Exception as error:  # fails this log only: the helper cleans other logs
        traceback.print_exc()
        yield Answer({"error": repr(error), "errno": None})


def _build_map(job: CleanJob, segments: Sequence[Segment], throttle: Throttle) -> OffsetMap:
    """Return the keys of the dirty part, as many as fit (`Cleaner.buildOffsetMap`)."""
    offsets = OffsetMap(job.slots, job.keys_max)
    offsets.end_offset = job.first_dirty
    dirty = [
        segment
        for number, segment in enumerate(segments)
        if number + 1 == len(segments) or segments[number + 1].base_offset > job.first_dirty
    ]
    transactions = CleanedTransactions(job.aborted)
    following = [*(base for base, _ in job.segments), job.first_uncleanable][-len(dirty) :]
    for segment, end_offset in zip(dirty, following, strict=True):
        for batch, header in checked_batches(segment, job.buffer_bytes):
            throttle(header.size)
            if header.is_control:
                transactions.is_unneeded_marker(header, _is_commit(batch, header))
            elif not transactions.is_aborted(header) and header.last_offset >= job.first_dirty:
                for record in locate_records(unpack_records(batch, 0, header), header):
                    if (
                        record.key is not None
                        and record.offset >= job.first_dirty
                        and not offsets.put(record.key, record.offset)
                    ):
                        return _check_progress(job, offsets)
            if header.last_offset >= job.first_dirty:
                offsets.end_offset = header.next_offset
        offsets.end_offset = end_offset  # compaction may have removed the segment's last records
    return offsets


def _check_progress(job: CleanJob, offsets: OffsetMap) -> OffsetMap:
    """Raise MapTooSmallError when the map has no whole batch: the pass would repeat forever."""
    if offsets.end_offset == job.first_dirty:
        raise MapTooSmallError(
            f"a batch has more than {job.keys_max} keys: increase log.cleaner.dedupe.buffer.size "
            "or decrease log.cleaner.threads"
        )
    return offsets


def _is_commit(batch: bytes, header: BatchHeader) -> bool | None:
    records = read_records(batch, 0, header)
    marker = decode_marker(records[0].key, records[0].value) if records else None
    return None if marker is None else marker.is_commit


def _groups(job: CleanJob, segments: Sequence[Segment]) -> Iterator[list[Segment]]:
    """Group adjacent segments that fit into one (`Cleaner.groupSegmentsBySize`)."""
    group: list[Segment] = []
    size = 0
    ends = [*(base for base, _ in job.segments), job.first_uncleanable][1:]
    # A pass that ends early covers fewer segments than the job has.
    for segment, end_offset in zip(segments, ends, strict=False):
        span = end_offset - 1 - group[0].base_offset if group else 0
        entries = (size + segment.size) // max(job.index_interval_bytes, 1)
        if group and (
            size + segment.size > job.segment_bytes_max
            or span > RELATIVE_OFFSET_MAX
            or entries * 12 > job.index_bytes_max
        ):
            yield group
            group, size = [], 0
        group.append(segment)
        size += segment.size
    if group:
        yield group


class _Copy:
    """Copies one group of segments into one `.cleaned` segment."""

    def __init__(
        self,
        job: CleanJob,
        group: Sequence[Segment],
        offsets: OffsetMap,
        transactions: CleanedTransactions,
        throttle: Throttle,
    ) -> None:
        self._job = job
        self._group = group
        self._offsets = offsets
        self._transactions = transactions
        self._throttle = throttle
        self._base = group[0].base_offset
        self._out: list[bytes] = []
        self._gathered = 0
        self._fd = -1
        self.position = 0
        self._since_index = 0
        self._latest = (-1, -1)
        self._offset_index = bytearray()
        self._time_index = bytearray()

    def _path(self, suffix: str) -> str:
        return f"{self._job.directory}/{file_name(self._base, suffix)}{CLEANED}"

    def run(self) -> int:
        """Copy and sync; return the number of bytes written."""
        self._fd = os.open(self._path(".log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        already = len(self._transactions.index)
        try:
            for segment in self._group:
                for batch, header in checked_batches(segment, self._job.buffer_bytes):
                    kept = self._kept_part(batch, header)
                    self._throttle(len(batch) + len(kept))
                    if kept:
                        self._write(kept)
            self._flush()
            os.fsync(self._fd)
        finally:
            os.close(self._fd)
        if self._latest[0] >= 0:
            self._add_time()
        replace_file(self._path(".index"), bytes(self._offset_index))
        replace_file(self._path(".timeindex"), bytes(self._time_index))
        aborted = self._transactions.index[already:]
        if aborted:
            replace_file(self._path(".txnindex"), b"".join(map(encode_aborted, aborted)))
        self._keep_modification_time()
        return self.position

    def _keep_modification_time(self) -> None:
        """Keep the file's time: retention uses it as the age of records without timestamps."""
        newest = os.stat(self._group[-1].path)
        os.utime(self._path(".log"), ns=(newest.st_atime_ns, newest.st_mtime_ns))

    def _kept_part(self, batch: bytes, header: BatchHeader) -> bytes:
        """Return the kept part of a batch, which may be empty (`Cleaner.cleanInto`, `filterTo`)."""
        job = self._job
        horizon = header.base_timestamp if header.has_delete_horizon else None
        is_over = horizon is not None and horizon <= job.now_ms
        if header.is_control:
            is_unneeded = self._transactions.is_unneeded_marker(header, _is_commit(batch, header))
            if is_unneeded and is_over:
                return without_records(header) if self._is_last_of_producer(header) else b""
            if not header.record_count:
                return batch if self._is_last_of_producer(header) else b""
            if is_unneeded and horizon is None:
                return self._with_horizon(batch, header)
            return batch
        if self._transactions.is_aborted(header):
            return without_records(header) if self._is_last_of_producer(header) else b""
        if not header.record_count:
            return batch if self._is_last_of_producer(header) else b""
        return self._without_removed_records(batch, header, horizon, is_over)

    def _without_removed_records(
        self, batch: bytes, header: BatchHeader, horizon: int | None, is_over: bool
    ) -> bytes:
        data = unpack_records(batch, 0, header)
        records = locate_records(data, header)
        kept = [record for record in records if self._is_kept(record, is_over)]
        if not kept:
            return without_records(header) if self._is_last_of_producer(header) else b""
        new_horizon: int | None = None
        if horizon is None and any(record.is_tombstone for record in kept):
            new_horizon = self._job.now_ms + self._job.delete_retention_ms
        if len(kept) == len(records) and new_horizon is None:
            return batch
        return with_records(batch, header, data, kept, new_horizon)

    def _is_kept(self, record: LocatedRecord, is_over: bool) -> bool:
        if record.offset >= self._offsets.end_offset:
            return True
        if record.key is None or not self._offsets.is_last(record.key, record.offset):
            return False
        return not (record.is_tombstone and is_over)

    def _with_horizon(self, batch: bytes, header: BatchHeader) -> bytes:
        data = unpack_records(batch, 0, header)
        horizon = self._job.now_ms + self._job.delete_retention_ms
        return with_records(batch, header, data, locate_records(data, header), horizon)

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        if header.producer_id < 0:
            return False
        last = self._job.producers.get(header.producer_id)
        if last is None:
            return False
        last_offset, epoch = last
        if last_offset >= 0:
            return last_offset == header.last_offset
        return header.is_control and header.producer_epoch == epoch

    def _write(self, batch: bytes) -> None:
        header = read_header(batch)
        last, latest = header.last_offset, header.max_timestamp
        if header.record_count and latest > self._latest[0]:
            self._latest = latest, last
        if self._since_index > self._job.index_interval_bytes:
            self._offset_index += OffsetIndex.ENTRY.pack(last - self._base, self.position)
            self._add_time()
            self._since_index = 0
        self._out.append(batch)
        self._gathered += len(batch)
        self.position += len(batch)
        self._since_index += len(batch)
        if self._gathered >= self._job.buffer_bytes:
            self._flush()

    def _add_time(self) -> None:
        timestamp, offset = self._latest
        entry = TimeIndex.ENTRY.pack(timestamp, offset - self._base)
        size = TimeIndex.ENTRY.size
        if timestamp >= 0 and bytes(self._time_index[-size : -size + 8]) != entry[:8]:
            self._time_index += entry

    def _flush(self) -> None:
        if self._out:
            write_at(self._fd, b"".join(self._out), self.position - self._gathered)
            self._out.clear()
            self._gathered = 0

"""Jobs on a batch's records: request types and execution."""

from collections.abc import Mapping
from typing import Final

import attrs

from barnabas.log.file_cache import FileSlice
from barnabas.log.log_config import LONG_MAX
from barnabas.log.record_work.record_refusal import RecordsRefusedError
from barnabas.protocol.batches.batch_building import pack_batch
from barnabas.protocol.batches.batch_header import (
    BatchHeader,
    CorruptBatch,
    InvalidRecords,
    read_header,
)
from barnabas.protocol.batches.batch_layout import CODEC_MASK, HEADER_SIZE
from barnabas.protocol.batches.compression import DEFAULT_MAX_BYTES, Buffer, Codec, compress
from barnabas.protocol.batches.record_decoding import unpack_records
from barnabas.protocol.batches.record_walk import RecordFault, record_times, validate_unpacked
from barnabas.protocol.errors import ErrorCode, KafkaError

UNPACKED_MAX: Final = DEFAULT_MAX_BYTES
"""The size in bytes that a batch may unpack to when its records are examined."""

LOOP_BYTES_MAX: Final = 16 * 1024
LOOP_RECORDS_MAX: Final = 128
"""Limits, packed and unpacked, of a batch that the loop examines itself: about 0.3 ms at most. A
batch sent to the helper process costs the loop 0.15 ms, so lower limits would save nothing."""

# From this level on, zstd and lz4 take at least ten times as long.
_SLOW_LEVEL: Final = 10

Found = tuple[int, int]
"""A record's timestamp (ms) and offset."""


@attrs.frozen(kw_only=True)
class CompleteBatch:
    """Check a produced batch and build it as the topic requires; equal jobs have equal outcomes.

    `timestamp_before_max_ms` is None when timestamps are not checked. `codec` is the one to
    compress with, None for the batch's own; `max_message_bytes` then limits the result.
    `unpacked_max` is the size in bytes that the batch may unpack to.
    """

    is_checked: bool
    is_compacted: bool = False
    timestamp_before_max_ms: int | None = None
    timestamp_after_max_ms: int = 0
    now_ms: int = attrs.field(default=0, eq=False)
    codec: Codec | None = attrs.field(default=None, converter=attrs.converters.optional(Codec))
    codec_level: int | None = None
    max_message_bytes: int = 0
    unpacked_max: int = UNPACKED_MAX

    @property
    def is_slow(self) -> bool:
        """True when even a small batch takes long."""
        return self.codec in (Codec.ZSTD, Codec.LZ4) and (self.codec_level or 0) >= _SLOW_LEVEL

    def run(self, batch: Buffer) -> bytearray | None:
        """Return the batch in the form to store; None when it is stored unchanged.

        Raises KafkaError with Kafka's code for a batch that is refused (`LogValidator`).
        """
        try:
            return self.attempt(batch, self.unpacked_max)
        except InvalidRecords as error:
            raise RecordsRefusedError(ErrorCode.INVALID_RECORD, str(error)) from None
        except CorruptBatch as error:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(error)) from None

    def attempt(self, batch: Buffer, unpacked_max: int) -> bytearray | None:
        """As `run`, but raises CorruptBatch when the records do not parse or unpack to too much."""
        header = read_header(batch)
        data = unpack_records(batch, 0, header, unpacked_max)
        sound = self._checked(data, header) if self.is_checked else header
        if self.codec is None:
            if sound is header:
                return None
            return pack_batch(sound, memoryview(batch)[HEADER_SIZE:])
        attributes = header.attributes & ~CODEC_MASK | self.codec
        body = compress(self.codec, data, self.codec_level)
        packed = pack_batch(sound._replace(attributes=attributes), body)
        if len(packed) > self.max_message_bytes:
            raise KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"The record batch size is {len(packed)} bytes in {self.codec.name.lower()}, which "
                f"exceeds the maximum configured value of {self.max_message_bytes}",
            )
        return packed

    def _checked(self, data: bytes, header: BatchHeader) -> BatchHeader:
        """Check the records, and return the header with their real largest timestamp."""
        lowest: int | None = None
        highest: int | None = None
        if self.timestamp_before_max_ms is not None:
            lowest = self.now_ms - self.timestamp_before_max_ms
            highest = self.now_ms + self.timestamp_after_max_ms
        faults, largest = validate_unpacked(
            data,
            header,
            compacted=self.is_compacted,
            timestamp_min=lowest,
            timestamp_max=highest,
        )
        if faults:
            raise _refusal(faults)
        if largest == header.max_timestamp or header.is_log_append_time:
            return header
        return header._replace(max_timestamp=largest)


def _refusal(faults: list[RecordFault]) -> RecordsRefusedError:
    """Return the error for these faults (`LogValidator.processRecordErrors`)."""
    code, reason = ErrorCode.INVALID_RECORD, f"{len(faults)} record errors"
    if any(fault.kind == "timestamp" for fault in faults):
        code, reason = ErrorCode.INVALID_TIMESTAMP, "invalid timestamp"
    return RecordsRefusedError(
        code,
        f"One or more records have been rejected due to {reason}",
        [(fault.index, fault.message) for fault in faults],
    )


@attrs.frozen(kw_only=True)
class FindTime:
    """Find the first record of a batch at or after `timestamp` (ms), from `start_offset` on.

    Without a timestamp, find the first record with the largest one. `base_offset` and `crc`
    identify the batch.
    """

    base_offset: int
    crc: int
    start_offset: int
    timestamp: int | None = None

    is_slow = False

    def run(self, batch: Buffer) -> Found | None:
        """Return timestamp and offset of the record, None without one. Raises KafkaError."""
        try:
            return self.attempt(batch, UNPACKED_MAX)
        except CorruptBatch as error:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(error)) from None

    def attempt(self, batch: Buffer, unpacked_max: int) -> Found | None:
        """As `run`, but raises CorruptBatch."""
        header = read_header(batch)
        data = unpack_records(batch, 0, header, unpacked_max)
        found: Found | None = None
        for timestamp, offset in record_times(data, header):
            if offset < self.start_offset:
                continue
            if self.timestamp is None:
                if found is None or timestamp > found[0]:
                    found = timestamp, offset
            elif timestamp >= self.timestamp:
                found = timestamp, offset
                break
        if found is not None and max(map(abs, found)) > LONG_MAX:
            raise CorruptBatch(
                f"the record at offset {found[1]} has the invalid timestamp {found[0]}"
            )
        return found


Job = CompleteBatch | FindTime
Outcome = bytearray | Found | None
Outcomes = Mapping[Job, Outcome]
"""The outcomes of jobs that the helper process ran for a caller."""


class RecordWorkNeeded(Exception):  # noqa: N818  (a request to the caller, not an error)
    """A job is too large for the loop; it has the job and its batch."""

    def __init__(self, job: Job, batch: Buffer | FileSlice) -> None:
        super().__init__(f"{job} on {len(batch)} bytes")
        self.job = job
        self.batch = batch


def fits_loop(job: Job, header: BatchHeader) -> bool:
    """True when a batch is small enough for an attempt in the loop."""
    return (
        header.size <= LOOP_BYTES_MAX
        and header.record_count <= LOOP_RECORDS_MAX
        and not job.is_slow
    )


def run_in_loop(job: Job, batch: Buffer, header: BatchHeader) -> Outcome:
    """Return the outcome for a small batch. Raises RecordWorkNeeded for a large one, KafkaError."""
    if fits_loop(job, header):
        try:
            return job.attempt(batch, LOOP_BYTES_MAX)
        except CorruptBatch:
            if not header.codec_id:
                return job.run(batch)
            # The batch may be valid, but unpack to more than the loop accepts.
    raise RecordWorkNeeded(job, batch)

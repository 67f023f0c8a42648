"""What can be asked of a batch's records, and the doing of it."""

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
"""Bytes that a batch may unpack to, where its records are looked at."""

LOOP_BYTES_MAX: Final = 16 * 1024
LOOP_RECORDS_MAX: Final = 128
"""What the loop looks at itself, packed and unpacked: about 0.3 ms at most. Sending a batch to the
helper process and taking the result costs the loop 0.15 ms, so less would not pay."""

# From this level on, zstd and lz4 take ten times as long, and more.
_SLOW_LEVEL: Final = 10

Found = tuple[int, int]
"""A record's timestamp (ms) and offset."""


@attrs.frozen(kw_only=True)
class CompleteBatch:
    """What a topic asks of a produced batch's records; equal ones are answered alike.

    `timestamp_before_max_ms` is None where timestamps are not looked at. `codec` is the one to
    pack into, None for that which the batch has; `max_message_bytes` then bounds the result.
    `unpacked_max` are the bytes that the batch may unpack to.
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
        """Whether even a small batch takes long."""
        return self.codec in (Codec.ZSTD, Codec.LZ4) and (self.codec_level or 0) >= _SLOW_LEVEL

    def do(self, batch: Buffer) -> bytearray | None:
        """The batch as it is to be stored, None for as it is.

        KafkaError with what Kafka answers to a batch that it refuses (`LogValidator`).
        """
        try:
            return self.attempt(batch, self.unpacked_max)
        except InvalidRecords as error:
            raise RecordsRefusedError(ErrorCode.INVALID_RECORD, str(error)) from None
        except CorruptBatch as error:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(error)) from None

    def attempt(self, batch: Buffer, unpacked_max: int) -> bytearray | None:
        """As `do`, but CorruptBatch where the records do not parse or are too many."""
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
        """The header, with the largest timestamp that the records really have."""
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
    """As `LogValidator.processRecordErrors`."""
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
    """Which record of a batch is the first at or after `timestamp` (ms), from an offset on.

    Without a timestamp, the first that has the largest. `base_offset` and `crc` name the batch.
    """

    base_offset: int
    crc: int
    start_offset: int
    timestamp: int | None = None

    is_slow = False

    def do(self, batch: Buffer) -> Found | None:
        """Its timestamp and offset, None if there is no such record; KafkaError."""
        try:
            return self.attempt(batch, UNPACKED_MAX)
        except CorruptBatch as error:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(error)) from None

    def attempt(self, batch: Buffer, unpacked_max: int) -> Found | None:
        """As `do`, but CorruptBatch."""
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
            raise CorruptBatch(f"a record at {found[1]} of the time {found[0]}")
        return found


Job = CompleteBatch | FindTime
Outcome = bytearray | Found | None
Outcomes = Mapping[Job, Outcome]
"""What the helper process has found out for whoever asks again."""


class RecordWorkNeeded(Exception):  # noqa: N818  (a wish, not a fault)
    """A job that is too large for the loop, and the batch that it is about."""

    def __init__(self, job: Job, batch: Buffer | FileSlice) -> None:
        super().__init__(f"{job} on {len(batch)} bytes")
        self.job = job
        self.batch = batch


def fits_loop(job: Job, header: BatchHeader) -> bool:
    """Whether a batch is so small that the loop may try."""
    return (
        header.size <= LOOP_BYTES_MAX
        and header.record_count <= LOOP_RECORDS_MAX
        and not job.is_slow
    )


def do_in_loop(job: Job, batch: Buffer, header: BatchHeader) -> Outcome:
    """The outcome for a small batch; RecordWorkNeeded for a larger one, KafkaError."""
    if fits_loop(job, header):
        try:
            return job.attempt(batch, LOOP_BYTES_MAX)
        except CorruptBatch:
            if not header.codec_id:
                return job.do(batch)
            # It may merely unpack to more than the loop unpacks.
    raise RecordWorkNeeded(job, batch)

"""The header of a record batch: reading it, checking the crc, and patching it in place.

The server's loop treats a batch as opaque bytes: an append and a fetch need only the first 61
bytes, and the base offset and leader epoch are outside the bytes that the crc covers.
"""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from barnabas.protocol.batches.batch_layout import (
    ATTRIBUTES_LOW_AT,
    CHECKED_AT,
    CODEC_MASK,
    CONTROL,
    CRC,
    CRC_AT,
    DELETE_HORIZON,
    HEADER,
    HEADER_SIZE,
    LEADER_EPOCH_AT,
    LEGACY_MAGICS,
    LENGTH,
    LENGTH_MIN,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC_AT,
    MAX_TIMESTAMP_AT,
    PRODUCER,
    PRODUCER_AT,
    TRANSACTIONAL,
)
from barnabas.protocol.batches.compression import Buffer, Codec
from barnabas.protocol.batches.crc import crc32c

_OFFSET: Final = struct.Struct(">q")
_ATTRIBUTES: Final = struct.Struct(">h")
_SEQUENCE_COUNT: Final = 1 << 31


class CorruptBatch(ValueError):  # noqa: N818  (describes the data, like CorruptRecordException)
    """The bytes are not a valid batch: truncated, or a wrong length or crc."""


class UnsupportedMagic(CorruptBatch):
    """A message of magic 0 or 1, the formats before record batches."""


class InvalidRecords(CorruptBatch):
    """A valid batch whose records contradict its header (`InvalidRecordException`)."""


class BatchHeader(NamedTuple):
    """The 61 bytes before a batch's records. Timestamps in ms, lengths in bytes."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """The size of the whole batch in bytes."""
        return self.batch_length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        """The offset of the last record; compaction may have removed that record."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset after the last record."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec_id(self) -> int:
        """The compression type as a number; it may be unknown."""
        return self.attributes & CODEC_MASK

    @property
    def codec(self) -> Codec:
        """The compression type.

        Raises `InvalidRecords` when Kafka has no such type.
        """
        try:
            return Codec(self.attributes & CODEC_MASK)
        except ValueError:
            raise InvalidRecords(f"unknown compression type id: {self.codec_id}") from None

    @property
    def is_log_append_time(self) -> bool:
        """True when `max_timestamp`, set by the leader, is the timestamp of every record."""
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        """True when the batch belongs to a transaction."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """True when the batch holds a control record, which consumers do not see."""
        return bool(self.attributes & CONTROL)

    @property
    def has_delete_horizon(self) -> bool:
        """True when `base_timestamp` says when tombstones and markers may be removed (KIP-534)."""
        return bool(self.attributes & DELETE_HORIZON)

    @property
    def has_producer_id(self) -> bool:
        """True when an idempotent or transactional producer wrote the batch."""
        return self.producer_id >= 0

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record, wrapped at 2**31; -1 without a producer id."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) % _SEQUENCE_COUNT


def read_header(buf: Buffer, pos: int = 0) -> BatchHeader:
    """Return the header at `pos`; `buf` need not hold the records after it.

    The caller checks `magic`.
    Raises `CorruptBatch` when the header is truncated or its length is impossible, and
    `UnsupportedMagic` for a message of magic 0 or 1 that is shorter than a batch header.
    """
    try:
        header = BatchHeader._make(HEADER.unpack_from(buf, pos))
    except struct.error:
        if len(buf) - pos > MAGIC_AT and buf[pos + MAGIC_AT] in LEGACY_MAGICS:
            raise UnsupportedMagic(f"message format {buf[pos + MAGIC_AT]}") from None
        raise CorruptBatch(f"a truncated batch header of {len(buf) - pos} bytes") from None
    if header[1] < LENGTH_MIN and header[3] not in LEGACY_MAGICS:
        raise CorruptBatch(f"an impossible batch length of {header[1]} bytes")
    return header


def iter_batches(buf: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """Yield each complete batch as (position, header); stop at a truncated last batch.

    Raises `CorruptBatch` at an impossible length.
    """
    pos, end = 0, len(buf)
    while end - pos >= HEADER_SIZE:
        header = read_header(buf, pos)
        size = header[1] + LOG_OVERHEAD
        if size > end - pos:
            return
        if size <= LOG_OVERHEAD:
            raise CorruptBatch(f"an impossible batch length of {header[1]} bytes")
        yield pos, header
        pos += size


def attributes_of(buf: Buffer) -> int:
    """Return the codec and flag bits of the batch at the start of `buf`."""
    return buf[ATTRIBUTES_LOW_AT]


def producer_of(buf: Buffer) -> tuple[int, int, int]:
    """Return producer id, epoch and base sequence of the batch at the start of `buf`."""
    return PRODUCER.unpack_from(buf, PRODUCER_AT)


def crc_matches(buf: Buffer, pos: int, header: BatchHeader) -> bool:
    """True when the batch at `pos` is complete and its bytes have the header's CRC-32C."""
    if pos == 0 and len(buf) == header[1] + LOG_OVERHEAD:
        return crc32c(memoryview(buf)[CHECKED_AT:]) == header[4]
    end = pos + header[1] + LOG_OVERHEAD
    return end <= len(buf) and crc32c(memoryview(buf)[pos + CHECKED_AT : end]) == header[4]


def assign_offset(
    buf: bytearray | memoryview, pos: int, base_offset: int, leader_epoch: int
) -> None:
    """Write base offset and leader epoch in place; the crc does not cover them."""
    _OFFSET.pack_into(buf, pos, base_offset)
    LENGTH.pack_into(buf, pos + LEADER_EPOCH_AT, leader_epoch)


def set_log_append_time(buf: bytearray | memoryview, pos: int, timestamp_ms: int) -> None:
    """Set the leader's time as the timestamp of every record, in place, and update the crc."""
    header = read_header(buf, pos)
    _ATTRIBUTES.pack_into(buf, pos + CHECKED_AT, header.attributes | LOG_APPEND_TIME)
    _OFFSET.pack_into(buf, pos + MAX_TIMESTAMP_AT, timestamp_ms)
    with memoryview(buf)[pos + CHECKED_AT : pos + header.size] as checked:
        CRC.pack_into(buf, pos + CRC_AT, crc32c(checked))

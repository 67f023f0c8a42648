"""Record batches of magic 2: read by their header, patched in place, decoded, built.

A batch is opaque to the server's loop: what appending and fetching need stands in its first
61 bytes, and the offset and leader epoch lie before the part that the crc covers. Records are
decoded only where a rule needs them (coordinators' replay, compaction, look-ups by time inside
a batch). Layout: KIP-98, `DefaultRecordBatch` and `DefaultRecord`.
"""

import struct
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, cast

import attrs

from barnabas.protocol.batches.compression import (
    DEFAULT_MAX_BYTES,
    Buffer,
    Codec,
    CompressionError,
    compress,
    decompress,
)
from barnabas.protocol.batches.crc import crc32c

HEADER_SIZE: Final = 61
LOG_OVERHEAD: Final = 12
"""Bytes of a batch that its own length does not count."""

MAGIC: Final = 2
NO_TIMESTAMP: Final = -1

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_LENGTH: Final = struct.Struct(">i")
_OFFSET: Final = struct.Struct(">q")
_CRC: Final = struct.Struct(">I")
_ATTRIBUTES: Final = struct.Struct(">h")
_CHECKED: Final = struct.Struct(">hiqqqhii")  # the header's part under the crc

_LEADER_EPOCH_AT: Final = 12
_MAGIC_AT: Final = 16
_CRC_AT: Final = 17
_CHECKED_AT: Final = 21
_MAX_TIMESTAMP_AT: Final = 35

_CODEC_MASK: Final = 0x07
_LOG_APPEND_TIME: Final = 0x08
_TRANSACTIONAL: Final = 0x10
_CONTROL: Final = 0x20
_DELETE_HORIZON: Final = 0x40

_RECORD_SIZE_MIN: Final = 7  # length, attributes, two deltas, two sizes, header count
_SEQUENCE_COUNT: Final = 1 << 31


class CorruptBatch(ValueError):  # noqa: N818  (said of the data, as Kafka says CorruptRecord)
    """Bytes that are no sound batch: cut short, wrong length or crc (`CorruptRecordException`)."""


class UnsupportedMagic(CorruptBatch):
    """A message set of the formats before batches (magic 0 or 1)."""


class InvalidRecords(CorruptBatch):
    """A sound batch whose records break its own statements (`InvalidRecordException`)."""


@attrs.frozen
class Record:
    """One decoded record: offset and timestamp (ms since the epoch) absolute."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


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
        """The whole batch in bytes."""
        return self.batch_length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        """The offset of its last record (compaction may have removed that record)."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset behind it."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec_id(self) -> int:
        """The compression type as a number, known or not."""
        return self.attributes & _CODEC_MASK

    @property
    def codec(self) -> Codec:
        """The compression type; `InvalidRecords` when Kafka has no such type."""
        try:
            return Codec(self.attributes & _CODEC_MASK)
        except ValueError:
            raise InvalidRecords(f"unknown compression type id: {self.codec_id}") from None

    @property
    def is_log_append_time(self) -> bool:
        """Whether every record's timestamp is `max_timestamp`, set by the leader."""
        return bool(self.attributes & _LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        """Whether it belongs to a transaction."""
        return bool(self.attributes & _TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Whether it holds a control record that consumers do not see."""
        return bool(self.attributes & _CONTROL)

    @property
    def has_delete_horizon(self) -> bool:
        """Whether `base_timestamp` tells when tombstones and markers may go (KIP-534)."""
        return bool(self.attributes & _DELETE_HORIZON)

    @property
    def has_producer_id(self) -> bool:
        """Whether an idempotent or transactional producer wrote it."""
        return self.producer_id >= 0

    @property
    def last_sequence(self) -> int:
        """The sequence of its last record, wrapped at 2**31; -1 without a producer id."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) % _SEQUENCE_COUNT


def read_header(buf: Buffer, pos: int = 0) -> BatchHeader:
    """The header at `pos`; the records behind it need not be in `buf`.

    Raises `CorruptBatch` when the header is cut short or its length is impossible, and
    `UnsupportedMagic` for an old message too short to have the header's fields. The caller
    checks `magic` of a longer one.
    """
    try:
        header = BatchHeader._make(_HEADER.unpack_from(buf, pos))
    except struct.error:
        if len(buf) - pos > _MAGIC_AT and buf[pos + _MAGIC_AT] in (0, 1):
            raise UnsupportedMagic(f"message format {buf[pos + _MAGIC_AT]}") from None
        raise CorruptBatch(f"a batch header of {len(buf) - pos} bytes") from None
    if header[1] < HEADER_SIZE - LOG_OVERHEAD and header[3] not in (0, 1):
        raise CorruptBatch(f"a batch length of {header[1]} bytes")
    return header


def iter_batches(buf: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """Each whole batch with its position; a torn tail ends it, an impossible length raises."""
    pos, end = 0, len(buf)
    while end - pos >= HEADER_SIZE:
        header = read_header(buf, pos)
        size = header[1] + LOG_OVERHEAD
        if size > end - pos:
            return
        if size <= LOG_OVERHEAD:
            raise CorruptBatch(f"a batch length of {header[1]} bytes")
        yield pos, header
        pos += size


def crc_matches(buf: Buffer, pos: int, header: BatchHeader) -> bool:
    """Whether the bytes from the attributes on have the header's CRC-32C."""
    if pos == 0 and len(buf) == header[1] + LOG_OVERHEAD:
        return crc32c(memoryview(buf)[_CHECKED_AT:]) == header[4]
    end = pos + header[1] + LOG_OVERHEAD
    return end <= len(buf) and crc32c(memoryview(buf)[pos + _CHECKED_AT : end]) == header[4]


def assign_offset(
    buf: bytearray | memoryview, pos: int, base_offset: int, leader_epoch: int
) -> None:
    """Write what the leader decides, in place; the crc does not cover it."""
    _OFFSET.pack_into(buf, pos, base_offset)
    _LENGTH.pack_into(buf, pos + _LEADER_EPOCH_AT, leader_epoch)


def set_log_append_time(buf: bytearray | memoryview, pos: int, timestamp_ms: int) -> None:
    """Make the leader's clock the time of every record, in place, and compute the crc again."""
    header = read_header(buf, pos)
    _ATTRIBUTES.pack_into(buf, pos + _CHECKED_AT, header.attributes | _LOG_APPEND_TIME)
    _OFFSET.pack_into(buf, pos + _MAX_TIMESTAMP_AT, timestamp_ms)
    with memoryview(buf)[pos + _CHECKED_AT : pos + header.size] as checked:
        _CRC.pack_into(buf, pos + _CRC_AT, crc32c(checked))


def unpack_records(
    buf: Buffer, pos: int, header: BatchHeader, max_bytes: int = DEFAULT_MAX_BYTES
) -> bytes:
    """The bytes of the records of the batch at `pos`, in which as many as it says have room.

    Raises `CorruptBatch`, and past `max_bytes` of them `InvalidRecords`.
    """
    end = pos + header.size
    if end > len(buf):
        raise CorruptBatch(f"a batch of {header.size} bytes, {len(buf) - pos} are there")
    data: Buffer = memoryview(buf)[pos + HEADER_SIZE : end]
    if header.attributes & _CODEC_MASK:
        try:
            data = decompress(header.codec, data, max_bytes)
        except CompressionError as error:
            raise InvalidRecords(str(error)) from None
    elif len(data) > max_bytes:
        raise InvalidRecords(f"{len(data)} bytes of records, {max_bytes} are allowed")
    count = header.record_count
    if not 0 <= count <= len(data) // _RECORD_SIZE_MIN:
        raise InvalidRecords(f"{count} records in {len(data)} bytes")
    return bytes(data)  # indexing bytes is a third faster than indexing a view


def read_records(
    buf: Buffer, pos: int, header: BatchHeader, max_bytes: int = DEFAULT_MAX_BYTES
) -> list[Record]:
    """Decode every record of the batch at `pos`, unpacked to at most `max_bytes` bytes.

    Raises `CorruptBatch` (`InvalidRecords` where the records contradict the header). Does not
    check the crc.
    """
    data = unpack_records(buf, pos, header, max_bytes)
    base_offset = header.base_offset
    base_timestamp = header.base_timestamp
    append_time = header.max_timestamp if header.is_log_append_time else None
    records: list[Record] = []
    at = 0
    try:
        for _ in range(header.record_count):
            size, at = read_varint(data, at)
            end = at + size
            if size < 0 or end > len(data):
                raise InvalidRecords(f"a record of {size} bytes, {len(data) - at} are left")
            delta, at = read_varint(data, at + 1)
            offset_delta, at = read_varint(data, at)
            key, at = _nullable_bytes(data, at, end)
            value, at = _nullable_bytes(data, at, end)
            headers, at = _headers(data, at, end)
            if at != end:
                raise InvalidRecords(f"a record of {size} bytes holds {at - end + size}")
            timestamp = base_timestamp + delta if append_time is None else append_time
            records.append(Record(base_offset + offset_delta, timestamp, key, value, headers))
    except IndexError:
        raise InvalidRecords("a batch ends inside a record") from None
    if at != len(data):
        raise InvalidRecords(f"{len(data) - at} bytes behind the last record")
    return records


def build_batch(
    records: Iterable[Record],
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    is_transactional: bool = False,
    is_control: bool = False,
    log_append_time: bool = False,
) -> bytearray:
    """A batch of `records`, whose offsets count from `base_offset`; at least one is needed."""
    body = bytearray()
    base_timestamp = max_timestamp = NO_TIMESTAMP
    count = last_offset_delta = 0
    for record in records:
        if count == 0:
            base_timestamp = record.timestamp
        max_timestamp = max(max_timestamp, record.timestamp)
        last_offset_delta = record.offset - base_offset
        _append_record(body, record, last_offset_delta, base_timestamp)
        count += 1
    if count == 0:
        raise ValueError("a batch holds at least one record")
    attributes = (
        codec
        | (_LOG_APPEND_TIME if log_append_time else 0)
        | (_TRANSACTIONAL if is_transactional else 0)
        | (_CONTROL if is_control else 0)
    )
    batch = bytearray(HEADER_SIZE)
    _CHECKED.pack_into(
        batch,
        _CHECKED_AT,
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    )
    batch += compress(codec, body, level) if codec else body
    length = len(batch) - LOG_OVERHEAD
    with memoryview(batch)[_CHECKED_AT:] as checked:
        crc = crc32c(checked)
    struct.pack_into(">qiibI", batch, 0, base_offset, length, leader_epoch, MAGIC, crc)
    return batch


def pack_batch(header: BatchHeader, body: Buffer) -> bytearray:
    """A batch of these (perhaps compressed) records; its length and crc are computed."""
    length = HEADER_SIZE - LOG_OVERHEAD + len(body)
    batch = bytearray(HEADER_SIZE)
    _HEADER.pack_into(batch, 0, *header._replace(batch_length=length, magic=MAGIC))
    batch += body
    with memoryview(batch)[_CHECKED_AT:] as checked:
        _CRC.pack_into(batch, _CRC_AT, crc32c(checked))
    return batch


def read_varint(data: Buffer, at: int) -> tuple[int, int]:
    """A zigzag varint of at most ten bytes, and the position behind it."""
    byte = data[at]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at + 1
    value = byte & 0x7F
    shift = 7
    while True:
        at += 1
        byte = data[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at + 1
        shift += 7
        if shift > 63:
            raise InvalidRecords("a varint of more than ten bytes")


def _nullable_bytes(data: Buffer, at: int, end: int) -> tuple[bytes | None, int]:
    size, at = read_varint(data, at)
    if size < 0:
        return None, at
    if size > end - at:
        raise InvalidRecords(f"a field of {size} bytes, {end - at} are left")
    return cast(bytes, data[at : at + size]), at + size


def _headers(data: Buffer, at: int, end: int) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    count, at = read_varint(data, at)
    if count == 0:
        return (), at
    if not 0 < count <= end - at:
        raise InvalidRecords(f"{count} headers in {end - at} bytes")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        key, at = _nullable_bytes(data, at, end)
        if key is None:
            raise InvalidRecords("a header without a key")
        value, at = _nullable_bytes(data, at, end)
        # A key that is not UTF-8 is kept readable, as Java's decoder does.
        headers.append((key.decode("utf-8", "replace"), value))
    return tuple(headers), at


def _append_record(body: bytearray, record: Record, offset_delta: int, base_timestamp: int) -> None:
    fields = bytearray(1)  # the attributes, unused
    _append_varint(fields, record.timestamp - base_timestamp)
    _append_varint(fields, offset_delta)
    _append_nullable_bytes(fields, record.key)
    _append_nullable_bytes(fields, record.value)
    _append_varint(fields, len(record.headers))
    for name, value in record.headers:
        _append_nullable_bytes(fields, name.encode())
        _append_nullable_bytes(fields, value)
    _append_varint(body, len(fields))
    body += fields


def _append_nullable_bytes(target: bytearray, value: bytes | None) -> None:
    if value is None:
        target.append(1)  # -1
    else:
        _append_varint(target, len(value))
        target += value


def _append_varint(target: bytearray, value: int) -> None:
    value = (value << 1) ^ (value >> 63)
    while value > 0x7F:
        target.append(value & 0x7F | 0x80)
        value >>= 7
    target.append(value)

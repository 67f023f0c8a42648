"""Decoding the records of a batch: decompression, varints, and `Record` objects.

Only some rules need records: the replay of coordinators and the quorum, compaction, and look-ups
by time inside a batch. Format: KIP-98 and `org.apache.kafka.common.record.DefaultRecord`.
"""

from typing import cast

import attrs

from barnabas.protocol.batches.batch_header import BatchHeader, CorruptBatch, InvalidRecords
from barnabas.protocol.batches.batch_layout import CODEC_MASK, HEADER_SIZE, RECORD_SIZE_MIN
from barnabas.protocol.batches.compression import (
    DEFAULT_MAX_BYTES,
    Buffer,
    CompressionError,
    decompress,
)


@attrs.frozen
class Record:
    """One decoded record with its absolute offset and timestamp (ms since the epoch)."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def unpack_records(
    buf: Buffer, pos: int, header: BatchHeader, max_bytes: int = DEFAULT_MAX_BYTES
) -> bytes:
    """Return the uncompressed records of the batch at `pos`, at most `max_bytes` bytes.

    The result is large enough for the record count of the header.
    Raises `CorruptBatch` for a truncated batch, and `InvalidRecords` when the records are damaged,
    too many for their bytes, or more than `max_bytes`.
    """
    end = pos + header.size
    if end > len(buf):
        raise CorruptBatch(f"a batch of {header.size} bytes has only {len(buf) - pos} bytes left")
    data: Buffer = memoryview(buf)[pos + HEADER_SIZE : end]
    if header.attributes & CODEC_MASK:
        try:
            data = decompress(header.codec, data, max_bytes)
        except CompressionError as error:
            raise InvalidRecords(str(error)) from None
    elif len(data) > max_bytes:
        raise InvalidRecords(f"{len(data)} bytes of records exceed the limit of {max_bytes}")
    count = header.record_count
    if not 0 <= count <= len(data) // RECORD_SIZE_MIN:
        raise InvalidRecords(f"{count} records in {len(data)} bytes")
    return bytes(data)  # indexing bytes is a third faster than indexing a view


def read_records(
    buf: Buffer, pos: int, header: BatchHeader, max_bytes: int = DEFAULT_MAX_BYTES
) -> list[Record]:
    """Decode every record of the batch at `pos`, uncompressed to at most `max_bytes` bytes.

    The crc is not checked.
    Raises `CorruptBatch`; `InvalidRecords` where the records contradict the header.
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
                raise InvalidRecords(f"a record of {size} bytes has only {len(data) - at}")
            delta, at = read_varint(data, at + 1)
            offset_delta, at = read_varint(data, at)
            key, at = _nullable_bytes(data, at, end)
            value, at = _nullable_bytes(data, at, end)
            headers, at = _headers(data, at, end)
            if at != end:
                raise InvalidRecords(f"a record of {size} bytes has fields of {at - end + size}")
            timestamp = base_timestamp + delta if append_time is None else append_time
            records.append(Record(base_offset + offset_delta, timestamp, key, value, headers))
    except IndexError:
        raise InvalidRecords("a batch ends inside a record") from None
    if at != len(data):
        raise InvalidRecords(f"{len(data) - at} bytes after the last record")
    return records


def read_varint(data: Buffer, at: int) -> tuple[int, int]:
    """Return a zigzag varint of at most ten bytes, and the position after it.

    Raises IndexError at the end of `data`, and `InvalidRecords` for a longer varint.
    """
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
        raise InvalidRecords(f"a field of {size} bytes has only {end - at} left")
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
        # Java's decoder replaces bytes that are not UTF-8, too.
        headers.append((key.decode("utf-8", "replace"), value))
    return tuple(headers), at

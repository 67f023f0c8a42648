"""Building record batches from records or from encoded records."""

from collections.abc import Iterable
from typing import Final

from barnabas.protocol.batches.batch_header import BatchHeader
from barnabas.protocol.batches.batch_layout import (
    CHECKED_AT,
    CONTROL,
    CRC,
    CRC_AT,
    HEADER,
    HEADER_CHECKED,
    HEADER_SIZE,
    HEADER_START,
    LENGTH_MIN,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    NO_TIMESTAMP,
    TRANSACTIONAL,
)
from barnabas.protocol.batches.compression import Buffer, Codec, compress
from barnabas.protocol.batches.crc import crc32c
from barnabas.protocol.batches.record_decoding import Record

_NULL: Final = 1
"""The zigzag varint of -1, the size of a null field."""


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
    """Return a batch of `records`, with offset deltas from `base_offset`.

    Raises ValueError without any record.
    """
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
        raise ValueError("a batch needs at least one record")
    attributes = (
        codec
        | (LOG_APPEND_TIME if log_append_time else 0)
        | (TRANSACTIONAL if is_transactional else 0)
        | (CONTROL if is_control else 0)
    )
    batch = bytearray(HEADER_SIZE)
    HEADER_CHECKED.pack_into(
        batch,
        CHECKED_AT,
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
    with memoryview(batch)[CHECKED_AT:] as checked:
        crc = crc32c(checked)
    HEADER_START.pack_into(batch, 0, base_offset, length, leader_epoch, MAGIC, crc)
    return batch


def pack_batch(header: BatchHeader, body: Buffer) -> bytearray:
    """Return a batch of encoded, perhaps compressed, records; compute its length and crc."""
    batch = bytearray(HEADER_SIZE)
    HEADER.pack_into(batch, 0, *header._replace(batch_length=LENGTH_MIN + len(body), magic=MAGIC))
    batch += body
    with memoryview(batch)[CHECKED_AT:] as checked:
        CRC.pack_into(batch, CRC_AT, crc32c(checked))
    return batch


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
        target.append(_NULL)
    else:
        _append_varint(target, len(value))
        target += value


def _append_varint(target: bytearray, value: int) -> None:
    value = (value << 1) ^ (value >> 63)
    while value > 0x7F:
        target.append(value & 0x7F | 0x80)
        value >>= 7
    target.append(value)

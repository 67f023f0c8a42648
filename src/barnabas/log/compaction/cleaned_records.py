"""The records of a batch, taken apart just as far as compaction must, and put together again."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from barnabas.log.file_operations import read_at
from barnabas.log.segment.log_segment import Segment
from barnabas.protocol.batches.batch import (
    HEADER_SIZE,
    MAGIC,
    BatchHeader,
    CorruptBatch,
    Record,
    build_batch,
    crc_matches,
    pack_batch,
    read_header,
    read_records,
    read_varint,
)
from barnabas.protocol.batches.compression import (
    DEFAULT_MAX_BYTES,
    CompressionError,
    compress,
    decompress,
)

_DELETE_HORIZON: Final = 0x40
_LOG_APPEND_TIME: Final = 0x08


class RawRecord(NamedTuple):
    """Where a record lies in the unpacked batch, and what decides on it; the timestamp in ms."""

    start: int
    end: int
    offset: int
    timestamp: int
    key: bytes | None
    is_tombstone: bool


def checked_batches(segment: Segment, chunk_bytes: int) -> Iterator[tuple[bytes, BatchHeader]]:
    """Every batch of a segment that is complete, read `chunk_bytes` at a time, or a batch.

    Raises CorruptBatch when it holds anything else: what compaction copies gets a new crc, and
    what it does not understand would be lost. OSError.
    """
    file = segment.opened()
    block, at, position = b"", 0, 0
    while position < segment.size:
        if len(block) - at < HEADER_SIZE:
            block = read_at(file.fd, min(chunk_bytes, segment.size - position), position)
            at = 0
        if len(block) - at < HEADER_SIZE:
            raise CorruptBatch(f"{segment.path} ends inside a batch at {position}")
        header = read_header(block, at)
        size = header.size
        if header.magic != MAGIC or size > segment.size - position:
            raise CorruptBatch(f"{segment.path} has no batch at {position}")
        if len(block) - at < size:
            wanted = min(max(chunk_bytes, size), segment.size - position)
            block, at = read_at(file.fd, wanted, position), 0
        if not crc_matches(block, at, header):
            raise CorruptBatch(f"{segment.path} has a batch with a wrong crc at {position}")
        yield block[at : at + size], header
        at += size
        position += size


def unpacked(batch: bytes, header: BatchHeader) -> bytes:
    """The batch's records without compression; CorruptBatch."""
    data = memoryview(batch)[HEADER_SIZE : header.size]
    try:
        return bytes(decompress(header.codec, data, DEFAULT_MAX_BYTES))
    except CompressionError as error:
        raise CorruptBatch(str(error)) from None


def scan(data: bytes, header: BatchHeader) -> list[RawRecord]:
    """Find the records in `unpacked` bytes; CorruptBatch."""
    found: list[RawRecord] = []
    at = 0
    try:
        for _ in range(header.record_count):
            start = at
            size, at = read_varint(data, at)
            end = at + size
            if size < 0 or end > len(data):
                raise CorruptBatch(f"a record of {size} bytes, {len(data) - at} are left")
            timestamp, at = read_varint(data, at + 1)
            offset, at = read_varint(data, at)
            key_size, at = read_varint(data, at)
            key = None
            if key_size >= 0:
                key = data[at : at + key_size]
                at += key_size
            value_size, at = read_varint(data, at)
            if at > end:
                raise CorruptBatch("a record's fields are longer than it")
            found.append(
                RawRecord(
                    start,
                    end,
                    header.base_offset + offset,
                    header.base_timestamp + timestamp,
                    key,
                    value_size < 0,
                )
            )
            at = end
    except IndexError:
        raise CorruptBatch("a batch ends inside a record") from None
    return found


def keep(
    batch: bytes,
    header: BatchHeader,
    data: bytes,
    records: Sequence[RawRecord],
    delete_horizon_ms: int | None,
) -> bytes:
    """The batch with these of its records alone; offsets, epoch and producer stay.

    With a new delete horizon (ms), that is written to the header as its base timestamp (KIP-534).
    """
    if delete_horizon_ms is not None:
        return _with_horizon(
            batch, header, {record.offset for record in records}, delete_horizon_ms
        )
    body = b"".join([data[record.start : record.end] for record in records])
    is_append_time = header.attributes & _LOG_APPEND_TIME
    latest = max(record.timestamp for record in records)
    return _packed(
        header._replace(
            max_timestamp=header.max_timestamp if is_append_time else latest,
            record_count=len(records),
        ),
        compress(header.codec, body) if header.codec else body,
    )


def _with_horizon(
    batch: bytes, header: BatchHeader, offsets: set[int], delete_horizon_ms: int
) -> bytes:
    """Timestamps count from the base timestamp, so all of them are written anew."""
    kept = [each for each in read_records(batch, 0, header) if each.offset in offsets]
    # The first record sets the base from which the others count: one of the horizon's time.
    lead = Record(header.base_offset, delete_horizon_ms, None, None)
    with_lead = build_batch([lead, *kept], base_offset=header.base_offset)
    body = bytes(with_lead[HEADER_SIZE + _lead_size(with_lead) :])
    latest = max(each.timestamp for each in kept)
    is_append_time = header.attributes & _LOG_APPEND_TIME
    return _packed(
        header._replace(
            attributes=header.attributes | _DELETE_HORIZON,
            base_timestamp=delete_horizon_ms,
            max_timestamp=header.max_timestamp if is_append_time else latest,
            record_count=len(kept),
        ),
        compress(header.codec, body) if header.codec else body,
    )


def _lead_size(batch: bytearray) -> int:
    size, at = read_varint(bytes(batch[HEADER_SIZE : HEADER_SIZE + 10]), 0)
    return at + size


def emptied(header: BatchHeader) -> bytes:
    """The batch without records: it keeps its producer's last sequence (`writeEmptyHeader`)."""
    return _packed(
        header._replace(
            attributes=header.attributes & 0x38,  # timestamp type, transactional, control
            base_timestamp=-1,
            record_count=0,
        ),
        b"",
    )


def _packed(header: BatchHeader, body: bytes) -> bytes:
    return bytes(pack_batch(header, body))

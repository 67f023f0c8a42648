"""Batches that compaction rewrites with some of their records, or without any (KIP-534)."""

from collections.abc import Sequence
from typing import Final

from barnabas.protocol.batches.batch_building import build_batch, pack_batch
from barnabas.protocol.batches.batch_header import BatchHeader
from barnabas.protocol.batches.batch_layout import (
    CONTROL,
    DELETE_HORIZON,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    NO_TIMESTAMP,
    TRANSACTIONAL,
)
from barnabas.protocol.batches.compression import compress
from barnabas.protocol.batches.record_decoding import Record, read_records, read_varint
from barnabas.protocol.batches.record_walk import LocatedRecord

_VARINT_BYTES_MAX: Final = 10


def with_records(
    batch: bytes,
    header: BatchHeader,
    data: bytes,
    records: Sequence[LocatedRecord],
    delete_horizon_ms: int | None,
) -> bytes:
    """Return the batch with only `records` of its unpacked `data`.

    Offsets, leader epoch and producer fields stay. A new delete horizon (ms) becomes the base
    timestamp of the batch.
    """
    if delete_horizon_ms is not None:
        kept = {record.offset for record in records}
        return _with_delete_horizon(batch, header, kept, delete_horizon_ms)
    body = b"".join([data[record.start : record.end] for record in records])
    latest = max(record.timestamp for record in records)
    return _packed(
        header._replace(
            max_timestamp=header.max_timestamp if header.is_log_append_time else latest,
            record_count=len(records),
        ),
        body,
    )


def without_records(header: BatchHeader) -> bytes:
    """Return the batch without records; it keeps its producer's last sequence.

    Source: `DefaultRecordBatch.writeEmptyHeader`.
    """
    kept = header.attributes & (LOG_APPEND_TIME | TRANSACTIONAL | CONTROL)
    emptied = header._replace(attributes=kept, base_timestamp=NO_TIMESTAMP, record_count=0)
    return bytes(pack_batch(emptied, b""))


def _with_delete_horizon(
    batch: bytes, header: BatchHeader, offsets: set[int], delete_horizon_ms: int
) -> bytes:
    """Encode the records again: their timestamps are relative to the base timestamp."""
    kept = [each for each in read_records(batch, 0, header) if each.offset in offsets]
    # The first record of a batch sets its base timestamp, so a record with the horizon's time
    # leads the batch that is built, and is then left out.
    lead = Record(header.base_offset, delete_horizon_ms, None, None)
    with_lead = build_batch([lead, *kept], base_offset=header.base_offset)
    lead_size, lead_at = read_varint(
        bytes(with_lead[HEADER_SIZE : HEADER_SIZE + _VARINT_BYTES_MAX]), 0
    )
    body = bytes(with_lead[HEADER_SIZE + lead_at + lead_size :])
    latest = max(each.timestamp for each in kept)
    return _packed(
        header._replace(
            attributes=header.attributes | DELETE_HORIZON,
            base_timestamp=delete_horizon_ms,
            max_timestamp=header.max_timestamp if header.is_log_append_time else latest,
            record_count=len(kept),
        ),
        body,
    )


def _packed(header: BatchHeader, body: bytes) -> bytes:
    return bytes(pack_batch(header, compress(header.codec, body) if header.codec else body))

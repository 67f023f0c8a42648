"""Append what a flow copies from another cluster's log, at the same offsets.

The flow is trusted with the records, as a follower trusts its leader, but not with the framing: a
batch is checked for what would damage the log or the cluster. A source that has compacted its log
skips offsets. A hole that was left by a lost request looks the same, so the flow states with each
batch how many offsets the source skips before it; the log accepts no other gap.
"""

from struct import error as StructError  # noqa: N812  ("error" alone is unclear here)
from typing import TYPE_CHECKING, Final, TypeAlias

from barnabas.log.log_config import LogConfig
from barnabas.log.partition.appending import AppendInfo, write_batch
from barnabas.log.partition.batch_validation import Writable, check_size
from barnabas.log.record_work import RecordsRefusedError
from barnabas.log.segment.log_segment import RELATIVE_OFFSET_MAX
from barnabas.log.segment.producer_state import read_marker
from barnabas.protocol.batches.batch_header import BatchHeader, CorruptBatch
from barnabas.protocol.batches.batch_header import assign_offset as set_offset
from barnabas.protocol.batches.batch_layout import (
    CHECKED_AT,
    CODEC_ID_MAX,
    CODEC_MASK,
    CONTROL,
    HEADER,
    LENGTH_MIN,
    LOG_OVERHEAD,
    MAGIC,
)
from barnabas.protocol.batches.control_batches import TransactionMarker
from barnabas.protocol.batches.crc import crc32c
from barnabas.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from barnabas.log.partition.partition_log import PartitionLog

_OFFSET_MAX: Final = (1 << 63) - 1


_Checked: TypeAlias = tuple[memoryview, BatchHeader, int, int, TransactionMarker | None]
"""A batch that passed the checks, its first and last offset, and its marker if it has one."""


def append(log: "PartitionLog", records: Writable, leader_epoch: int, now_ms: int) -> AppendInfo:
    """See `PartitionLog.append_as_mirror`."""
    batches = _checked(log.config, memoryview(records))
    end = log.log_end_offset
    new: list[_Checked] = []
    for batch in batches:
        _, header, first, last, _ = batch
        if last >= end:
            if first != end:
                _check_place(log, header, end)
            new.append(batch)
            end = last + 1
    for data, header, first, last, marker in new:
        set_offset(data, 0, first, leader_epoch)
        write_batch(log, data, header, first, last, leader_epoch, now_ms, marker)
    return AppendInfo(batches[0][2], batches[-1][3], -1, not new)


def _checked(config: LogConfig, records: memoryview) -> list[_Checked]:
    """Check every batch by itself, and that they ascend. Raises KafkaError."""
    found: list[_Checked] = []
    position, end = 0, 0
    while position < len(records) or not found:
        header = _header(records, position)
        data = records[position : position + header.batch_length + LOG_OVERHEAD]
        size = len(data)
        if crc32c(data[CHECKED_AT:]) != header.crc:
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE, f"Record is corrupt (stored crc = {header.crc})"
            )
        if size > config.max_message_bytes or size > config.segment_bytes:
            check_size(size, config)
        first = header.base_offset
        last = first + header.last_offset_delta
        if not end <= first <= last < _OFFSET_MAX:
            raise _impossible(header, end)
        offsets, attributes = header.last_offset_delta + 1, header.attributes
        is_possible = 0 <= header.record_count <= offsets and header.partition_leader_epoch >= 0
        if not is_possible or attributes & CODEC_MASK > CODEC_ID_MAX:
            raise _wrong_field(header)
        marker: TransactionMarker | None = None
        if attributes & CONTROL and header.producer_id >= 0:
            marker = _marker_of(data, header)
        found.append((data, header, first, last, marker))
        position, end = position + size, last + 1
    return found


def _impossible(header: BatchHeader, end: int) -> KafkaError:
    """Return the refusal of offsets that do not exist, or are before those of an earlier batch."""
    first, delta = header.base_offset, header.last_offset_delta
    if 0 <= first < end:
        return _refused(f"a batch at offset {first} follows one that ends at {end}")
    return _refused(f"a batch of a mirror has no offset {first} + {delta}")


def _header(records: memoryview, position: int) -> BatchHeader:
    """Return the header of a whole batch of magic 2. Raises KafkaError."""
    try:
        header = BatchHeader._make(HEADER.unpack_from(records, position))
    except StructError:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE, f"no complete batch at position {position}"
        ) from None
    length = header.batch_length
    is_whole = LENGTH_MIN <= length <= len(records) - position - LOG_OVERHEAD
    if header.magic != MAGIC or not is_whole:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"no complete batch at position {position}")
    return header


def _wrong_field(header: BatchHeader) -> KafkaError:
    """Return the refusal of a batch with a field that cannot be."""
    if header.attributes & CODEC_MASK > CODEC_ID_MAX:
        return KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"Unknown compression type id: {header.codec_id}",
        )
    if header.partition_leader_epoch < 0:
        return _refused(
            f"a batch of a mirror states {header.partition_leader_epoch} offsets that are skipped "
            "before it, in place of its leader epoch; the number must not be negative"
        )
    return _refused(
        f"{header.record_count} records do not have {header.last_offset_delta + 1} offsets"
    )


def _marker_of(batch: memoryview, header: BatchHeader) -> TransactionMarker | None:
    try:
        return read_marker(batch, header)
    except (CorruptBatch, ValueError) as error:
        raise _refused(f"a control batch at offset {header.base_offset}: {error}") from error


def _check_place(log: "PartitionLog", header: BatchHeader, end: int) -> None:
    """Check that the batch follows `end`, the log end or the batch before it. Raises KafkaError."""
    first, last, skipped = header.base_offset, header.last_offset, header.partition_leader_epoch
    name = f"{log.topic}-{log.partition}"
    if first < end:
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"the batch with offsets {first} to {last} overlaps the log end {end} of {name}: its "
            "records below the log end are not the source's",
        )
    if first - skipped > end:
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"the batch with offsets {first} to {last} follows offset {first - skipped} at the "
            f"source, but the log of {name} ends at {end}: batches between them are missing",
        )
    if last - end > RELATIVE_OFFSET_MAX:
        raise _refused(
            f"the batch with offsets {first} to {last} skips more than {RELATIVE_OFFSET_MAX} "
            f"offsets after {end}"
        )


def _refused(reason: str) -> KafkaError:
    return RecordsRefusedError(ErrorCode.INVALID_RECORD, reason)

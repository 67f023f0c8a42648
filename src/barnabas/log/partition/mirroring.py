"""Append what a flow copies from another cluster's log, at the same offsets.

The flow is trusted with the records, as a follower trusts its leader, but not with the framing: a
batch is checked for what would damage the log or the cluster. A source that has compacted its log
skips offsets. A hole that was left by a lost request looks the same, so the flow states with each
batch how many offsets the source skips before it; the log accepts no other gap.
"""

from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.log.partition.appending import AppendInfo, write_batch
from barnabas.log.partition.batch_validation import (
    Writable,
    check_follower_batch,
    check_size,
)
from barnabas.log.record_work import RecordsRefusedError
from barnabas.log.segment.log_segment import RELATIVE_OFFSET_MAX
from barnabas.log.segment.producer_state import read_marker
from barnabas.protocol.batches.batch_header import BatchHeader, CorruptBatch, read_header
from barnabas.protocol.batches.batch_header import assign_offset as set_offset
from barnabas.protocol.batches.batch_layout import CODEC_ID_MAX, CODEC_MASK, CONTROL, HEADER_SIZE
from barnabas.protocol.batches.control_batches import TransactionMarker
from barnabas.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from barnabas.log.partition.partition_log import PartitionLog

_OFFSET_MAX: Final = (1 << 63) - 1


class _Checked(NamedTuple):
    """A batch that passed the checks: its position in the request, and its marker if it has one."""

    position: int
    header: BatchHeader
    marker: TransactionMarker | None


def append(log: "PartitionLog", records: Writable, leader_epoch: int, now_ms: int) -> AppendInfo:
    """See `PartitionLog.append_as_mirror`."""
    batches = _checked(log, records)
    first, last = batches[0].header.base_offset, batches[-1].header.last_offset
    end = log.log_end_offset
    new = [batch for batch in batches if batch.header.last_offset >= end]
    for batch in new:
        _check_place(log, batch.header, end)
        end = batch.header.next_offset
    view = memoryview(records)
    for position, header, marker in new:
        base_offset = header.base_offset
        set_offset(records, position, base_offset, leader_epoch)
        data = view[position : position + header.size]
        last_offset = header.last_offset
        write_batch(log, data, header, base_offset, last_offset, leader_epoch, now_ms, marker)
    return AppendInfo(first, last, duplicate=not new)


def _checked(log: "PartitionLog", records: Writable) -> list[_Checked]:
    """Check every batch by itself, and that they ascend. Raises KafkaError."""
    found: list[_Checked] = []
    position, end = 0, 0
    while position < len(records) or not found:
        try:
            if len(records) - position < HEADER_SIZE:
                raise CorruptBatch(f"no complete batch at position {position}")
            header = read_header(records, position)
        except CorruptBatch as error:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
        check_follower_batch(records, position, header)
        check_size(header.size, log.config)
        _check_fields(header)
        if header.base_offset < end:
            raise _refused(f"a batch at offset {header.base_offset} follows one that ends at {end}")
        marker = _marker_of(records, position, header)
        found.append(_Checked(position, header, marker))
        position, end = position + header.size, header.next_offset
    return found


def _check_fields(header: BatchHeader) -> None:
    delta, count = header.last_offset_delta, header.record_count
    if header.attributes & CODEC_MASK > CODEC_ID_MAX:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"Unknown compression type id: {header.codec_id}",
        )
    if header.base_offset < 0 or delta < 0 or header.base_offset > _OFFSET_MAX - delta - 1:
        raise _refused(f"a batch of a mirror has no offset {header.base_offset} + {delta}")
    if not 0 <= count <= delta + 1:
        raise _refused(f"{count} records do not have {delta + 1} offsets")
    if header.partition_leader_epoch < 0:
        raise _refused(
            f"a batch of a mirror states {header.partition_leader_epoch} offsets that are skipped "
            "before it, in place of its leader epoch; the number must not be negative"
        )


def _marker_of(records: Writable, position: int, header: BatchHeader) -> TransactionMarker | None:
    if header.producer_id < 0 or not header.attributes & CONTROL:
        return None
    with memoryview(records)[position : position + header.size] as batch:
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

"""Append batches to a log, as leader or as follower (Kafka's `UnifiedLog.append`).

A refused batch changes nothing. An appended batch is at once part of the segment, the leader
epochs and the producer state, and readers see it because the log end advances.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from barnabas.log.partition import mirror_end, rolling
from barnabas.log.partition.batch_validation import (
    Origin,
    Writable,
    check_batch,
    check_follower_batch,
    complete_batch,
    needs_records,
)
from barnabas.log.record_work import Outcomes
from barnabas.log.segment.log_segment import RELATIVE_OFFSET_MAX, Segment
from barnabas.log.segment.producer_state import BatchMetadata, read_marker
from barnabas.log.segment.segment_index import AbortedTxn
from barnabas.protocol.batches.batch_header import (
    BatchHeader,
    CorruptBatch,
    assign_offset,
    iter_batches,
)
from barnabas.protocol.batches.batch_layout import CONTROL
from barnabas.protocol.batches.control_batches import TransactionMarker
from barnabas.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from barnabas.log.partition.partition_log import PartitionLog


class AppendInfo(NamedTuple):
    """The result of an append; for a duplicate, the result of the batch's first append.

    `log_append_time_ms` is -1 where records keep their producers' timestamps.
    """

    first_offset: int
    last_offset: int
    log_append_time_ms: int = -1
    duplicate: bool = False


def as_leader(
    log: "PartitionLog",
    records: Writable,
    leader_epoch: int,
    now_ms: int,
    origin: Origin,
    done: Outcomes | None,
) -> AppendInfo:
    """See `PartitionLog.append_as_leader`."""
    config = log.config
    header = check_batch(records, config, origin)
    if needs_records(header, config, now_ms, origin):
        records, header = complete_batch(records, header, config, now_ms, origin, done)
    if len(records) > config.segment_bytes:
        raise KafkaError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"a batch of {len(records)} bytes is larger than a segment of {config.segment_bytes}",
        )
    marker: TransactionMarker | None = None
    if header.producer_id >= 0:
        if header.attributes & CONTROL:
            marker = read_marker(records, header)
            if marker is not None:
                log.producers.check_marker(header, marker)
        elif origin == "client":
            duplicate = log.guarded(_duplicate_of, log, header)
            if duplicate is not None:
                return AppendInfo(
                    duplicate.first_offset, duplicate.last_offset, duplicate.timestamp, True
                )
    first = log.log_end_offset
    assign_offset(records, 0, first, leader_epoch)
    last = first + header.last_offset_delta
    write_batch(log, records, header, first, last, leader_epoch, now_ms, marker)
    return AppendInfo(first, last, now_ms if config.log_append_time else -1)


def as_follower(
    log: "PartitionLog", records: bytes | Writable, now_ms: int, leader_epoch: int
) -> None:
    """See `PartitionLog.append_as_follower`."""
    view = memoryview(records)
    for position, header in iter_batches(records):
        first, epoch = header.base_offset, header.partition_leader_epoch
        if epoch > leader_epoch:
            return
        check_follower_batch(records, position, header)
        if first < log.log_end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"a batch at offset {first} is below the log end offset {log.log_end_offset}",
            )
        batch = view[position : position + header.size]
        marker: TransactionMarker | None = None
        if header.producer_id >= 0 and header.attributes & CONTROL:
            marker = read_marker(batch, header)
        write_batch(log, batch, header, first, header.last_offset, epoch, now_ms, marker)


def _epoch_start(log: "PartitionLog", leader_epoch: int, first: int) -> int:
    """Return where the leader epoch of a batch at `first` starts.

    As in Kafka that is at the batch. In a mirror the source's gaps may be before it, and a replica
    with records of an earlier epoch there must remove them, so the epoch starts at the log end.
    """
    return log.log_end_offset if leader_epoch < log.mirror_end_epoch else first


def write_batch(
    log: "PartitionLog",
    batch: bytes | Writable,
    header: BatchHeader,
    first: int,
    last: int,
    leader_epoch: int,
    now_ms: int,
    marker: TransactionMarker | None,
) -> None:
    """Write one checked batch, whose offsets are set. Raises KafkaError."""
    volume = log.volume
    if log.error is not None or volume.failure is not None:
        raise log.refusal()
    config, epochs = log.config, log.epochs
    try:
        if not epochs.entries or leader_epoch > epochs.entries[-1].epoch:
            mirror_end.end_mirror(log, leader_epoch)
            epochs.assign(leader_epoch, _epoch_start(log, leader_epoch, first))
        if epochs.is_dirty:
            rolling.write_epochs(log)
        segment = log.segments[-1]
        if segment.is_due_to_roll(config, len(batch), header.max_timestamp, last, now_ms):
            # There may be a gap before the batch: in a mirror, or in the log of a leader that has
            # compacted it.
            end = log.log_end_offset
            base = end if last - end <= RELATIVE_OFFSET_MAX else first
            segment = rolling.roll(log, base, now_ms)
        segment.append(batch, last, header.max_timestamp, config.index_interval_bytes)
    except (OSError, CorruptBatch) as error:
        raise log.refused(error, volume) from error
    log.advance_log_end(last + 1)
    if header.producer_id >= 0:
        _note_producer(log, segment, header, first, marker)


def _note_producer(
    log: "PartitionLog",
    segment: Segment,
    header: BatchHeader,
    first: int,
    marker: TransactionMarker | None,
) -> None:
    if not header.attributes & CONTROL:
        log.producers.append(header, first)
    elif marker is not None:
        aborted = log.producers.end_transaction(header, first, marker)
        if aborted is not None:
            _index_aborted(log, segment, aborted)


def _index_aborted(log: "PartitionLog", segment: Segment, aborted: AbortedTxn) -> None:
    try:
        segment.transaction_index.append(aborted)
    except OSError as error:
        # The marker is already in the log. Without an index entry, readers would see the aborted
        # records, so the directory goes offline.
        raise log.volume.fail(error) from error


def _duplicate_of(log: "PartitionLog", header: BatchHeader) -> BatchMetadata | None:
    producers = log.producers
    try:
        return producers.check_client_batch(header)
    except KafkaError as error:
        entry = producers.find(header.producer_id)
        if (
            error.code is not ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            or entry is None
            or not entry.window_is_cut
        ):
            raise
    # The snapshot had only the producer's last batch: read earlier ones in the last two segments.
    producers.restore_window(entry, _headers(log.segments[-2:]))
    return producers.check_client_batch(header)


def _headers(segments: Iterable[Segment]) -> Iterator[BatchHeader]:
    for segment in segments:
        for _, header in segment.headers():
            yield header

"""Changes of a follower's log: append, truncate, and follow the leader's offsets.

KIP-101 and KIP-279 (truncation by leader epoch), KAFKA-18723 (no records of a later leader). Each
function keeps log start offset <= high watermark <= log end offset.
"""

import logging

from barnabas.cluster.replication.log_like import LogLike
from barnabas.protocol.batches.batch_header import CorruptBatch, read_header
from barnabas.protocol.batches.batch_layout import HEADER_SIZE
from barnabas.protocol.errors import ErrorCode, KafkaError

logger = logging.getLogger(__name__)

Batches = bytes | bytearray | memoryview


def initial_fetch_offset(log: LogLike) -> int:
    """Return where a follower starts to fetch.

    A log without any leader epoch cannot be compared with the leader's; it starts at its high
    watermark, and records above that are removed (`truncate_without_epochs`).
    """
    return log.log_end_offset if log.latest_epoch >= 0 else log.high_watermark


def truncate_without_epochs(log: LogLike) -> None:
    """Truncate a log without any leader epoch to its high watermark."""
    if log.latest_epoch < 0 and log.high_watermark < log.log_end_offset:
        log.truncate_to(log.high_watermark)


def append(log: LogLike, batches: Batches, *, leader_epoch: int, now_ms: int) -> None:
    """Append the complete batches up to `leader_epoch`; they must start at the log end.

    A first batch that starts before the log end is accepted only by an empty log, which then starts
    at that batch: the leader's log start offset may be inside a batch.
    Raises KafkaError CORRUPT_MESSAGE, OFFSET_OUT_OF_RANGE and the errors of the disk.
    """
    base_offset, last_offset = _first_offsets(batches)
    end = log.log_end_offset
    if base_offset < end <= last_offset and log.log_start_offset == end:
        logger.info(
            "starting an empty log at the batch that contains its offset offset=%d batch_offset=%d",
            end,
            base_offset,
        )
        log.truncate_fully_and_start_at(base_offset)
    log.append_as_follower(batches, now_ms=now_ms, leader_epoch=leader_epoch)


def _first_offsets(batches: Batches) -> tuple[int, int]:
    """Return the offsets of the first batch's first and last record.

    Raises KafkaError CORRUPT_MESSAGE when the batch is not whole.
    """
    try:
        header = read_header(batches) if len(batches) >= HEADER_SIZE else None
    except CorruptBatch as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
    if header is None or header.size > len(batches):
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"no whole batch in {len(batches)} bytes")
    return header.base_offset, header.last_offset


def follow_high_watermark(log: LogLike, leader_high_watermark: int) -> bool:
    """Raise the high watermark to the leader's, at most to the log end; True when it rose.

    A new leader may have a lower one than its predecessor. What was committed stays so.
    """
    offset = min(leader_high_watermark, log.log_end_offset)
    if offset <= log.high_watermark:
        return False
    log.advance_high_watermark(offset)
    return True


def follow_log_start(log: LogLike, leader_log_start: int) -> bool:
    """Raise the log start to the leader's, at most to the high watermark; True when it rose."""
    offset = min(leader_log_start, log.high_watermark)
    if offset <= log.log_start_offset:
        return False
    log.advance_log_start(offset)
    return True


def truncation_offset(log: LogLike, leader_epoch: int, leader_end_offset: int) -> int:
    """Return where to truncate when the leader's epoch ends differently (KIP-279).

    `leader_epoch` is the leader's last epoch up to this log's, and `leader_end_offset` its end on
    the leader. When this log does not have that epoch, it is truncated to the end of the next
    lower one it has, and the next fetch compares again.
    """
    end = log.log_end_offset
    if leader_end_offset < 0:
        return min(log.high_watermark, end)
    epoch, end_of_epoch = log.end_offset_for_epoch(leader_epoch)
    if epoch < 0:
        return min(leader_end_offset, end)
    if epoch != leader_epoch:
        return min(end_of_epoch, end)
    return min(end_of_epoch, leader_end_offset, end)

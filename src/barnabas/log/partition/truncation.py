"""A log gives up its end, or all of it: a follower's whose leader has other records there.

Kafka's `UnifiedLog.truncateTo` and `truncateFullyAndStartAt`. Epochs and producers go back with it.
"""

from typing import TYPE_CHECKING

from barnabas.log.partition import producer_loading, rolling
from barnabas.log.partition.segment_removal import remove_now
from barnabas.log.segment.producer_state import ProducerState

if TYPE_CHECKING:
    from barnabas.log.partition.partition_log import PartitionLog


def truncate_to(log: "PartitionLog", offset: int) -> None:
    """Drop the records from `offset` on, of which there are some; CorruptBatch, OSError."""
    if offset <= log.segments[0].base_offset:
        start_at(log, offset)
        return
    log.read_ends.clear()
    number = log.segment_number(offset)
    if log.segments[number].base_offset == offset and number:
        number -= 1
    dropped = log.segments[number + 1 :]
    del log.segments[number + 1 :]
    remove_now(log.directory, dropped)
    segment = log.segments[number]
    found = segment.find(offset)
    if found is not None:
        segment.truncate(found[0], offset - 1)
    _ends_at(log, offset)
    producer_loading.read(log)


def start_at(log: "PartitionLog", offset: int) -> None:
    """Drop everything; the next record takes `offset`. OSError."""
    log.read_ends.clear()
    dropped, log.segments = log.segments, []
    remove_now(log.directory, dropped)
    producer_loading.remove_snapshots(log.directory)
    rolling.new_segment(log, offset, 0)
    log.log_start_offset = offset
    log.high_watermark = offset
    log.epochs.clear()
    log.producers = ProducerState(offset)
    _ends_at(log, offset)


def _ends_at(log: "PartitionLog", offset: int) -> None:
    log.log_end_offset = offset
    log.high_watermark = min(log.high_watermark, offset)
    log.log_start_offset = min(log.log_start_offset, offset)
    with log.volume.mutex:
        log.cuts += 1
        is_known = log.recovery_point > offset
        log.recovery_point = min(log.recovery_point, offset)
    log.epochs.truncate_end(offset)
    rolling.write_epochs(log)
    if is_known:  # or what is appended here would be taken for synced (`LogManager.truncateTo`)
        log.volume.write_checkpoints()

"""Remove the end of a log, or all of it: for a follower whose leader has other records there.

Kafka's `UnifiedLog.truncateTo` and `truncateFullyAndStartAt`. Leader epochs and producer state
move back with the log end.
"""

from typing import TYPE_CHECKING

from barnabas.log.partition import producer_loading, rolling
from barnabas.log.partition.segment_removal import remove_now

if TYPE_CHECKING:
    from barnabas.log.partition.partition_log import PartitionLog


def truncate_to(log: "PartitionLog", offset: int) -> None:
    """Remove the records from `offset` on; at least one exists. Raises CorruptBatch, OSError.

    What is below the log start offset goes, too, when nothing above it is left: the log end may be
    within a batch then, and no segment may end before the log start offset.
    """
    if offset <= max(log.log_start_offset, log.segments[0].base_offset):
        start_at(log, offset)
        return
    number = log.segment_number(offset)
    if log.segments[number].base_offset == offset and number:
        number -= 1
    remove_now(log.directory, log.replace_segments(number + 1, len(log.segments), []))
    segment = log.segments[number]
    found = segment.find(offset)
    if found is not None:
        segment.truncate(found[0], offset - 1)
    _finish(log, moved_back=log.cut_log_end(offset))
    producer_loading.read(log)


def start_at(log: "PartitionLog", offset: int) -> None:
    """Remove all records; the next one gets `offset`. Raises OSError."""
    remove_now(log.directory, log.replace_segments(0, len(log.segments), []))
    producer_loading.remove_snapshots(log.directory)
    rolling.new_segment(log, offset, 0)
    _finish(log, moved_back=log.restart_at(offset))


def remove_unused_epoch(log: "PartitionLog") -> None:
    """Remove a leader epoch that starts at the log end, where its leader appended nothing.

    Another leader may have records of an earlier epoch there. Raises OSError.
    """
    log.epochs.truncate_end(log.log_end_offset)
    rolling.write_epochs(log)


def _finish(log: "PartitionLog", *, moved_back: bool) -> None:
    rolling.write_epochs(log)
    if moved_back:
        # Otherwise a start after a kill would take records appended here for synced ones
        # (`LogManager.truncateTo`), or for committed ones (Kafka leaves that to its interval).
        log.volume.write_checkpoints()

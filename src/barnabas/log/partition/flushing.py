"""Make a log durable, and advance its recovery point (Kafka's `LocalLog.flush`).

Everything below the recovery point is synced: batches, and the indexes of complete segments. The
loop may append, roll and truncate while a thread syncs.
"""

from itertools import pairwise
from typing import TYPE_CHECKING

from barnabas.log.checkpoints import LEADER_EPOCHS
from barnabas.log.file_operations import sync_path
from barnabas.log.log_config import LONG_MAX

if TYPE_CHECKING:
    from barnabas.log.partition.partition_log import PartitionLog


def flush(log: "PartitionLog", *, rolled_only: bool = False) -> int:
    """Sync what was appended before this call; return the bytes of complete segments synced.

    With `rolled_only` the active segment is not synced. Raises OSError.
    """
    # Read the end before the segments: these then contain all records below the end. If the log
    # end moves back meanwhile (`cuts`), the next flush advances the recovery point.
    cuts, end_offset, segments = log.cuts, log.log_end_offset, tuple(log.segments)
    start, name_changes = log.recovery_point, log.name_changes
    if not segments:  # the loop is removing all records
        return 0
    if rolled_only:
        end_offset = min(end_offset, segments[-1].base_offset)
    if end_offset <= start:
        return 0
    synced = 0
    for segment, following in pairwise(segments):
        if following.base_offset > start:
            segment.sync()
            synced += segment.size
    if not rolled_only:
        segments[-1].sync_batches()
    # Another thread may be syncing these names now, but it may not have finished.
    if log.synced_name_changes < name_changes:
        for path in (f"{log.directory}/{LEADER_EPOCHS}", log.directory, log.volume.path):
            sync_path(path)
    log.advance_recovery_point(end_offset, cuts=cuts, name_changes=name_changes)
    return synced


def is_due(log: "PartitionLog", now_ms: int) -> bool:
    """True when flush.ms requires a sync of appended records. Called at an interval."""
    if log.config.flush_ms >= LONG_MAX or not log.is_loaded:
        return False
    if log.recovery_point >= log.log_end_offset:
        log.note_flush(now_ms)
        return False
    if now_ms - log.flushed_ms < log.config.flush_ms:
        return False
    log.note_flush(now_ms)
    return True


def unsynced_bytes(log: "PartitionLog") -> int:
    """Return about how many bytes are above the recovery point."""
    point, end, total = log.recovery_point, log.log_end_offset, 0.0
    for segment in reversed(tuple(log.segments)):
        if end <= point:
            break
        start = segment.base_offset
        total += segment.size * min((end - point) / max(end - start, 1), 1)
        end = start
    return int(total)

"""What of a log is on the disk, and how it gets there (Kafka's `LocalLog.flush`).

All below a log's recovery point is synced: batches, and of complete segments their indexes too. The
loop appends, rolls and truncates while a thread syncs.
"""

from itertools import pairwise
from typing import TYPE_CHECKING

from barnabas.log.checkpoints import LEADER_EPOCHS
from barnabas.log.file_operations import sync_path
from barnabas.log.log_config import LONG_MAX

if TYPE_CHECKING:
    from barnabas.log.partition.partition_log import PartitionLog


def flush(log: "PartitionLog", *, rolled_alone: bool = False) -> int:
    """Sync what was appended before this call; the bytes of complete segments synced. OSError.

    With `rolled_alone` not the segment that is appended to.
    """
    # The end is read before the segments that hold all below it, and a cut made since then leaves
    # the recovery point to the next flush.
    cuts, end_offset, segments = log.cuts, log.log_end_offset, tuple(log.segments)
    start, names = log.recovery_point, log.changed_names
    if not segments:  # it begins anew
        return 0
    if rolled_alone:
        end_offset = min(end_offset, segments[-1].base_offset)
    if end_offset <= start:
        return 0
    synced = 0
    for segment, following in pairwise(segments):
        if following.base_offset > start:
            segment.sync()
            synced += segment.size
    if not rolled_alone:
        segments[-1].sync_batches()
    if log.synced_names < names:  # also while another thread is at it: it may not be done
        for path in (f"{log.directory}/{LEADER_EPOCHS}", log.directory, log.volume.path):
            sync_path(path)
    with log.volume.mutex:
        log.synced_names = max(log.synced_names, names)
        if cuts == log.cuts:
            log.recovery_point = max(log.recovery_point, end_offset)
    return synced


def is_due(log: "PartitionLog", now_ms: int) -> bool:
    """Whether flush.ms asks for a sync of what was appended; asked again and again."""
    if log.config.flush_ms >= LONG_MAX or not log.is_loaded:
        return False
    if log.recovery_point >= log.log_end_offset:
        log.flushed_ms = now_ms
        return False
    if now_ms - log.flushed_ms < log.config.flush_ms:
        return False
    log.flushed_ms = now_ms
    return True


def unsynced_bytes(log: "PartitionLog") -> int:
    """About how much lies behind the recovery point."""
    point, end, total = log.recovery_point, log.log_end_offset, 0.0
    for segment in reversed(tuple(log.segments)):
        if end <= point:
            break
        start = segment.base_offset
        total += segment.size * min((end - point) / max(end - start, 1), 1)
        end = start
    return int(total)

"""Delete segments by retention (Kafka's `UnifiedLog.deleteOldSegments`).

Segments below the log start offset are always deleted. With the delete policy, committed segments
are deleted by age and by total size too.
"""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.log.partition import rolling
from barnabas.log.partition.segment_removal import remove_later
from barnabas.log.segment.log_segment import Segment, file_name, sizes_on_disk
from barnabas.log.segment.segment_index import TimeIndex

if TYPE_CHECKING:
    from barnabas.log.partition.partition_log import PartitionLog


def apply(log: "PartitionLog", now_ms: int) -> int:
    """Delete old segments and return their number. Raises OSError.

    When the active segment is old too, an empty one replaces it.
    """
    count = _expired(log, now_ms)
    if not count:
        return 0
    if count == len(log.segments):
        rolling.roll(log, log.log_end_offset, now_ms)
    remove_later(log, log.replace_segments(0, count, []))
    log.advance_log_start(log.segments[0].base_offset)
    rolling.write_epochs(log)
    return count


def _expired(log: "PartitionLog", now_ms: int) -> int:
    segments = log.segments
    count = _below_start(segments, log.log_start_offset)
    if log.config.is_deleted:
        count = max(count, _too_old(log, now_ms), _too_much(log))
    return count


def is_due(log: "PartitionLog", now_ms: int) -> bool:
    """True when a log that is not loaded may have segments to delete. Raises OSError.

    Names, sizes and the end of one time index decide, so the first round after a start opens only
    logs with something to delete. After a clean stop, the index ends with the segment's largest
    timestamp.
    """
    sizes = sizes_on_disk(log.directory)
    bases = sorted(sizes)
    if len(bases) > 1 and bases[1] <= log.log_start_offset:
        return True
    if not log.config.is_deleted or not any(sizes.values()):
        return False
    keep = log.config.retention_bytes
    if keep >= 0 and sum(sizes.values()) - sizes[bases[0]] >= keep:
        return True
    if log.config.retention_ms < 0:
        return False
    path = f"{log.directory}/{file_name(bases[0], '.timeindex')}"
    last = TimeIndex(path, log.volume.files).peek_last()
    return last is None or now_ms - last > log.config.retention_ms


def _below_start(segments: Sequence[Segment], log_start_offset: int) -> int:
    count = 0
    while count + 1 < len(segments) and segments[count + 1].base_offset <= log_start_offset:
        count += 1
    return count


def _committed(log: "PartitionLog", number: int) -> bool:
    """True when the segment has records and all of them are below the high watermark."""
    segments = log.segments
    if number + 1 < len(segments):
        return segments[number + 1].base_offset <= log.high_watermark
    return segments[number].size > 0 and log.log_end_offset <= log.high_watermark


def _too_old(log: "PartitionLog", now_ms: int) -> int:
    if log.config.retention_ms < 0:
        return 0
    count = 0
    for number, segment in enumerate(log.segments):
        timestamp = segment.max_timestamp
        if timestamp < 0:
            timestamp = int(os.stat(segment.path).st_mtime * 1000)
        if now_ms - timestamp <= log.config.retention_ms or not _committed(log, number):
            break
        count += 1
    return count


def _too_much(log: "PartitionLog") -> int:
    if log.config.retention_bytes < 0:
        return 0
    excess = sum(segment.size for segment in log.segments) - log.config.retention_bytes
    count = 0
    for number, segment in enumerate(log.segments):
        excess -= segment.size
        if excess < 0 or not _committed(log, number):
            break
        count += 1
    return count

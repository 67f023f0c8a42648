"""Choose the next log to clean, and the offsets of the pass (Kafka's `LogCleanerManager`)."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from barnabas.log.compaction.cleaning_job import CleanJob
from barnabas.log.partition.partition_log import PartitionLog
from barnabas.log.segment.log_segment import Segment

BYTES_PER_KEY: Final = 24
"""Memory per slot of the offset map: 16 bytes of digest and 8 bytes of offset."""

_BUFFER_BYTES_MIN: Final = 4096
_MAP_BYTES_MAX: Final = (1 << 31) - 1  # as in Kafka, where it is the size limit of an array


class Limits(NamedTuple):
    """Limits of one cleaner by the configuration: memory for keys, and bytes per second.

    `load_factor` is the part of the offset map's slots that may be used. `buffer_bytes` is the size
    of a read and of a write.
    """

    map_bytes: int
    load_factor: float
    buffer_bytes: int
    bytes_per_second: float


class Candidate(NamedTuple):
    """A log that can be cleaned; `ratio` is the part of its bytes that is dirty."""

    log: PartitionLog
    segments: list[Segment]
    first_dirty: int
    first_uncleanable: int
    ratio: float
    is_late: bool


def candidate(log: PartitionLog, now_ms: int) -> Candidate | None:
    """Return what can be cleaned in a compacted log; None if nothing. Raises OSError."""
    start = log.segments[0].base_offset
    first_dirty = log.first_dirty_offset
    if not start <= first_dirty <= log.log_end_offset:
        first_dirty = max(log.log_start_offset, start)  # records were deleted or truncated since
    first_uncleanable = _first_uncleanable(log, first_dirty, now_ms)
    segments = [each for each in log.segments if each.base_offset < first_uncleanable]
    dirty = [each for each in segments if _end(log, each) > first_dirty]
    dirty_bytes = sum(each.size for each in dirty)
    if not dirty_bytes:
        return None
    return Candidate(
        log,
        segments,
        first_dirty,
        first_uncleanable,
        dirty_bytes / sum(each.size for each in segments),
        _is_late(log, dirty, now_ms),
    )


def _end(log: PartitionLog, segment: Segment) -> int:
    following = log.segments.index(segment) + 1
    if following == len(log.segments):
        return log.log_end_offset
    return log.segments[following].base_offset


def _first_uncleanable(log: PartitionLog, first_dirty: int, now_ms: int) -> int:
    """Return the base offset of the first segment that must not be cleaned.

    That is the active segment, or one with records that are unstable, not synced or too young.
    """
    limit = min(log.last_stable_offset, log.recovery_point)
    lag_ms = log.config.min_compaction_lag_ms
    for segment in log.segments:
        if segment is log.active or _end(log, segment) > limit:
            return segment.base_offset
        is_young = lag_ms and segment.max_timestamp > now_ms - lag_ms
        if is_young and _end(log, segment) > first_dirty:
            return segment.base_offset
    return log.active.base_offset


def _is_late(log: PartitionLog, dirty: Iterable[Segment], now_ms: int) -> bool:
    """True when max.compaction.lag.ms is over for the first dirty record."""
    for segment in dirty:
        segment.load_first_timestamp()
        if 0 <= segment.first_timestamp < now_ms - log.config.max_compaction_lag_ms:
            return True
    return False


def filthiest(candidates: Iterable[Candidate]) -> Candidate | None:
    """Return the log to clean next: late ones first, then by dirty ratio."""
    due = [
        each
        for each in candidates
        if each.is_late or each.ratio > each.log.config.min_cleanable_ratio
    ]
    return max(due, key=lambda each: (each.is_late, each.ratio), default=None)


def job_for(chosen: Candidate, limits: Limits, now_ms: int) -> CleanJob:
    """Return the job for the helper process."""
    log, config = chosen.log, chosen.log.config
    slots, keys_max = _room(limits, chosen.first_uncleanable - chosen.first_dirty)
    return CleanJob(
        directory=log.directory,
        segments=[(each.base_offset, each.size) for each in chosen.segments],
        first_dirty=chosen.first_dirty,
        first_uncleanable=chosen.first_uncleanable,
        slots=slots,
        keys_max=keys_max,
        buffer_bytes=max(limits.buffer_bytes, _BUFFER_BYTES_MIN),
        segment_bytes_max=config.segment_bytes,
        index_bytes_max=config.segment_index_bytes,
        index_interval_bytes=config.index_interval_bytes,
        delete_retention_ms=config.delete_retention_ms,
        now_ms=now_ms,
        bytes_per_second=limits.bytes_per_second,
        producers={
            entry.producer_id: (entry.last_offset, entry.epoch) for entry in log.producers.entries()
        },
        aborted=log.aborted_transactions(log.log_start_offset, chosen.first_uncleanable),
    )


def _room(limits: Limits, records: int) -> tuple[int, int]:
    """Return the number of slots of the offset map, and how many may be used.

    One slot per offset of the dirty part is enough.
    """
    load_factor = min(max(limits.load_factor, 0.01), 1.0)
    slots = min(limits.map_bytes, _MAP_BYTES_MAX) // BYTES_PER_KEY
    slots = min(slots, int(records / load_factor) + 2)
    return slots, int(slots * load_factor)

"""Which log needs the cleaner most, and up to where it may be cleaned (`LogCleanerManager`)."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from barnabas.log.compaction.cleaning_job import CleanJob
from barnabas.log.partition.partition_log import PartitionLog
from barnabas.log.segment.log_segment import Segment

BYTES_PER_KEY: Final = 24
"""What a place in the table of keys takes: 16 bytes of digest and 8 of offset."""

_BUFFER_BYTES_MIN: Final = 4096
_MAP_BYTES_MAX: Final = (1 << 31) - 1  # as Kafka's, whose arrays end there


class Limits(NamedTuple):
    """What the configuration allows a cleaner: bytes for keys, bytes of traffic a second.

    `load_factor` is the share of the places for keys that may be taken, `buffer_bytes` what is
    read, and what is written, at a time.
    """

    map_bytes: int
    load_factor: float
    buffer_bytes: int
    bytes_per_second: float


class Candidate(NamedTuple):
    """A log that may be cleaned; `ratio` is the share of its bytes that are not clean."""

    log: PartitionLog
    segments: list[Segment]
    first_dirty: int
    first_uncleanable: int
    ratio: float
    is_late: bool


def candidate(log: PartitionLog, now_ms: int) -> Candidate | None:
    """What could be cleaned of a compacted log; None if there is nothing. OSError."""
    start = log.segments[0].base_offset
    first_dirty = log.first_dirty_offset
    if not start <= first_dirty <= log.log_end_offset:
        first_dirty = max(log.log_start_offset, start)  # deleted or truncated since
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
    """The base offset of the first segment that must stay as it is.

    The active one, one with records that are not stable or not on the disk yet, or too young ones.
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
    """Whether max.compaction.lag.ms is over for the first record that is not clean."""
    for segment in dirty:
        segment.load_first_timestamp()
        if 0 <= segment.first_timestamp < now_ms - log.config.max_compaction_lag_ms:
            return True
    return False


def filthiest(candidates: Iterable[Candidate]) -> Candidate | None:
    """The one to clean next: late ones first, then by their share of dirty bytes."""
    due = [
        each
        for each in candidates
        if each.is_late or each.ratio > each.log.config.min_cleanable_ratio
    ]
    return max(due, key=lambda each: (each.is_late, each.ratio), default=None)


def job_for(chosen: Candidate, limits: Limits, now_ms: int) -> CleanJob:
    """What the helper process is told."""
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
            entry.producer_id: (entry.last_offset, entry.epoch)
            for entry in log.producers.producers.values()
        },
        aborted=log.aborted_transactions(log.log_start_offset, chosen.first_uncleanable),
    )


def _room(limits: Limits, records: int) -> tuple[int, int]:
    """How many places the table of keys has, and how many of them may be taken.

    A place for each record that there can be is enough.
    """
    load_factor = min(max(limits.load_factor, 0.01), 1.0)
    slots = min(limits.map_bytes, _MAP_BYTES_MAX) // BYTES_PER_KEY
    slots = min(slots, int(records / load_factor) + 2)
    return slots, int(slots * load_factor)

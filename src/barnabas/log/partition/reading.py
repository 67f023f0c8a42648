"""Where what is read lies in a log's segments (Kafka's `LocalLog.read`)."""

from bisect import bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.log.file_cache import EMPTY_SLICE, FileSlice
from barnabas.log.segment.log_segment import Segment
from barnabas.log.segment.segment_index import AbortedTxn

if TYPE_CHECKING:
    from barnabas.log.partition.partition_log import PartitionLog

ReadEnds = dict[int, tuple[Segment, int]]
"""Offsets at which reads of the log's end stopped, which is where the next ones begin."""

_READ_ENDS_MAX: Final = 64


class Range(NamedTuple):
    """Bytes of one segment."""

    segment: Segment
    position: int
    size: int


def read(
    log: "PartitionLog", offset: int, max_bytes: int, upper_bound: int, min_one_message: bool
) -> FileSlice:
    """See `PartitionLog.read`; the offset is within the log. CorruptBatch, OSError."""
    known = log.read_ends.get(offset)
    if known is not None and upper_bound >= log.log_end_offset:
        segment, position = known
        size = segment.size - position
        if 0 < size <= max_bytes:
            return _slice(log, segment, position, size)
    found = find(
        log.segments,
        offset,
        max_bytes,
        upper_bound=upper_bound,
        end_offset=log.log_end_offset,
        min_one_message=min_one_message,
    )
    return EMPTY_SLICE if found is None else _slice(log, *found)


def _slice(log: "PartitionLog", segment: Segment, position: int, size: int) -> FileSlice:
    if segment is log.segments[-1] and position + size == segment.size:
        ends = log.read_ends
        end_offset = log.log_end_offset
        if end_offset not in ends:
            if len(ends) >= _READ_ENDS_MAX:
                del ends[next(iter(ends))]
            ends[end_offset] = (segment, segment.size)
    return FileSlice(segment.opened(), position, size)


def segment_number(segments: Sequence[Segment], offset: int) -> int:
    """The segment that holds `offset` (the first, for one below all)."""
    last = len(segments) - 1
    if offset >= segments[last].base_offset:
        return last
    return max(bisect_right(segments, offset, key=lambda each: each.base_offset) - 1, 0)


def find(
    segments: Sequence[Segment],
    offset: int,
    max_bytes: int,
    *,
    upper_bound: int,
    end_offset: int,
    min_one_message: bool,
) -> Range | None:
    """Whole batches, but for the last, from the one that holds `offset` on; None without any.

    Of the segments' end, `end_offset`, nothing at or above `upper_bound`. The first batch is there
    whole with `min_one_message`, and without it only if it fits. Raises CorruptBatch, OSError.
    """
    for number in range(segment_number(segments, offset), len(segments)):
        segment = segments[number]
        found = segment.find(offset)
        if found is None:  # the rest of this segment was compacted away
            continue
        position, header = found
        if header.size > max_bytes and not min_one_message:
            return None
        end = _end_position(segments, number, upper_bound, end_offset)
        size = min(end - position, max(max_bytes, header.size))
        return Range(segment, position, size) if size > 0 else None
    return None


def _end_position(
    segments: Sequence[Segment], number: int, upper_bound: int, end_offset: int
) -> int:
    """Where in a segment what is below `upper_bound` ends."""
    segment, following = segments[number], number + 1
    if upper_bound < (
        end_offset if following == len(segments) else segments[following].base_offset
    ):
        found = segment.find(upper_bound)
        if found is not None:
            return found[0]
    return segment.size


def aborted(segments: Sequence[Segment], first_offset: int, upper_bound: int) -> list[AbortedTxn]:
    """The aborted transactions with records between the two offsets; OSError."""
    found: list[AbortedTxn] = []
    for segment in segments[segment_number(segments, first_offset) :]:
        for each in segment.transaction_index.read():
            if each.last_offset >= first_offset and each.first_offset < upper_bound:
                found.append(each)
            if each.last_stable_offset >= upper_bound:
                return found
    return found

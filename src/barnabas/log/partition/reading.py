"""Find the file ranges for a read of a log (Kafka's `LocalLog.read`)."""

from bisect import bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.log.file_cache import EMPTY_SLICE, FileSlice
from barnabas.log.segment.log_segment import Segment
from barnabas.log.segment.segment_index import AbortedTxn

if TYPE_CHECKING:
    from barnabas.log.partition.partition_log import PartitionLog

# Reads that follow the log's end start where an earlier one stopped: these positions are kept.
_READ_ENDS_MAX: Final = 64


class Range(NamedTuple):
    """A byte range of one segment."""

    segment: Segment
    position: int
    size: int


def read(
    log: "PartitionLog", offset: int, max_bytes: int, upper_bound: int, min_one_message: bool
) -> FileSlice:
    """See `PartitionLog.read`; the offset is within the log. Raises CorruptBatch, OSError."""
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
    """Return the index of the segment with `offset`; 0 for an offset below all segments."""
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
    """Return the range of batches from the one with `offset` on, below `upper_bound`; or None.

    `end_offset` is the log end. `max_bytes` may cut off the last batch. The first batch is always
    whole: with `min_one_message` even above `max_bytes`, otherwise the result is None if it does
    not fit. Raises CorruptBatch, OSError.
    """
    for number in range(segment_number(segments, offset), len(segments)):
        segment = segments[number]
        found = segment.find(offset)
        if found is None:  # compaction removed the rest of this segment
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
    """Return the position in a segment where the batches below `upper_bound` end."""
    segment, following = segments[number], number + 1
    if upper_bound < (
        end_offset if following == len(segments) else segments[following].base_offset
    ):
        found = segment.find(upper_bound)
        if found is not None:
            return found[0]
    return segment.size


def aborted(segments: Sequence[Segment], first_offset: int, upper_bound: int) -> list[AbortedTxn]:
    """Return the aborted transactions with records between the offsets. Raises OSError."""
    found: list[AbortedTxn] = []
    for segment in segments[segment_number(segments, first_offset) :]:
        for each in segment.transaction_index.read():
            if each.last_offset >= first_offset and each.first_offset < upper_bound:
                found.append(each)
            if each.last_stable_offset >= upper_bound:
                return found
    return found

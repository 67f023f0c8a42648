"""Records by their timestamps (Kafka's `LogSegment.findOffsetByTimestamp`)."""

from collections.abc import Iterable, Sequence

from barnabas.log.segment import NO_TIMESTAMP, Segment
from barnabas.protocol.records.batch import BatchHeader, read_records

Found = tuple[int, int]
"""A record's timestamp (ms) and offset."""


def first_at_or_after(
    segments: Iterable[Segment], timestamp: int, start_offset: int
) -> Found | None:
    """The first record at or behind `start_offset` that is not older; CorruptBatch, OSError."""
    for segment in segments:
        if segment.max_timestamp >= timestamp:
            found = _first_in(segment, timestamp, start_offset)
            if found is not None:
                return found
    return None


def _first_in(segment: Segment, timestamp: int, start_offset: int) -> Found | None:
    # No record up to the indexed one is later than its timestamp, so none of them can be it
    # unless they are equal: the last entry that is strictly earlier is where to begin.
    number = segment.time_index.search(timestamp - 1)
    base = segment.base_offset
    after = base if number < 0 else base + segment.time_index.entry(number)[1]
    begin = segment.find(max(after, start_offset))
    if begin is None:
        return None
    for position, header in segment.headers(begin[0]):
        if header.max_timestamp >= timestamp:
            for record_timestamp, offset in _records(segment, position, header):
                if record_timestamp >= timestamp and offset >= start_offset:
                    return record_timestamp, offset
    return None


def latest(segments: Sequence[Segment], start_offset: int) -> Found | None:
    """The first record that has the largest timestamp of all; CorruptBatch, OSError."""
    candidates = [segment for segment in segments if segment.max_timestamp > NO_TIMESTAMP]
    if not candidates:
        return None
    segment = max(candidates, key=lambda each: each.max_timestamp)
    found = _first_in(segment, segment.max_timestamp, start_offset)
    if found is not None or segment.base_offset >= start_offset:
        return found
    # The first segment holds the largest, but below the log's start: what is left of it counts.
    left = (_largest_in(segment, start_offset), latest(segments[1:], start_offset))
    return max(filter(None, left), key=lambda each: (each[0], -each[1]), default=None)


def _largest_in(segment: Segment, start_offset: int) -> Found | None:
    largest: Found | None = None
    for position, header in segment.headers():
        if header.last_offset >= start_offset and header.max_timestamp > NO_TIMESTAMP:
            for timestamp, offset in _records(segment, position, header):
                if offset >= start_offset and (largest is None or timestamp > largest[0]):
                    largest = timestamp, offset
    return largest


def _records(segment: Segment, position: int, header: BatchHeader) -> Iterable[Found]:
    batch = segment.read_batch(position, header)
    return [(each.timestamp, each.offset) for each in read_records(batch, 0, header)]

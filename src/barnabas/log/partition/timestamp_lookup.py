"""Find records by timestamp (Kafka's `LogSegment.findOffsetByTimestamp`).

Batch headers show which batch it is. The record within the batch is found by a job that may be too
large for the loop (see `barnabas.log.record_work`).
"""

from collections.abc import Iterable, Sequence

from barnabas.log.file_cache import FileSlice
from barnabas.log.record_work import FindTime, Found, Outcomes, RecordWorkNeeded, run_in_loop
from barnabas.log.record_work.record_jobs import fits_loop
from barnabas.log.segment.log_segment import NO_TIMESTAMP, Segment
from barnabas.protocol.batches.batch_header import BatchHeader


def first_at_or_after(
    segments: Iterable[Segment], timestamp: int, start_offset: int, done: Outcomes | None = None
) -> Found | None:
    """Return the first record from `start_offset` on whose timestamp is not below `timestamp`.

    Raises CorruptBatch, KafkaError, OSError, and RecordWorkNeeded for a job whose outcome is not in
    `done`; with `done` None, jobs run here.
    """
    for segment in segments:
        if segment.max_timestamp >= timestamp:
            found = _first_in(segment, timestamp, start_offset, done)
            if found is not None:
                return found
    return None


def _first_in(
    segment: Segment, timestamp: int, start_offset: int, done: Outcomes | None
) -> Found | None:
    # An index entry says: no record up to this offset has a later timestamp. So the search starts
    # at the last entry with a timestamp strictly below the one to find.
    number = segment.time_index.search(timestamp - 1)
    base = segment.base_offset
    after = base if number < 0 else base + segment.time_index.entry(number)[1]
    begin = segment.find(max(after, start_offset))
    if begin is None:
        return None
    for position, header in segment.headers(begin[0]):
        if header.max_timestamp >= timestamp:
            found = _in_batch(segment, position, header, start_offset, timestamp, done)
            if found is not None:
                return found
    return None


def latest(
    segments: Sequence[Segment], start_offset: int, done: Outcomes | None = None
) -> Found | None:
    """Return the first record with the largest timestamp. Raises as `first_at_or_after`."""
    candidates = [segment for segment in segments if segment.max_timestamp > NO_TIMESTAMP]
    if not candidates:
        return None
    segment = max(candidates, key=lambda each: each.max_timestamp)
    found = _first_in(segment, segment.max_timestamp, start_offset, done)
    if found is not None or segment.base_offset >= start_offset:
        return found
    # The largest timestamp is below the log start: compare the records that remain.
    left = (_largest_in(segment, start_offset, done), latest(segments[1:], start_offset, done))
    return max(filter(None, left), key=lambda each: (each[0], -each[1]), default=None)


def _largest_in(segment: Segment, start_offset: int, done: Outcomes | None) -> Found | None:
    """Return the first record from `start_offset` on with the segment's largest timestamp.

    The batch that contains `start_offset` is searched record by record; headers decide for others.
    """
    largest: Found | None = None
    best: tuple[int, BatchHeader] | None = None
    for position, header in segment.headers():
        if header.last_offset < start_offset or header.max_timestamp <= NO_TIMESTAMP:
            continue
        if header.base_offset < start_offset:
            largest = _in_batch(segment, position, header, start_offset, None, done)
        elif best is None or header.max_timestamp > best[1].max_timestamp:
            best = position, header
    if best is None or (largest is not None and largest[0] >= best[1].max_timestamp):
        return largest
    return _in_batch(segment, *best, start_offset, None, done) or largest


def _in_batch(
    segment: Segment,
    position: int,
    header: BatchHeader,
    start_offset: int,
    timestamp: int | None,
    done: Outcomes | None,
) -> Found | None:
    job = FindTime(
        base_offset=header.base_offset,
        crc=header.crc,
        start_offset=start_offset,
        timestamp=timestamp,
    )
    if done is None:
        outcome = job.run(segment.read_batch(position, header))
    elif job in done:
        outcome = done[job]
    elif fits_loop(job, header):
        outcome = run_in_loop(job, segment.read_batch(position, header), header)
    else:
        raise RecordWorkNeeded(job, FileSlice(segment.opened(), position, header.size))
    return outcome if isinstance(outcome, tuple) else None

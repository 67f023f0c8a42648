"""Check a segment after a kill, batch by batch (Kafka's `LogSegment.recover`).

For each batch, the header is checked, the crc is computed, and the producer state is updated. It is
one loop over local variables, because it may process gigabytes. Reads and the crc of a large batch
release the GIL, so several logs are recovered in parallel threads.
"""

import os
from typing import NamedTuple

from barnabas.log.file_operations import READ_CHUNK
from barnabas.log.partition.producer_loading import Replay
from barnabas.log.segment import legacy_messages
from barnabas.log.segment.leader_epochs import EpochEntry
from barnabas.log.segment.log_segment import Segment
from barnabas.protocol.batches.batch_header import BatchHeader
from barnabas.protocol.batches.batch_layout import (
    CHECKED_AT,
    HEADER,
    HEADER_SIZE,
    LENGTH_MIN,
    LOG_OVERHEAD,
    MAGIC,
)
from barnabas.protocol.batches.crc import crc32c


class Recovered(NamedTuple):
    """The offset after the last valid batch, the bytes cut off, and the leader epochs found."""

    next_offset: int
    lost: int
    epochs: list[EpochEntry]


def recover(segment: Segment, offset: int, index_interval: int, replay: Replay) -> Recovered:
    """Check the batches from the one with `offset` on, and cut the file at the first damaged one.

    Valid index entries below `offset` are kept; later ones are rebuilt. `replay` receives all
    batches with a producer id. Raises CorruptBatch at a message of format 0 or 1, which is never
    cut, and OSError.
    """
    position = segment.keep_indexes(offset)
    replay.begin(segment)
    replay.walk_in(segment, position)
    next_offset, position, epochs = _check(segment, position, index_interval, replay)
    lost = segment.size - position
    if lost:
        file = segment.opened()
        legacy_messages.refuse_legacy(file.fd, position, segment.size)
        os.ftruncate(file.fd, position)
        segment.size = position
    return Recovered(next_offset, lost, epochs)


def _check(
    segment: Segment, position: int, index_interval: int, replay: Replay
) -> tuple[int, int, list[EpochEntry]]:
    """Return the offset and position after the last valid batch, and the leader epochs found.

    Memory does not grow with the sizes that headers declare.
    """
    file = segment.opened()  # keep a reference: the cache may close it meanwhile
    fd, end, next_offset = file.fd, segment.size, segment.base_offset
    epochs: list[EpochEntry] = []
    last_epoch: int | None = None
    replay_start = replay.start
    buffer = bytearray(READ_CHUNK)
    view, unpack = memoryview(buffer), HEADER.unpack_from
    start = filled = 0  # the position in the file and the number of bytes in the buffer
    since_index = segment.bytes_since_index
    largest = segment.max_timestamp
    while end - position >= HEADER_SIZE:
        at = position - start
        if at + HEADER_SIZE > filled:
            filled, start, at = os.preadv(fd, [buffer], position), position, 0
            if filled < HEADER_SIZE:
                break
        fields = unpack(buffer, at)
        base, length, epoch, magic, crc, _, delta, _, timestamp, producer_id, _, _, count = fields
        size = length + LOG_OVERHEAD
        if (
            magic != MAGIC
            or length < LENGTH_MIN
            or size > end - position
            or base < next_offset
            or delta < 0
        ):
            break
        if at + size > filled and size <= READ_CHUNK:
            filled, start, at = os.preadv(fd, [buffer], position), position, 0
        if at + size <= filled:
            found = crc32c(view[at + CHECKED_AT : at + size])
        else:
            found = _crc_in_file(fd, view, position + CHECKED_AT, position + size)
            filled = 0
        if found != crc:
            break
        if not position:
            segment.first_timestamp = timestamp
        # A batch emptied by compaction has a timestamp, but no record that a lookup could return.
        if timestamp > largest and count:
            largest = timestamp
            segment.note_timestamp(timestamp, base + delta)
        if since_index > index_interval:
            segment.add_index_entries(base + delta, position)
            since_index = 0
        since_index += size
        if producer_id >= 0 and base >= replay_start:
            replay.take(segment, position, BatchHeader._make(fields))
        if epoch != last_epoch:
            epochs.append(EpochEntry(epoch, base))
            last_epoch = epoch
        next_offset = base + delta + 1
        position += size
    segment.bytes_since_index = since_index
    return next_offset, position, epochs


def _crc_in_file(fd: int, view: memoryview, position: int, end: int) -> int:
    """Return the crc of a batch that is larger than the buffer `view`."""
    crc = 0
    while position < end:
        got = os.preadv(fd, [view[: end - position]], position)
        if not got:
            break
        crc = crc32c(view[:got], crc)
        position += got
    return crc

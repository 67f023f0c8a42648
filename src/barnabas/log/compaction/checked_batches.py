"""Read the batches that compaction copies, with all checks that a copy needs."""

from collections.abc import Iterator

from barnabas.log.file_operations import read_at
from barnabas.log.segment.log_segment import Segment
from barnabas.protocol.batches.batch_header import (
    BatchHeader,
    CorruptBatch,
    crc_matches,
    read_header,
)
from barnabas.protocol.batches.batch_layout import HEADER_SIZE, MAGIC


def checked_batches(segment: Segment, chunk_bytes: int) -> Iterator[tuple[bytes, BatchHeader]]:
    """Yield every batch of a complete segment; `chunk_bytes` (or one batch) are read at a time.

    Raises CorruptBatch for anything that is not a valid batch: compaction writes a new crc, and
    would lose bytes that it does not understand. Raises OSError.
    """
    file = segment.opened()
    block, at, position = b"", 0, 0
    while position < segment.size:
        if len(block) - at < HEADER_SIZE:
            block = read_at(file.fd, min(chunk_bytes, segment.size - position), position)
            at = 0
        if len(block) - at < HEADER_SIZE:
            raise CorruptBatch(f"{segment.path} ends inside a batch at position {position}")
        header = read_header(block, at)
        size = header.size
        if header.magic != MAGIC or size > segment.size - position:
            raise CorruptBatch(f"{segment.path} has no valid batch at position {position}")
        if len(block) - at < size:
            wanted = min(max(chunk_bytes, size), segment.size - position)
            block, at = read_at(file.fd, wanted, position), 0
        if not crc_matches(block, at, header):
            raise CorruptBatch(f"{segment.path} has a wrong crc in the batch at {position}")
        yield block[at : at + size], header
        at += size
        position += size

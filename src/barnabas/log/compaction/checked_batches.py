"""Reading the batches that compaction copies, with every check that a copy needs."""

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
    """Every batch of a segment that is complete, read `chunk_bytes` at a time, or a batch.

    Raises CorruptBatch when it holds anything else: what compaction copies gets a new crc, and
    what it does not understand would be lost. OSError.
    """
    file = segment.opened()
    block, at, position = b"", 0, 0
    while position < segment.size:
        if len(block) - at < HEADER_SIZE:
            block = read_at(file.fd, min(chunk_bytes, segment.size - position), position)
            at = 0
        if len(block) - at < HEADER_SIZE:
            raise CorruptBatch(f"{segment.path} ends inside a batch at {position}")
        header = read_header(block, at)
        size = header.size
        if header.magic != MAGIC or size > segment.size - position:
            raise CorruptBatch(f"{segment.path} has no batch at {position}")
        if len(block) - at < size:
            wanted = min(max(chunk_bytes, size), segment.size - position)
            block, at = read_at(file.fd, wanted, position), 0
        if not crc_matches(block, at, header):
            raise CorruptBatch(f"{segment.path} has a batch with a wrong crc at {position}")
        yield block[at : at + size], header
        at += size
        position += size

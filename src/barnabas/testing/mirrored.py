"""Batches of a source's log as a flow sends them to a mirror, for tests."""

from collections.abc import Iterable

from barnabas.protocol.batches.batch_header import assign_offset, iter_batches, read_header
from barnabas.protocol.batches.batch_layout import CHECKED_AT, HEADER, HEADER_SIZE, LOG_OVERHEAD
from barnabas.protocol.batches.crc import crc32c


def split(data: bytes) -> list[bytes]:
    """Return the batches in what a Fetch returned."""
    return [data[at : at + header.size] for at, header in iter_batches(data)]


def placed(batch: bytes | bytearray, base_offset: int) -> bytes:
    """Return a producer's batch as a source has it at an offset."""
    data = bytearray(batch)
    assign_offset(data, 0, base_offset, 0)
    return bytes(data)


def as_sent(batches: Iterable[bytes], position: int) -> bytearray:
    """Return the records of a Produce with these batches, read from `position` on."""
    data = bytearray()
    for each in batches:
        header = read_header(each)
        sent = bytearray(each)
        skipped = max(header.base_offset - position, 0)
        assign_offset(sent, 0, header.base_offset, skipped)
        position = header.next_offset
        data += sent
    return data


def without_epochs(batches: Iterable[bytes]) -> list[bytes]:
    """Return the batches with leader epoch 0, so that source and mirror are compared."""
    return [placed(each, read_header(each).base_offset) for each in batches]


def emptied(batch: bytes) -> bytes:
    """Return a batch as compaction leaves it when all its records are gone: its header."""
    header = read_header(batch)
    data = bytearray(batch[:HEADER_SIZE])
    emptied = header._replace(batch_length=HEADER_SIZE - LOG_OVERHEAD, record_count=0)
    HEADER.pack_into(data, 0, *emptied)
    HEADER.pack_into(data, 0, *emptied._replace(crc=crc32c(memoryview(data)[CHECKED_AT:])))
    return bytes(data)

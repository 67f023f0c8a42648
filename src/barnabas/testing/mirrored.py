"""Batches of a source's log as a flow sends them to a mirror, for tests."""

from collections.abc import Iterable

from barnabas.protocol.batches.batch_header import assign_offset, iter_batches, read_header


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

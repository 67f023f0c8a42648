"""From the bytes of a Fetch response to the records that a consumer may see.

A fetch returns whole batches, which may begin before the requested offset; control batches and
aborted transactions occupy offsets without being records.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from barnabas.protocol.batches.batch_header import (
    BatchHeader,
    CorruptBatch,
    crc_matches,
    iter_batches,
)
from barnabas.protocol.batches.batch_layout import MAGIC
from barnabas.protocol.batches.record_decoding import Record, read_records

_ABORT: Final = 0
_CONTROL_KEY_SIZE: Final = 4


class Aborted(NamedTuple):
    """An aborted transaction: all data of the producer from an offset up to its abort marker."""

    first_offset: int
    producer_id: int


class Fetched(NamedTuple):
    """The visible records of one response, and the offset to fetch from next."""

    records: list[Record]
    next_offset: int


def visible_records(data: bytes, offset: int, aborted: Sequence[Aborted] | None) -> Fetched:
    """Return the records from `offset` on; without `aborted`, uncommitted ones are included.

    A batch that is cut off at the end of `data` is left for the next fetch. Raises CorruptBatch
    for damaged batches and for a response that holds no whole batch.
    """
    records: list[Record] = []
    next_offset = offset
    filtering = AbortedFilter(aborted or ()) if aborted is not None else None
    found = False
    for pos, header in iter_batches(data):
        found = True
        _check(data, pos, header)
        if header.next_offset <= offset:
            continue
        next_offset = header.next_offset
        if filtering is not None and filtering.hides(data, pos, header):
            continue
        if not header.is_control:
            batch = read_records(data, pos, header)
            records += batch if header.base_offset >= offset else _since(batch, offset)
    if data and not found:
        raise CorruptBatch(f"{len(data)} bytes contain no whole batch")
    return Fetched(records, next_offset)


def _check(data: bytes, pos: int, header: BatchHeader) -> None:
    if header.magic != MAGIC:
        raise CorruptBatch(f"message format {header.magic} is not supported")
    if not crc_matches(data, pos, header):
        raise CorruptBatch(f"the batch at offset {header.base_offset} fails its crc")


def _since(records: list[Record], offset: int) -> list[Record]:
    return [record for record in records if record.offset >= offset]


class AbortedFilter:
    """Follows which producers' transactions are aborted, batch after batch."""

    def __init__(self, aborted: Sequence[Aborted]) -> None:
        """Begin at the first batch of a response, with its list."""
        self._left = sorted(aborted, reverse=True)
        self._active: set[int] = set()

    def hides(self, data: bytes, pos: int, header: BatchHeader) -> bool:
        """True for a batch that belongs to an aborted transaction. Call it for every batch."""
        while self._left and self._left[-1].first_offset <= header.last_offset:
            self._active.add(self._left.pop().producer_id)
        if header.is_control:
            if _is_abort_marker(read_records(data, pos, header)):
                self._active.discard(header.producer_id)
            return False
        return header.is_transactional and header.producer_id in self._active


def _is_abort_marker(records: Sequence[Record]) -> bool:
    key = records[0].key if records else None
    return (
        key is not None
        and len(key) >= _CONTROL_KEY_SIZE
        and int.from_bytes(key[2:4], "big") == _ABORT
    )

"""From the bytes of a Fetch response to the batches to produce: the copy of one range, sans-I/O.

A copy takes whole batches. It checks the crc of each before it changes a byte, and stops at the end
of its range, which it never crosses: the caller ends ranges where batches end.

With identical offsets every batch goes as it is, control batches and those of aborted transactions
included (`IdenticalCopy`). Otherwise both are left out, and a batch gets the identity of the flow's
transactional producer in its header (`TransactionalCopy`). Its records are decoded only where the
header alone cannot make a batch that a leader accepts from a producer: after compaction has removed
records, when the batch begins before the range, and when its timestamps are those of the source's
leader.
"""

import abc
import itertools
from collections.abc import Sequence
from typing import Final

import attrs

from barnabas.client.core.fetched_records import Aborted, AbortedFilter
from barnabas.pipeline.mirror.flow_values import NO_EPOCH
from barnabas.protocol.batches.batch_building import build_batch
from barnabas.protocol.batches.batch_header import (
    BatchHeader,
    CorruptBatch,
    assign_offset,
    crc_matches,
    iter_batches,
)
from barnabas.protocol.batches.batch_layout import (
    ATTRIBUTES_LOW_AT,
    CHECKED_AT,
    CRC,
    CRC_AT,
    LEADER_EPOCH_AT,
    LENGTH,
    MAGIC,
    PRODUCER,
    PRODUCER_AT,
    TRANSACTIONAL,
)
from barnabas.protocol.batches.crc import crc32c
from barnabas.protocol.batches.record_decoding import Record, read_records

_SEQUENCE_COUNT: Final = 1 << 31


@attrs.frozen
class ProducerIdentity:
    """Producer id and epoch of an open transaction."""

    producer_id: int
    epoch: int


@attrs.frozen
class CopiedData:
    """The records of one Produce request: one batch, or several for a mirror topic."""

    data: bytes | bytearray = attrs.field(repr=False)
    batches: int
    records: int
    max_timestamp: int
    """The largest timestamp of the last batch, in ms since 1970."""
    start: int = 0
    """The source's offset after the batch before."""
    leader_epoch: int = NO_EPOCH
    """The source's leader epoch of all the batches."""
    first: int = 0
    """The source's offset of the first record; 0 where the target keeps the offsets."""
    last: int = 0
    """The source's offset of the last record; 0 where the target keeps the offsets."""


class RangeCopy(abc.ABC):
    """The copy of the offsets of one partition from `position` to `until`."""

    def __init__(self, position: int, until: int, leader_epoch: int = NO_EPOCH) -> None:
        self.position = position
        """The offset to fetch next; all before it was returned or left out."""
        self.leader_epoch = leader_epoch
        """The source's leader epoch of the batch that ends at the position.

        It is unknown after a gap that compaction has left: leaders may have changed in it.
        """
        self.until = until
        self._is_stopped = False

    @property
    def is_done(self) -> bool:
        """True when no batch of the range is left."""
        return self._is_stopped or self.position >= self.until

    def take(self, data: bytes, aborted: Sequence[Aborted]) -> list[CopiedData]:
        """Return what to produce of a response to a fetch from `position`, in order.

        A batch that the response cuts off is left for the next fetch. Raises CorruptBatch for
        damaged batches and for a response that holds no whole batch.
        """
        found: list[CopiedData] = []
        filtering = AbortedFilter(aborted)
        has_batch = False
        for pos, header in iter_batches(data):
            has_batch = True
            _check(data, pos, header)
            is_hidden = filtering.hides(data, pos, header)
            if header.next_offset <= self.position:
                continue
            if header.next_offset > self.until:
                self._stop_at(header)
                break
            copied = self._copied(data, pos, header, is_hidden=is_hidden)
            self.position = header.next_offset
            self.leader_epoch = max(NO_EPOCH, header.partition_leader_epoch)
            if copied is not None:
                found.append(copied)
        if data and not has_batch:
            raise CorruptBatch(f"{len(data)} bytes contain no whole batch")
        return found

    def no_data_before(self, offset: int) -> None:
        """Note that the source has no batch between the position and an offset."""
        end = min(self.until, offset)
        if end > self.position:
            self.position, self.leader_epoch = end, NO_EPOCH

    def _stop_at(self, header: BatchHeader) -> None:
        """End before a batch that the range does not hold whole."""
        self._is_stopped = True
        self.no_data_before(header.base_offset)

    @abc.abstractmethod
    def _copied(
        self, data: bytes, pos: int, header: BatchHeader, *, is_hidden: bool
    ) -> CopiedData | None:
        """Return a batch to produce; None for one that is left out.

        `is_hidden` is True for data of an aborted transaction.
        """


class IdenticalCopy(RangeCopy):
    """Batches as they are, which a mirror topic appends at their offsets.

    The field of the leader's epoch, which the crc does not cover, holds the number of offsets
    that the source skips before the batch: so the target knows a gap of the source from a lost
    request.
    """

    def take(self, data: bytes, aborted: Sequence[Aborted]) -> list[CopiedData]:
        """Return the batches of each leader epoch in one piece: a mirror topic takes several."""
        found = itertools.groupby(super().take(data, aborted), lambda each: each.leader_epoch)
        return [_joined(list(batches)) for _, batches in found]

    def _copied(
        self, data: bytes, pos: int, header: BatchHeader, *, is_hidden: bool
    ) -> CopiedData | None:
        del is_hidden
        copy = bytearray(memoryview(data)[pos : pos + header.size])
        skipped = max(0, header.base_offset - self.position)
        LENGTH.pack_into(copy, LEADER_EPOCH_AT, skipped)
        epoch = max(NO_EPOCH, header.partition_leader_epoch)
        records, newest = header.record_count, header.max_timestamp
        return CopiedData(copy, 1, records, newest, self.position, epoch)


class TransactionalCopy(RangeCopy):
    """Batches of a transactional producer, without control batches and aborted data."""

    def __init__(
        self, position: int, until: int, identity: ProducerIdentity, leader_epoch: int = NO_EPOCH
    ) -> None:
        super().__init__(position, until, leader_epoch)
        self._identity = identity
        self._sequence = 0

    def write_as(self, identity: ProducerIdentity) -> None:
        """Use another identity from the next batch on; its sequences begin at 0."""
        if identity != self._identity:
            self._identity = identity
            self._sequence = 0

    def _copied(
        self, data: bytes, pos: int, header: BatchHeader, *, is_hidden: bool
    ) -> CopiedData | None:
        if is_hidden or header.is_control or not header.record_count:
            return None
        if self._needs_records(header):
            return self._rebuilt(data, pos, header)
        copy = bytearray(memoryview(data)[pos : pos + header.size])
        assign_offset(copy, 0, 0, NO_EPOCH)
        copy[ATTRIBUTES_LOW_AT] |= TRANSACTIONAL
        sequence = self._next_sequence(header.record_count)
        identity = self._identity
        PRODUCER.pack_into(copy, PRODUCER_AT, identity.producer_id, identity.epoch, sequence)
        with memoryview(copy) as view:
            CRC.pack_into(copy, CRC_AT, crc32c(view[CHECKED_AT:]))
        return self._data(copy, header, header.base_offset, header.next_offset - 1)

    def _needs_records(self, header: BatchHeader) -> bool:
        """True for a batch that a leader refuses from a producer, or that it would change."""
        return (
            header.record_count != header.last_offset_delta + 1
            or header.base_offset < self.position
            or header.is_log_append_time
            or header.has_delete_horizon
        )

    def _rebuilt(self, data: bytes, pos: int, header: BatchHeader) -> CopiedData | None:
        """Return a batch of the records from the position on, with offsets without gaps."""
        kept = [each for each in read_records(data, pos, header) if each.offset >= self.position]
        if not kept:
            return None
        batch = build_batch(
            [_moved(record, offset) for offset, record in enumerate(kept)],
            codec=header.codec,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.epoch,
            base_sequence=self._next_sequence(len(kept)),
            is_transactional=True,
        )
        return self._data(batch, header, kept[0].offset, kept[-1].offset, len(kept))

    def _data(
        self,
        data: bytes | bytearray,
        header: BatchHeader,
        first: int,
        last: int,
        count: int | None = None,
    ) -> CopiedData:
        records = header.record_count if count is None else count
        newest = header.max_timestamp
        return CopiedData(data, 1, records, newest, first=first, last=last)

    def _next_sequence(self, count: int) -> int:
        """Return the sequence of a batch's first record, and continue behind the batch."""
        sequence = self._sequence
        self._sequence = (sequence + count) % _SEQUENCE_COUNT
        return sequence


def _check(data: bytes, pos: int, header: BatchHeader) -> None:
    if header.magic != MAGIC:
        raise CorruptBatch(f"message format {header.magic} is not supported")
    if not crc_matches(data, pos, header):
        raise CorruptBatch(f"the batch at offset {header.base_offset} fails its crc")


def _joined(batches: Sequence[CopiedData]) -> CopiedData:
    if len(batches) == 1:
        return batches[0]
    joined = b"".join(each.data for each in batches)
    records = sum(each.records for each in batches)
    first, last = batches[0], batches[-1]
    newest = last.max_timestamp
    return CopiedData(joined, len(batches), records, newest, first.start, first.leader_epoch)


def _moved(record: Record, offset: int) -> Record:
    return Record(offset, record.timestamp, record.key, record.value, record.headers)

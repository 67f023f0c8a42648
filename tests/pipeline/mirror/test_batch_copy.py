"""Copies of a simulated log: aborted transactions, markers, gaps and compaction."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.client.core.fetched_records import Aborted
from barnabas.pipeline.mirror.batch_copy import (
    CopiedData,
    IdenticalCopy,
    ProducerIdentity,
    TransactionalCopy,
)
from barnabas.protocol.batches.batch_building import build_batch
from barnabas.protocol.batches.batch_header import (
    BatchHeader,
    CorruptBatch,
    assign_offset,
    crc_matches,
    iter_batches,
)
from barnabas.protocol.batches.batch_rewriting import with_records, without_records
from barnabas.protocol.batches.compression import Codec
from barnabas.protocol.batches.control_batches import TransactionMarker, marker_batch
from barnabas.protocol.batches.record_decoding import Record, read_records, unpack_records
from barnabas.protocol.batches.record_walk import locate_records

IDENTITY = ProducerIdentity(77, 3)
PRODUCERS = (None, 1, 2)


class SimulatedLog:
    """A partition with the batches of three producers, and what of it is committed."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.end = 0
        self.written: list[tuple[int | None, int, Record]] = []
        """Producer, first offset of its transaction and record."""
        self.first: dict[int, int] = {}
        """The first offsets of open transactions by producer."""
        self.ended: list[tuple[Aborted, int]] = []
        """Aborted transactions, and the offsets of their markers."""

    def write(self, producer: int | None, count: int, codec: Codec, *, append_time: bool) -> None:
        records = [
            Record(
                self.end + number, 1_000 + self.end + number, b"k%d" % number, b"v", (("h", b"x"),)
            )
            for number in range(count)
        ]
        first = self.end
        if producer is not None:
            first = self.first.setdefault(producer, self.end)
        batch = build_batch(
            records,
            base_offset=self.end,
            leader_epoch=5,
            codec=codec,
            producer_id=-1 if producer is None else producer,
            producer_epoch=-1 if producer is None else 0,
            base_sequence=-1 if producer is None else 0,
            is_transactional=producer is not None,
            log_append_time=append_time,
        )
        times = {record.offset: record for record in read_records(batch, 0, header_of(batch))}
        self.written += [(producer, first, times[record.offset]) for record in records]
        self._append(batch, count)

    def end_transaction(self, producer: int, *, is_commit: bool) -> None:
        first = self.first.pop(producer, None)
        if first is None:
            return
        if not is_commit:
            self.ended.append((Aborted(first, producer), self.end))
            self.written = [
                each for each in self.written if each[0] != producer or each[1] != first
            ]
        batch = marker_batch(TransactionMarker(is_commit, 0), producer, 0, 1_000)
        assign_offset(batch, 0, self.end, 5)
        self._append(batch, 1)

    def _append(self, batch: bytes | bytearray, count: int) -> None:
        self.batches.append(bytes(batch))
        self.end += count

    @property
    def stable_end(self) -> int:
        return min(self.first.values(), default=self.end)

    @property
    def committed(self) -> list[Record]:
        return [record for _, _, record in self.written if record.offset < self.stable_end]

    def compact(self, keep: set[int], horizon_ms: int | None) -> None:
        """Remove the records of data batches whose offsets are not kept, as a cleaner does."""
        found: list[bytes] = []
        for batch in self.batches:
            header = header_of(batch)
            data = unpack_records(batch, 0, header)
            kept = [each for each in locate_records(data, header) if each.offset in keep]
            is_whole = len(kept) == header.record_count
            if header.is_control or (is_whole and (horizon_ms is None or not kept)):
                found.append(batch)
            elif kept:
                found.append(with_records(batch, header, data, kept, horizon_ms))
            elif header.has_producer_id:
                found.append(without_records(header))
        self.batches = found
        self.written = [each for each in self.written if each[2].offset in keep]

    def aborted(self, offset: int) -> list[Aborted]:
        """Return the aborted transactions that a fetch from an offset may have data of."""
        return [each for each, marker in self.ended if marker >= offset]

    def fetch(self, offset: int, end: int, count: int) -> bytes:
        """Return up to `count` whole batches, and a part of the next, from an offset on."""
        later = [each for each in self.batches if offset < header_of(each).next_offset]
        later = [each for each in later if header_of(each).base_offset < end]
        return b"".join(later[:count]) + b"".join(later[count : count + 1])[:70]


def header_of(batch: bytes | bytearray) -> BatchHeader:
    return next(iter_batches(batch))[1]


class SimulatedLeader:
    """Appends what a leader accepts from a transactional producer; checks what it checks."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.sequence = 0

    def produce(self, copied: CopiedData) -> None:
        [(_, header)] = list(iter_batches(copied.data))
        assert len(copied.data) == header.size
        assert crc_matches(copied.data, 0, header)
        assert (header.producer_id, header.producer_epoch) == (77, 3)
        assert header.base_sequence == self.sequence
        assert (header.base_offset, header.partition_leader_epoch) == (0, -1)
        assert header.is_transactional
        assert not header.is_control
        assert not header.is_log_append_time
        assert not header.has_delete_horizon
        records = read_records(copied.data, 0, header)
        assert [each.offset for each in records] == list(range(header.last_offset_delta + 1))
        assert copied.records == header.record_count == len(records)
        self.sequence += len(records)
        self.records += records


class SimulatedMirror:
    """Appends what a mirror topic accepts; it refuses what is behind a hole."""

    def __init__(self, end: int = 0) -> None:
        self.end = end
        self.batches: list[bytes] = []

    def produce(self, copied: CopiedData) -> None:
        sizes = 0
        for pos, header in iter_batches(copied.data):
            sizes += header.size
            skipped = header.partition_leader_epoch
            assert header.base_offset - skipped <= self.end <= header.base_offset
            batch = bytearray(copied.data[pos : pos + header.size])
            batch[12:16] = (5).to_bytes(4, "big")
            self.batches.append(bytes(batch))
            self.end = header.next_offset
        assert sizes == len(copied.data)


WRITE = st.tuples(
    st.just("write"),
    st.sampled_from(PRODUCERS),
    st.integers(1, 4),
    st.sampled_from([Codec.NONE, Codec.LZ4, Codec.GZIP]),
    st.booleans(),
)
END = st.tuples(st.just("end"), st.sampled_from(PRODUCERS[1:]), st.booleans())


@st.composite
def logs(draw: st.DrawFn) -> SimulatedLog:
    log = SimulatedLog()
    for step in draw(st.lists(st.one_of(WRITE, WRITE, END), max_size=25)):
        if step[0] == "write":
            log.write(step[1], step[2], step[3], append_time=step[4])
        else:
            log.end_transaction(step[1], is_commit=step[2])
    if draw(st.booleans()):
        removed = draw(st.sets(st.integers(0, max(0, log.end - 1))))
        log.compact(set(range(log.end)) - removed, draw(st.sampled_from([None, 9_000])))
    return log


def content(records: list[Record]) -> list[tuple[object, ...]]:
    return [(each.timestamp, each.key, each.value, each.headers) for each in records]


@given(log=logs(), cuts=st.lists(st.integers(1, 4), min_size=1), stops=st.sets(st.integers(0, 60)))
@settings(max_examples=200)
def test_transactional_copies_hold_the_committed_records_once(log, cuts, stops) -> None:
    leader, position, number = SimulatedLeader(), 0, 0
    for until in (*sorted(each for each in stops if each < log.stable_end), log.stable_end):
        copy = TransactionalCopy(position, until, IDENTITY)
        leader.sequence = 0
        while not copy.is_done:
            before = copy.position
            data = log.fetch(copy.position, log.stable_end, cuts[number % len(cuts)])
            number += 1
            aborted = log.aborted(copy.position)
            for copied in copy.take(data, aborted) if data else ():
                leader.produce(copied)
            if not data:
                copy.no_data_before(log.stable_end)
            assert copy.position <= until
            assert copy.is_done or copy.position > before
        position = copy.position
    assert position == log.stable_end
    assert content(leader.records) == content(log.committed)


@given(log=logs(), cuts=st.lists(st.integers(1, 4), min_size=1), stops=st.sets(st.integers(0, 60)))
@settings(max_examples=200)
def test_identical_copies_are_the_source_byte_for_byte(log, cuts, stops) -> None:
    mirror, position, number = SimulatedMirror(), 0, 0
    for until in (*sorted(each for each in stops if each < log.end), log.end):
        copy = IdenticalCopy(position, until)
        while not copy.is_done:
            data = log.fetch(copy.position, log.end, cuts[number % len(cuts)])
            number += 1
            for copied in copy.take(data, []) if data else ():
                mirror.produce(copied)
            if not data:
                copy.no_data_before(log.end)
            assert copy.position <= until
        # The next copy begins where the log of the mirror ends.
        position = mirror.end
    assert mirror.batches == log.batches


def test_the_batches_of_a_leader_epoch_are_sent_together() -> None:
    """The epoch is unknown after a gap, in which leaders may have changed."""
    log, data = SimulatedLog(), bytearray()
    for number, epoch in enumerate((5, 5, 7, 7)):
        log.write(None, 2, Codec.NONE, append_time=False)
        batch = bytearray(log.batches[-1])
        assign_offset(batch, 0, 2 * number, epoch)
        data += batch
    copy = IdenticalCopy(0, 12, 5)
    found = [(each.start, each.leader_epoch, each.batches) for each in copy.take(bytes(data), [])]
    assert found == [(0, 5, 2), (4, 7, 2)]
    assert (copy.position, copy.leader_epoch) == (8, 7)
    copy.no_data_before(8)
    assert (copy.position, copy.leader_epoch) == (8, 7)
    copy.no_data_before(20)
    assert (copy.position, copy.leader_epoch) == (12, -1)


def test_a_batch_that_begins_before_the_range_is_copied_from_its_position_on() -> None:
    log = SimulatedLog()
    log.write(None, 4, Codec.LZ4, append_time=False)
    leader, copy = SimulatedLeader(), TransactionalCopy(2, 4, IDENTITY)
    [copied] = copy.take(log.batches[0], [])
    leader.produce(copied)
    assert content(leader.records) == content([each for _, _, each in log.written[2:]])


def test_a_damaged_batch_is_refused_before_it_is_changed() -> None:
    log = SimulatedLog()
    log.write(None, 2, Codec.NONE, append_time=False)
    damaged = bytearray(log.batches[0])
    damaged[-1] ^= 1
    for copy in (TransactionalCopy(0, 2, IDENTITY), IdenticalCopy(0, 2)):
        with pytest.raises(CorruptBatch, match="offset 0 fails its crc"):
            copy.take(bytes(damaged), [])
        assert copy.position == 0


def test_a_response_without_a_whole_batch_is_refused() -> None:
    log = SimulatedLog()
    log.write(None, 2, Codec.NONE, append_time=False)
    with pytest.raises(CorruptBatch, match="no whole batch"):
        IdenticalCopy(0, 2).take(log.batches[0][:-1], [])

"""The records that a consumer sees, against a plain model of transactions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.client.core.fetched_records import Aborted, visible_records
from barnabas.protocol.batches.batch_building import build_batch
from barnabas.protocol.batches.batch_header import CorruptBatch
from barnabas.protocol.batches.record_decoding import Record

MARKER_KEYS = {"abort": b"\0\0\0\0", "commit": b"\0\0\0\1"}


class Log:
    """A partition with transactions of three producers, and what of it is committed."""

    def __init__(self) -> None:
        self.data = b""
        self.end = 0
        self.batches: list[tuple[int, list[Record]]] = []
        self.open: dict[int, tuple[int, list[Record]]] = {}
        self.ended: list[tuple[Aborted, int]] = []
        """Aborted transactions and the offsets of their markers."""
        self.hidden: set[int] = set()

    def write(self, producer: int | None, count: int) -> None:
        records = [
            Record(self.end + i, 1000 + self.end + i, b"k", b"%d" % (self.end + i))
            for i in range(count)
        ]
        options = {}
        if producer is not None:
            options = {"producer_id": producer, "producer_epoch": 0, "base_sequence": 0}
            _, written = self.open.setdefault(producer, (self.end, []))
            written += records
        self._append(records, is_transactional=producer is not None, **options)
        self.batches.append((self.end, records))

    def finish(self, producer: int, outcome: str) -> None:
        if producer not in self.open:
            return
        first, written = self.open.pop(producer)
        if outcome == "abort":
            self.ended.append((Aborted(first, producer), self.end))
            self.hidden.update(record.offset for record in written)
        marker = Record(self.end, 1000, MARKER_KEYS[outcome], b"\0\0\0\0\0\0")
        options = {"producer_id": producer, "producer_epoch": 0, "is_control": True}
        self._append([marker], is_transactional=True, **options)

    def _append(self, records: list[Record], **options: object) -> None:
        self.data += build_batch(records, base_offset=self.end, **options)
        self.end += len(records)

    def aborted_since(self, offset: int) -> list[Aborted]:
        """Return what a broker lists: the transactions that overlap the fetched range."""
        return [aborted for aborted, end in self.ended if end >= offset]

    @property
    def visible(self) -> list[Record]:
        return [
            record
            for _, records in self.batches
            for record in records
            if record.offset not in self.hidden
        ]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.sampled_from([None, 1, 2, 3]), st.integers(1, 3)),
        st.tuples(st.sampled_from(["commit", "abort"]), st.sampled_from([1, 2, 3]), st.just(0)),
    ),
    max_size=20,
)


def built(steps: list[tuple[str, int | None, int]]) -> Log:
    log = Log()
    for what, producer, count in steps:
        if what == "write":
            log.write(producer, count)
        elif producer is not None:
            log.finish(producer, what)
    for producer in list(log.open):
        log.finish(producer, "commit")
    return log


@given(STEPS, st.integers(0, 20))
def test_visible_records_read_committed_hide_aborted_and_control(
    steps: list[tuple[str, int | None, int]], start: int
) -> None:
    log = built(steps)
    start = min(start, log.end)
    found = visible_records(log.data, start, log.aborted_since(start))
    assert found.records == [record for record in log.visible if record.offset >= start]
    assert found.next_offset == log.end


@given(STEPS)
def test_visible_records_read_uncommitted_hide_control_only(
    steps: list[tuple[str, int | None, int]],
) -> None:
    log = built(steps)
    everything = [record for _, records in log.batches for record in records]
    assert visible_records(log.data, 0, None) == (everything, log.end)


def test_visible_records_torn_tail_is_left_for_the_next_fetch() -> None:
    log = Log()
    log.write(None, 2)
    whole = len(log.data)
    log.write(None, 2)
    found = visible_records(log.data[: whole + 30], 0, None)
    assert ([record.offset for record in found.records], found.next_offset) == ([0, 1], 2)


@pytest.mark.parametrize("position", [0, 16, 30, 62])
def test_visible_records_damaged_batch_raises(position: int) -> None:
    log = Log()
    log.write(None, 2)
    damaged = bytearray(log.data)
    damaged[position if position else 8] ^= 0x40
    with pytest.raises(CorruptBatch):
        visible_records(bytes(damaged), 0, None)


def test_visible_records_only_part_of_a_batch_raises() -> None:
    log = Log()
    log.write(None, 2)
    with pytest.raises(CorruptBatch):
        visible_records(log.data[:-1], 0, None)

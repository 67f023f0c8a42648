"""`ProducerState`: idempotent and transactional producers of a partition."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.log import LogConfig, PartitionLog
from barnabas.log.segment.producer_state import ProducerState, SnapshotError
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.testing.batches import NOW_MS, batch
from tests.log.logs import append, append_marker, new_log, open_volume, reopen

SMALL = LogConfig(segment_bytes=500, index_interval_bytes=100)
SEQUENCE_MAX = 2**31 - 1


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    log = new_log(open_volume(tmp_path / "data"), SMALL)
    yield log
    log.volume.unlock()


def send(log: PartitionLog, sequence: int, count: int = 1, *, pid: int = 7, epoch: int = 0):
    values = [b"%d" % (sequence + number) for number in range(count)]
    data = batch(*values, producer=(pid, epoch, sequence))
    return log.append_as_leader(data, leader_epoch=0, now_ms=NOW_MS)


def refusal(log: PartitionLog, sequence: int, **settings: int) -> ErrorCode:
    with pytest.raises(KafkaError) as raised:
        send(log, sequence, **settings)
    return raised.value.code


def test_duplicates_of_the_last_five_batches_are_found(log) -> None:
    offsets = [send(log, number * 2, 2).first_offset for number in range(6)]
    end = log.log_end_offset
    for number in range(1, 6):
        again = send(log, number * 2, 2)
        assert (again.first_offset, again.duplicate) == (offsets[number], True)
    assert refusal(log, 0, count=2) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.log_end_offset == end


@pytest.mark.parametrize("recover", [False, True], ids=["stopped", "killed"])
def test_duplicates_of_the_last_five_batches_are_found_after_a_restart(log, recover) -> None:
    offsets = [send(log, number * 2, 2).first_offset for number in range(6)]
    if not recover:
        log.close()
    log = reopen(log, recover=recover)
    for number in range(1, 6):
        again = send(log, number * 2, 2)
        assert (again.first_offset, again.duplicate) == (offsets[number], True)
    assert refusal(log, 0, count=2) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert not send(log, 12).duplicate


def test_sequence_gap_or_other_length_is_out_of_order(log) -> None:
    send(log, 0, 3)
    assert refusal(log, 4) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refusal(log, 0, count=2) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refusal(log, 2, count=2) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_unknown_producer_may_start_with_any_sequence(log) -> None:
    assert send(log, 100).first_offset == 0
    assert send(log, 101).first_offset == 1


def test_new_epoch_starts_at_zero_and_fences_the_old_one(log) -> None:
    send(log, 0, 5)
    assert refusal(log, 5, epoch=1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert not send(log, 0, epoch=1).duplicate
    assert refusal(log, 5, epoch=0) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert send(log, 0, epoch=1).duplicate


def test_sequence_after_the_largest_is_zero(log) -> None:
    send(log, SEQUENCE_MAX - 1, 2)
    first = send(log, 0).first_offset
    assert send(log, 0).first_offset == first
    assert send(log, SEQUENCE_MAX - 1, 2).duplicate
    log = reopen(log, recover=True)
    assert send(log, SEQUENCE_MAX - 1, 2).duplicate
    across = send(log, 1, 1)
    assert not across.duplicate


def test_sequence_may_wrap_inside_a_batch(log) -> None:
    send(log, SEQUENCE_MAX, 3)
    assert not send(log, 2).duplicate
    assert send(log, SEQUENCE_MAX, 3).duplicate


def test_idle_producers_expire_unless_in_a_transaction(log) -> None:
    send(log, 0)
    data = batch(b"x", producer=(8, 0, 0), transactional=True)
    log.append_as_leader(data, leader_epoch=0, now_ms=NOW_MS)
    assert log.expire_producers(NOW_MS + 999, 1000) == 0
    assert log.expire_producers(NOW_MS + 1000, 1000) == 1
    assert [each.producer_id for each in log.producers.entries()] == [8]
    assert send(log, 77).first_offset == 2


def test_transaction_index_is_cached_until_it_changes(log, monkeypatch) -> None:
    append(log, b"a", producer=(1, 0, 0), transactional=True)
    first = append_marker(log, 1, commit=False)
    assert len(log.aborted_transactions(0, 99)) == 1

    def refused(*_: object) -> None:
        raise AssertionError("read again")

    with monkeypatch.context() as patched:
        patched.setattr("builtins.open", refused)
        assert [each.last_offset for each in log.aborted_transactions(0, 99)] == [first]
    append(log, b"b", producer=(1, 1, 0), transactional=True)
    second = append_marker(log, 1, epoch=1, commit=False)
    assert [each.last_offset for each in log.aborted_transactions(0, 99)] == [first, second]
    log.truncate_to(second)
    assert [each.last_offset for each in log.aborted_transactions(0, 99)] == [first]


def test_open_transactions_hold_the_last_stable_offset(log) -> None:
    append(log, b"plain")
    append(log, b"a", producer=(1, 0, 0), transactional=True)
    append(log, b"b", producer=(2, 0, 0), transactional=True)
    assert log.last_stable_offset == 1
    aborted = append_marker(log, 1, commit=False)
    assert log.last_stable_offset == 1, "its marker is not committed yet"
    log.advance_high_watermark(aborted)
    assert log.last_stable_offset == 1, "committed records end before the marker"
    log.advance_high_watermark(log.log_end_offset)
    assert log.last_stable_offset == 2
    append_marker(log, 2, commit=True)
    log.advance_high_watermark(log.log_end_offset)
    assert log.last_stable_offset == log.log_end_offset == 5
    found = log.aborted_transactions(0, 5)
    assert [(each.producer_id, each.first_offset, each.last_offset) for each in found] == [
        (1, 1, aborted)
    ]
    assert log.aborted_transactions(4, 5) == []


def test_markers_of_older_epochs_or_coordinators_are_refused(log) -> None:
    append(log, b"a", producer=(1, 3, 0), transactional=True)
    with pytest.raises(KafkaError) as raised:
        append_marker(log, 1, epoch=2, commit=True)
    assert raised.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    append_marker(log, 1, epoch=3, commit=True, coordinator_epoch=5)
    with pytest.raises(KafkaError) as raised:
        append_marker(log, 1, epoch=3, commit=True, coordinator_epoch=4)
    assert raised.value.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_producer_in_a_transaction_may_not_write_outside_of_it(log) -> None:
    append(log, b"a", producer=(1, 0, 0), transactional=True)
    assert refusal(log, 1, pid=1) is ErrorCode.INVALID_TXN_STATE


def test_damaged_snapshot_raises_an_error() -> None:
    whole = ProducerState().encode()
    for damaged in (
        b"",
        whole[:-1],
        whole + b"\0",
        b"\0\2" + whole[2:],
        whole[:3] + b"x" + whole[4:],
    ):
        with pytest.raises(SnapshotError):
            ProducerState().load(damaged, 0)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "idempotent",
                "transactional",
                "commit",
                "abort",
                "bump",
                "roll",
                "stop",
                "kill",
                "cut",
            ]
        ),
        st.integers(1, 3),
        st.integers(1, 4),
    ),
    min_size=5,
    max_size=40,
)


class Producers:
    """Producers with their own epochs and sequences."""

    def __init__(self, log: PartitionLog) -> None:
        self.log = log
        self.epochs: dict[int, int] = {}
        self.sequences: dict[int, int] = {}
        self.open: set[int] = set()

    def do(self, what: str, pid: int, count: int) -> None:
        log = self.log
        if what == "roll":
            log.roll(NOW_MS)
        elif what in ("stop", "kill"):
            if what == "stop":
                log.close()
            self.log = reopen(log, recover=what == "kill")
        elif what == "cut":
            # Truncate to the last segment's start; its producers continue from there.
            log.truncate_to(log.active.base_offset)
            self.sequences = {e.producer_id: e.last_sequence + 1 for e in log.producers.entries()}
            self.epochs = {e.producer_id: e.epoch for e in log.producers.entries()}
            self.open = {e.producer_id for e in log.producers.entries() if e.txn_first_offset >= 0}
        elif what == "bump":
            if pid not in self.open:
                self.epochs[pid] = self.epochs.get(pid, 0) + 1
                self.sequences[pid] = 0
        elif what in ("commit", "abort"):
            epoch = self.epochs.get(pid, 0)
            append_marker(log, pid, epoch=epoch, commit=what == "commit")
            self.open.discard(pid)
        else:
            self.write(pid, count, transactional=what == "transactional" or pid in self.open)
        self.log.advance_high_watermark(self.log.log_end_offset)

    def write(self, pid: int, count: int, *, transactional: bool) -> None:
        sequence = self.sequences.get(pid, 0)
        append(
            self.log,
            *[b"v"] * count,
            producer=(pid, self.epochs.get(pid, 0), sequence),
            transactional=transactional,
        )
        self.sequences[pid] = sequence + count
        if transactional:
            self.open.add(pid)


def state_of(log: PartitionLog) -> dict[int, tuple[int, ...]]:
    return {
        each.producer_id: (
            each.epoch,
            each.last_sequence,
            each.last_offset,
            each.last_timestamp,
            each.coordinator_epoch,
            each.txn_first_offset,
        )
        for each in log.producers.entries()
    }


@settings(max_examples=60, deadline=None, derandomize=True)
@given(steps=STEPS)
def test_snapshot_and_later_batches_equal_a_full_replay(steps, tmp_path_factory) -> None:
    volume = open_volume(tmp_path_factory.mktemp("data"))
    producers = Producers(new_log(volume, SMALL))
    for step in steps:
        producers.do(*step)
    log = producers.log
    live, stable, aborted = state_of(log), log.last_stable_offset, log.aborted_transactions(0, 999)
    for recover in (False, True):
        if not recover:
            log.close()
        again = reopen(log, recover=recover)
        assert state_of(again) == live
        assert again.last_stable_offset == stable
        assert again.aborted_transactions(0, 999) == aborted
    for snapshot in Path(log.directory).glob("*.snapshot"):
        snapshot.unlink()
    again = reopen(log, recover=True)
    assert state_of(again) == live
    assert again.last_stable_offset == stable
    assert again.aborted_transactions(0, 999) == aborted
    volume.unlock()

"""Mirrored appends: batches of another cluster's log, at the same offsets."""

import errno
import random
from pathlib import Path

import pytest

from barnabas.log import LogConfig, PartitionLog
from barnabas.log.partition import mirror_end
from barnabas.log.segment.log_segment import Segment
from barnabas.protocol.batches.batch_header import assign_offset, read_header
from barnabas.protocol.batches.control_batches import MIRROR_ENDED
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.testing.batches import NOW_MS, batch, marker
from barnabas.testing.mirrored import as_sent, emptied, placed, split, without_epochs
from tests.log.compaction.test_cleaner import compact
from tests.log.logs import append, append_marker, new_log, open_volume, read_values, reopen

EPOCH = 3


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    log = new_log(open_volume(tmp_path / "data"), LogConfig(index_interval_bytes=100))
    log.start_leader_epoch(EPOCH, 0)
    yield log
    log.volume.unlock()


def send(log: PartitionLog, records: bytearray, epoch: int = EPOCH):
    return log.append_as_mirror(records, leader_epoch=epoch, now_ms=NOW_MS)


def refusal(log: PartitionLog, records: bytearray) -> tuple[ErrorCode, str]:
    end = log.log_end_offset
    with pytest.raises(KafkaError) as caught:
        send(log, records)
    assert log.log_end_offset == end
    return caught.value.code, caught.value.message


def all_batches(log: PartitionLog) -> list[bytes]:
    found: list[bytes] = []
    at = log.log_start_offset
    while at < log.log_end_offset:
        found += split(log.read(at, 1 << 20, upper_bound=log.log_end_offset).read())
        at = int.from_bytes(found[-1][:8], "big") + int.from_bytes(found[-1][23:27], "big") + 1
    return found


def test_batches_keep_everything_except_their_leader_epoch(log) -> None:
    source = [
        placed(batch(b"a", b"b", timestamps=[5, 7]), 10),
        placed(batch(b"c", producer=(77, 4, 9), transactional=True), 12),
        placed(marker(77, 4, commit=False), 20),
    ]
    info = send(log, as_sent(source, 0))
    assert (info.first_offset, info.last_offset, info.duplicate) == (10, 20, False)
    assert log.log_end_offset == 21
    stored = all_batches(log)
    assert without_epochs(stored) == source
    assert {int.from_bytes(each[12:16], "big") for each in stored} == {EPOCH}
    log.advance_high_watermark(21)
    assert [each.first_offset for each in log.aborted_transactions(0, 21)] == [12]
    assert log.last_stable_offset == 21


def test_batch_that_the_log_has_is_done_and_the_rest_is_appended(log) -> None:
    source = [placed(batch(b"%d" % at), at) for at in range(4)]
    send(log, as_sent(source[:2], 0))
    again = send(log, as_sent(source[:2], 0))
    assert (again.first_offset, again.last_offset, again.duplicate) == (0, 1, True)
    mixed = send(log, as_sent(source, 0))
    assert (mixed.last_offset, mixed.duplicate) == (3, False)
    assert read_values(log) == [b"0", b"1", b"2", b"3"]


def test_batch_that_overlaps_the_log_end_is_refused(log) -> None:
    append(log, b"x", epoch=EPOCH)
    code, text = refusal(log, as_sent([placed(batch(b"a", b"b"), 0)], 0))
    assert code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert "offsets 0 to 1 overlaps the log end 1 of t-0" in text


def test_hole_that_a_lost_request_left_is_refused(log) -> None:
    """A request that overtakes another one must not make it look as if it were done."""
    source = [placed(batch(b"%d" % at), at) for at in range(3)]
    code, text = refusal(log, as_sent(source[1:], 1))
    assert code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert "follows offset 1 at the source, but the log of t-0 ends at 0" in text
    send(log, as_sent(source, 0))


def test_refused_batch_leaves_out_those_before_it(log) -> None:
    good, other = placed(batch(b"a"), 0), placed(batch(b"b"), 1)
    damaged = as_sent([good, other], 0)
    damaged[-1] ^= 1
    assert refusal(log, damaged)[0] is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda data: data[:-1], ErrorCode.CORRUPT_MESSAGE),
        (lambda data: data + b"\0" * 20, ErrorCode.CORRUPT_MESSAGE),
        (lambda data: bytearray(), ErrorCode.CORRUPT_MESSAGE),
        (lambda data: data + data, ErrorCode.INVALID_RECORD),
        (lambda data: _with(data, 0, -1, 0), ErrorCode.INVALID_RECORD),
        (lambda data: _with(data, 0, (1 << 63) - 1, 0), ErrorCode.INVALID_RECORD),
        (lambda data: _with(data, 0, 0, -1), ErrorCode.INVALID_RECORD),
        (lambda data: _with(data, 0, 1 << 31, (1 << 31) - 1), ErrorCode.OFFSET_OUT_OF_RANGE),
    ],
)
def test_batch_that_cannot_be_is_refused(log, change, code) -> None:
    data = as_sent([placed(batch(b"a"), 0)], 0)
    assert refusal(log, bytearray(change(data)))[0] is code


def _with(data: bytearray, at: int, base_offset: int, skipped: int) -> bytearray:
    assign_offset(data, at, base_offset, skipped)
    return data


def test_gap_beyond_what_a_segment_indexes_is_refused(log) -> None:
    append(log, b"x", epoch=EPOCH)
    far = placed(batch(b"a", b"b"), 1 << 31)
    assert refusal(log, as_sent([far], 1))[0] is ErrorCode.INVALID_RECORD


def test_sizes_are_the_topics(log) -> None:
    data = as_sent([placed(batch(b"a" * 200), 0)], 0)
    log.config = LogConfig(max_message_bytes=200)
    assert refusal(log, data)[0] is ErrorCode.MESSAGE_TOO_LARGE
    log.config = LogConfig(segment_bytes=200)
    assert refusal(log, data)[0] is ErrorCode.RECORD_LIST_TOO_LARGE


def test_timestamps_and_keys_are_not_the_topics(log) -> None:
    """The source has accepted the records already."""
    log.config = LogConfig(log_append_time=True, is_compacted=True, timestamp_after_max_ms=0)
    source = [placed(batch(b"a", timestamps=[NOW_MS * 2]), 0)]
    assert send(log, as_sent(source, 0)).log_append_time_ms == -1
    assert without_epochs(all_batches(log)) == source


def sources_batches(path: Path, chance: random.Random) -> list[bytes]:
    """Return a source's log: transactions of several producers, with gaps, as compacted."""
    source = new_log(open_volume(path), LogConfig())
    sequences = dict.fromkeys(range(4), 0)
    is_open: set[int] = set()
    for number in range(chance.randrange(5, 60)):
        producer = chance.randrange(4)
        values = [b"%d" % number] * chance.randrange(1, 4)
        if producer == 0:
            append(source, *values)
        elif producer in is_open and chance.random() < 0.4:
            append_marker(source, producer, commit=chance.random() < 0.5)
            is_open.discard(producer)
        else:
            named = (producer, 0, sequences[producer])
            append(source, *values, producer=named, transactional=producer > 1)
            sequences[producer] += len(values)
            if producer > 1:
                is_open.add(producer)
    batches = all_batches(source)
    source.volume.unlock()
    kept = [each for each in batches if chance.random() < 0.8]
    return [emptied(each) if _is_data(each) and chance.random() < 0.1 else each for each in kept]


@pytest.mark.parametrize("seed", range(30))
def test_mirror_equals_the_source_after_any_kill(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    batches = sources_batches(tmp_path / "source", chance)
    config = LogConfig(segment_bytes=chance.choice([300, 900, 10**6]), index_interval_bytes=50)
    log = new_log(open_volume(tmp_path / "target"), config)
    while log.log_end_offset < (_end(batches[-1]) if batches else 0):
        at = log.log_end_offset
        rest = [each for each in batches if _end(each) > at]
        count = chance.randrange(1, 5)
        again = chance.randrange(3)
        first = max(len(batches) - len(rest) - again, 0)
        position = 0 if not first else _end(batches[first - 1])
        sent = batches[first : len(batches) - len(rest) + count]
        send(log, as_sent(sent, position), epoch=chance.randrange(log.latest_epoch, 9))
        log.advance_high_watermark(log.log_end_offset)
        if chance.random() < 0.3:
            log.release()
            log = reopen(log, recover=True)
    plain = new_log(open_volume(tmp_path / "plain"), LogConfig())
    send(plain, as_sent(batches, 0))
    plain.advance_high_watermark(plain.log_end_offset)
    assert without_epochs(all_batches(log)) == batches
    assert log.last_stable_offset == plain.last_stable_offset
    end = log.log_end_offset
    assert log.aborted_transactions(0, end) == plain.aborted_transactions(0, end)
    assert log.producers.encode() == plain.producers.encode()


def _is_data(batch: bytes) -> bool:
    return not read_header(batch).is_control


def _end(batch: bytes) -> int:
    return int.from_bytes(batch[:8], "big") + int.from_bytes(batch[23:27], "big") + 1


# The end of a mirror


def promote(log: PartitionLog, epoch: int = 9) -> None:
    """End the mirror as its leader does."""
    log.note_mirror_epochs(epoch)
    log.start_leader_epoch(epoch, log.log_end_offset)
    for producer_id, producer_epoch in log.open_transactions_of_mirror(epoch):
        log.append_as_leader(
            marker(producer_id, producer_epoch, commit=False, coordinator_epoch=MIRROR_ENDED),
            leader_epoch=epoch,
            now_ms=NOW_MS,
            origin="coordinator",
        )


def mirrored(log: PartitionLog) -> None:
    """Mirror an idempotent producer, and one whose transaction is open."""
    source = [
        placed(batch(b"a", producer=(7, 5, 30)), 0),
        placed(batch(b"b", producer=(8, 5, 30), transactional=True), 1),
    ]
    send(log, as_sent(source, 0))


def own_producer(log: PartitionLog, producer_id: int, sequence: int) -> int:
    """Append as a new producer of this cluster that has got the same id as a mirrored one."""
    data = batch(b"own", producer=(producer_id, 0, sequence))
    return log.append_as_leader(data, leader_epoch=9, now_ms=NOW_MS).first_offset


@pytest.mark.parametrize("restarts", ["none", "before", "between", "after"])
def test_promotion_aborts_open_transactions_and_forgets_producers(log, restarts) -> None:
    mirrored(log)
    if restarts == "before":
        log.release()
        log = reopen(log, recover=True)
    promote(log)
    log.advance_high_watermark(log.log_end_offset)
    assert (log.log_end_offset, log.last_stable_offset) == (3, 3)
    if restarts == "between":
        log.release()
        log = reopen(log, recover=True)
        assert list(log.producers.entries()) == []
    own_producer(log, 7, 0)
    own_producer(log, 8, 0)
    log.advance_high_watermark(log.log_end_offset)
    if restarts == "after":
        log.release()
        log = reopen(log, recover=True)
    assert {entry.producer_id: entry.epoch for entry in log.producers.entries()} == {7: 0, 8: 0}
    assert own_producer(log, 7, 1) == 5
    assert [each.producer_id for each in log.aborted_transactions(0, 6)] == [8]


def test_follower_ends_the_mirror_at_the_same_offset(log, tmp_path: Path) -> None:
    """The promotion reaches it before the rest of the mirror does."""
    follower = new_log(open_volume(tmp_path / "follower"), LogConfig())
    follower.note_mirror_epochs(9)
    mirrored(log)
    promote(log)
    own_producer(log, 7, 0)
    for each in all_batches(log):
        follower.append_as_follower(each, now_ms=NOW_MS)
    assert follower.mirror_end == log.mirror_end == 2
    assert follower.producers.encode() == log.producers.encode()
    again = reopen(follower, recover=True)
    assert again.producers.encode() == log.producers.encode()
    follower.volume.unlock()


def test_mirror_ends_once(log) -> None:
    """Retention has emptied the log since, and a new leader epoch starts."""
    mirrored(log)
    promote(log)
    own_producer(log, 7, 0)
    log.advance_high_watermark(log.log_end_offset)
    log.roll(NOW_MS)
    log.advance_log_start(log.log_end_offset)
    log.start_leader_epoch(10, log.log_end_offset)
    assert log.producers.find(7) is not None


# Faults of the disk


def test_full_disk_leaves_a_prefix_of_the_source(log, monkeypatch: pytest.MonkeyPatch) -> None:
    source = [placed(batch(b"%d" % at), at) for at in range(4)]
    append_segment = Segment.append

    def fail_at_the_third(segment: Segment, data: bytes, last: int, *rest: int) -> None:
        if last == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        append_segment(segment, data, last, *rest)

    monkeypatch.setattr(Segment, "append", fail_at_the_third)
    with pytest.raises(KafkaError) as caught:
        send(log, as_sent(source, 0))
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    monkeypatch.undo()
    log.release()
    again = reopen(log, recover=True)
    assert without_epochs(all_batches(again)) == source[:2]
    send(again, as_sent(source, 0))
    assert without_epochs(all_batches(again)) == source


def test_mirror_that_could_not_be_ended_is_ended_at_the_next_attempt(
    log, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirrored(log)
    log.note_mirror_epochs(9)

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(mirror_end, "replace_file", fail)
        log.start_leader_epoch(9, log.log_end_offset)
        with pytest.raises(KafkaError):
            log.open_transactions_of_mirror(9)
    promote(log)
    assert own_producer(log, 7, 0) == 3
    assert log.mirror_end == 2


def test_compaction_keeps_the_offsets_and_the_markers_of_a_mirror(tmp_path: Path) -> None:
    config = LogConfig(is_compacted=True, min_cleanable_ratio=0.0)
    log = new_log(open_volume(tmp_path / "data"), config)
    log.start_leader_epoch(EPOCH, 0)
    source = [
        placed(batch(b"old", keys=[b"k"]), 0),
        placed(batch(b"x", keys=[b"a"], producer=(8, 1, 4), transactional=True), 3),
        placed(marker(8, 1, commit=False), 4),
        placed(batch(b"new", keys=[b"k"]), 9),
    ]
    send(log, as_sent(source, 0))
    log.advance_high_watermark(10)
    log.roll(NOW_MS)
    send(log, as_sent([placed(batch(b"last", keys=[b"z"]), 12)], 10))
    log.advance_high_watermark(13)
    compact(log)
    assert read_values(log)[-2:] == [b"new", b"last"]
    assert b"old" not in read_values(log)
    assert log.log_end_offset == 13
    log.release()
    again = reopen(log, recover=True)
    assert again.producers.find(8).last_offset == 3
    log.volume.unlock()


@pytest.mark.parametrize(("end_epoch", "start"), [(5, 1), (4, 10), (-1, 10)])
def test_leader_epoch_of_a_mirror_starts_before_its_gap(log, end_epoch, start) -> None:
    """A replica with records of the earlier epoch in the gap must remove them.

    In another log compaction has made the gap, and the epoch starts at its batch, as in Kafka.
    """
    log.note_mirror_epochs(end_epoch)
    for each, epoch in ((placed(batch(b"a"), 0), 3), (placed(batch(b"b"), 10), 4)):
        data = bytearray(each)
        assign_offset(data, 0, read_header(each).base_offset, epoch)
        log.append_as_follower(data, now_ms=NOW_MS)
    assert log.end_offset_for_epoch(3) == (3, start)


def test_producers_stay_forgotten_when_no_other_producer_follows(log) -> None:
    """The batches after the mirror have no producer ids, and a kill follows."""
    send(log, as_sent([placed(batch(b"a", producer=(7, 5, 30)), 0)], 0))
    promote(log)
    append(log, b"plain", epoch=9)
    log.release()
    assert list(reopen(log, recover=True).producers.entries()) == []

"""`producer_loading`: the producer state after a kill, and the batches that are read for it."""

import random
from pathlib import Path

import pytest

from barnabas.log import LogConfig, PartitionLog
from barnabas.protocol.batches.batch_header import iter_batches
from barnabas.testing.batches import NOW_MS
from tests.log.logs import append, append_marker, new_log, open_volume, read_values, reopen


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    log = new_log(open_volume(tmp_path / "data"), LogConfig(index_interval_bytes=100))
    yield log
    log.volume.unlock()


def test_torn_transaction_index_below_a_snapshot_is_rebuilt(log) -> None:
    """A roll's snapshot may be on the disk before the index of the finished segment."""
    for number in range(3):
        append(log, b"gone", producer=(8, 0, number), transactional=True)
        append_marker(log, 8, commit=False)
    log.roll(NOW_MS)
    append(log, b"more")
    before = log.aborted_transactions(0, 9)
    assert len(before) == 3
    (index,) = Path(log.directory).glob("*.txnindex")
    for damaged in (index.read_bytes()[:-10], index.read_bytes()[:34], b""):
        index.write_bytes(damaged)
        assert reopen(log, recover=True).aborted_transactions(0, 9) == before


@pytest.mark.parametrize("torn", [b"\xff" * 100, b"\0" * 100], ids=["noise", "zeros"])
def test_torn_batch_after_a_clean_stop_is_cut_and_not_applied(log, torn) -> None:
    """The stop wrote a snapshot inside the segment, at the recovery point."""
    for number in range(20):
        append(log, b"%d" % number, producer=(5, 0, number))
    log.close()
    assert log.recovery_point == 20
    with (Path(log.directory) / "00000000000000000000.log").open("ab") as file:
        file.write(torn)
    again = reopen(log, recover=True)
    assert read_values(again) == [b"%d" % number for number in range(20)]
    assert again.producers.find(5).last_sequence == 19


@pytest.mark.parametrize("seed", range(40))
def test_producer_state_after_any_kill_equals_a_full_replay(log, seed) -> None:
    """Files above the recovery point are cut or overwritten; those below are synced."""
    chance = random.Random(seed)
    log.config = LogConfig(segment_bytes=chance.choice([600, 1500, 10**6]), index_interval_bytes=50)
    write_transactions(log, chance)
    if chance.random() < 0.5:
        log.close()
        log = reopen(log, recover=False)
        write_transactions(log, chance)
    log.release()
    damage(log, chance)
    again = reopen(log, recover=True)
    found = known(again)
    assert again.log_end_offset >= log.recovery_point
    again.close()
    again.release()
    assert known(reopen(again, recover=False)) == found
    for file in Path(log.directory).iterdir():
        if file.suffix in (".index", ".timeindex", ".txnindex", ".snapshot"):
            file.unlink()
    log.recovery_point = 0
    assert known(reopen(log, recover=True)) == found


def write_transactions(log: PartitionLog, chance: random.Random) -> None:
    sequences = {entry.producer_id: entry.last_sequence + 1 for entry in log.producers.entries()}
    for _ in range(chance.randrange(30)):
        pid = chance.choice([7, 8, 9])
        sequence = sequences.get(pid, 0)
        sequences[pid] = sequence + 1
        append(log, b"x" * chance.randrange(90), producer=(pid, 0, sequence), transactional=True)
        if chance.random() < 0.4:
            append_marker(log, pid, commit=chance.random() < 0.4)
            log.advance_high_watermark(log.log_end_offset)
        if chance.random() < 0.1:
            log.roll(NOW_MS)
        if chance.random() < 0.1:
            log.flush_rolled()


def damage(log: PartitionLog, chance: random.Random) -> None:
    first = log.segments[log.segment_number(log.recovery_point)].base_offset
    for file in Path(log.directory).iterdir():
        if not file.stem.isdecimal() or int(file.stem) < first or chance.random() < 0.6:
            continue
        content, kept = file.read_bytes(), 0
        if file.suffix == ".snapshot" and int(file.stem) == first:
            continue
        if file.suffix == ".log":
            ends = ((header.next_offset, at + header.size) for at, header in iter_batches(content))
            kept = max((end for offset, end in ends if offset <= log.recovery_point), default=0)
        cut = chance.randrange(kept, len(content) + 1)
        is_log = file.suffix == ".log"
        file.write_bytes(content[:cut] + chance.randbytes(chance.choice([0, 200]) * is_log))


def known(log: PartitionLog) -> tuple[object, ...]:
    producers = {entry.producer_id: entry.last_sequence for entry in log.producers.entries()}
    aborted = log.aborted_transactions(0, log.log_end_offset)
    return log.log_end_offset, aborted, producers, log.producers.first_unstable_offset()

"""What a start after a kill knows of producers, and what it must not read to know it."""

from pathlib import Path

import pytest

from barnabas.log import LogConfig, PartitionLog
from tests.log.batches import (
    NOW_MS,
    append,
    append_marker,
    new_log,
    open_volume,
    read_values,
    reopen,
)


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    log = new_log(open_volume(tmp_path / "data"), LogConfig(index_interval_bytes=100))
    yield log
    log.volume.unlock()


def test_a_torn_transaction_index_is_made_again_though_the_snapshot_behind_it_is_there(log) -> None:
    """A roll's snapshot may reach the disk before the index of the segment that ended."""
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
def test_a_torn_batch_behind_a_clean_stop_is_cut_and_not_read_for_its_producer(log, torn) -> None:
    """The stop left a snapshot inside the segment, at the recovery point."""
    for number in range(20):
        append(log, b"%d" % number, producer=(5, 0, number))
    log.close()
    assert log.recovery_point == 20
    with (Path(log.directory) / "00000000000000000000.log").open("ab") as file:
        file.write(torn)
    again = reopen(log, recover=True)
    assert read_values(again) == [b"%d" % number for number in range(20)]
    assert again.producers.producers[5].last_sequence == 19

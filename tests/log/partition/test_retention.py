"""`retention` and `rolling`: which segments are deleted, and when a new one starts."""

import os
from pathlib import Path

import attrs
import pytest

from barnabas.log import LogConfig, PartitionLog
from barnabas.testing.batches import NOW_MS
from tests.log.logs import append, new_log, open_volume, read_values, reopen

BASE = LogConfig(segment_bytes=200, retention_ms=-1, file_delete_delay_ms=500)


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    """Return a log of ten segments with two records each, one minute apart."""
    log = new_log(open_volume(tmp_path / "data"), BASE)
    for number in range(20):
        append(log, b"%02d" % number * 8, timestamps=[NOW_MS + number * 60_000])
    assert len(log.segments) == 10
    yield log
    log.volume.unlock()


def retain(log: PartitionLog, now_ms: int = NOW_MS, **changes: object) -> int:
    log.update_config(attrs.evolve(BASE, **changes))
    return log.apply_retention(now_ms)


def test_segments_with_only_old_records_are_deleted(log) -> None:
    assert retain(log, NOW_MS + 10 * 60_000, retention_ms=5 * 60_000) == 2
    assert log.log_start_offset == 4
    assert len(read_values(log)) == 16


def test_active_segment_is_deleted_when_it_is_old(log) -> None:
    assert retain(log, NOW_MS + 10**9, retention_ms=1000) == 10
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (20, 20, 0)
    append(log, b"more")
    log = reopen(log, recover=True)
    assert (log.log_start_offset, log.log_end_offset) == (20, 21)


def test_leader_epoch_checkpoint_starts_at_the_log_start_after_retention(log) -> None:
    """As Kafka's: the epoch of the deleted records starts at the new log start offset."""
    retain(log, NOW_MS + 10**9, retention_ms=1000)
    checkpoint = Path(log.directory, "leader-epoch-checkpoint").read_text()
    assert checkpoint == "0\n1\n0 20\n"


def test_old_segment_after_a_young_one_is_kept(log) -> None:
    append(log, b"old" * 30, timestamps=[5])
    assert retain(log, NOW_MS, retention_ms=1000) == 0


def test_oldest_segments_are_deleted_down_to_the_retention_size(log) -> None:
    size = log.size_bytes
    each = log.segments[0].size
    assert retain(log, retention_bytes=size - each + 1) == 0
    assert retain(log, retention_bytes=size - each) == 1
    assert retain(log, retention_bytes=size - 4 * each + 1) == 2
    assert retain(log, retention_bytes=0) == 7


def test_uncommitted_segments_are_kept(log) -> None:
    log.high_watermark = 7
    assert retain(log, NOW_MS + 10**9, retention_ms=0, retention_bytes=0) == 3
    assert log.log_start_offset == 6


def test_segments_below_the_log_start_are_deleted_with_any_policy(log) -> None:
    log.advance_log_start(7)
    assert retain(log, NOW_MS + 10**9, is_deleted=False, is_compacted=True, retention_ms=0) == 3
    assert log.segments[0].base_offset == 6
    assert read_values(log)[0] == b"07" * 8


def test_records_without_timestamps_have_the_age_of_their_file(tmp_path) -> None:
    log = new_log(open_volume(tmp_path / "other"), BASE)
    append(log, b"x", timestamps=[-1])
    written_ms = int(os.stat(log.active.path).st_mtime * 1000)
    assert retain(log, written_ms + 900, retention_ms=1000) == 0
    assert retain(log, written_ms + 1100, retention_ms=1000) == 1


def test_deleted_segments_are_renamed_at_once_and_removed_after_the_delay(log) -> None:
    directory = Path(log.directory)
    on_its_way = log.read(0, 1000, upper_bound=20)
    expected = on_its_way.read()
    retain(log, NOW_MS + 10 * 60_000, retention_ms=5 * 60_000)
    renamed = {path.name for path in directory.glob("*.deleted")}
    assert "00000000000000000000.log.deleted" in renamed
    assert "00000000000000000002.timeindex.deleted" in renamed
    assert not (directory / "00000000000000000000.log").exists()
    deletions = log.volume.deletions
    assert deletions.due(NOW_MS) == []
    for remove in deletions.due(NOW_MS + 500):
        remove()
    assert not list(directory.glob("*.deleted"))
    assert on_its_way.read() == expected, "a fetch may still send it"


def test_segment_rolls_by_size_and_by_age(tmp_path) -> None:
    log = new_log(open_volume(tmp_path / "other"), LogConfig(segment_bytes=10_000, segment_ms=1000))
    append(log, b"x", timestamps=[NOW_MS])
    append(log, b"x", timestamps=[NOW_MS + 1000])
    assert len(log.segments) == 1
    append(log, b"x", timestamps=[NOW_MS + 1001])
    assert [segment.base_offset for segment in log.segments] == [0, 2]
    append(log, b"x" * 9_900, timestamps=[NOW_MS + 1001])
    append(log, b"y" * 200, timestamps=[NOW_MS + 1001])
    assert [segment.base_offset for segment in log.segments] == [0, 2, 3, 4]


def test_segment_rolls_when_an_index_is_full(tmp_path) -> None:
    config = LogConfig(segment_index_bytes=40, index_interval_bytes=0)
    log = new_log(open_volume(tmp_path / "other"), config)
    for number in range(20):
        append(log, b"x", timestamps=[NOW_MS + number])
    assert len(log.segments) > 4
    assert all(len(segment.offset_index) <= 5 for segment in log.segments)
    assert all(len(segment.time_index) <= 3 for segment in log.segments)


def test_roll_jitter_rolls_earlier_never_later(tmp_path) -> None:
    config = LogConfig(segment_ms=1000, segment_jitter_ms=900)
    log = new_log(open_volume(tmp_path / "other"), config)
    assert 0 <= log.active.roll_jitter_ms < 900
    append(log, b"x", timestamps=[NOW_MS])
    append(log, b"x", timestamps=[NOW_MS + 1001 - log.active.roll_jitter_ms])
    assert len(log.segments) == 2


def test_flush_ms_requires_a_sync_after_its_time(tmp_path) -> None:
    log = new_log(open_volume(tmp_path / "other"), LogConfig(flush_ms=1000))
    assert not log.needs_flush(NOW_MS)
    append(log, b"x")
    assert not log.needs_flush(NOW_MS + 999)
    assert log.needs_flush(NOW_MS + 1000)
    log.flush()
    assert not log.needs_flush(NOW_MS + 5000)


def test_preallocated_segment_reserves_space_and_releases_the_rest(tmp_path) -> None:
    config = LogConfig(segment_bytes=100_000, preallocate=True)
    log = new_log(open_volume(tmp_path / "other"), config)
    append(log, b"x")
    path, size = Path(log.active.path), log.active.size
    assert path.stat().st_size == 100_000
    killed = reopen(log, recover=True)
    assert read_values(killed) == [b"x"]
    assert path.stat().st_size == size
    append(killed, b"y")
    killed.roll(NOW_MS)
    assert Path(killed.active.path).stat().st_size == 100_000
    killed.close()
    assert Path(killed.active.path).stat().st_size == 0
    assert read_values(reopen(killed, recover=False)) == [b"x", b"y"]


@pytest.mark.parametrize("deleted_below", [0, 3])
@pytest.mark.parametrize("retention_bytes", [-1, 0, 10, 700, 10**6])
@pytest.mark.parametrize("minutes", [-1, 0, 5, 100])
@pytest.mark.parametrize("policy", [True, False])
def test_retention_is_due_for_an_unloaded_log_reads_names_and_sizes(
    log, deleted_below, retention_bytes, minutes, policy
) -> None:
    log.advance_log_start(deleted_below)
    log.close()
    log.release()
    config = attrs.evolve(
        BASE,
        retention_bytes=retention_bytes,
        retention_ms=minutes * 60_000 if minutes >= 0 else -1,
        is_deleted=policy,
    )
    now_ms = NOW_MS + 12 * 60_000
    unloaded = PartitionLog(log.volume, log.topic, log.partition, config)
    unloaded.log_start_offset = deleted_below
    due = unloaded.retention_is_due(now_ms)
    assert not unloaded.is_loaded
    again = reopen(log, recover=False)
    again.update_config(config)
    assert due == (again.apply_retention(now_ms) > 0)


def test_retention_is_due_for_a_log_without_time_index(log) -> None:
    log.close()
    log.release()
    for file in Path(log.directory).glob("*.timeindex"):
        file.unlink()
    log.update_config(attrs.evolve(BASE, retention_ms=10**9))
    assert log.retention_is_due(NOW_MS)


def test_retention_is_not_due_for_an_empty_log(tmp_path) -> None:
    log = new_log(open_volume(tmp_path / "empty"), attrs.evolve(BASE, retention_ms=0))
    log.close()
    log.release()
    assert not log.retention_is_due(NOW_MS + 10**9)

"""`PartitionLog` at the limits of offsets and times, and after interrupted truncations."""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import attrs
import pytest

from barnabas.log import FileCache, LogConfig, PartitionLog, Volume
from barnabas.log.checkpoints import decode_offsets
from barnabas.log.compaction import cleaning_plan
from barnabas.log.compaction.cleaner import clean
from barnabas.protocol.batches.batch_building import build_batch, pack_batch
from barnabas.protocol.batches.batch_header import read_header
from barnabas.protocol.batches.compression import Codec
from barnabas.protocol.batches.record_decoding import Record
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.testing.batches import NOW_MS, batch
from tests.log.logs import append, append_marker, new_log, open_volume, read_values, reopen

SMALL = LogConfig(segment_bytes=400, index_interval_bytes=100, file_delete_delay_ms=0)
OFFSETS = 1 << 31


@pytest.fixture
def log(tmp_path: Path) -> Iterator[PartitionLog]:
    log = new_log(open_volume(tmp_path / "data"), SMALL)
    yield log
    log.volume.unlock()


def copied(log: PartitionLog, offset: int, key: bytes, value: bytes = b"v" * 40) -> None:
    """Append a record as a follower does when the leader compacted the records below `offset`."""
    made = build_batch([Record(offset, NOW_MS, key, value)], base_offset=offset, leader_epoch=0)
    log.append_as_follower(made, now_ms=NOW_MS)
    log.advance_high_watermark(log.log_end_offset)


# Log start and transactions


def test_last_stable_offset_is_not_below_the_log_start(log) -> None:
    """`UnifiedLog.maybeIncrementFirstUnstableOffset` takes the later of the two."""
    for number in range(6):
        append(log, b"open", producer=(7, 0, number), transactional=True)
    assert log.last_stable_offset == 0
    log.advance_log_start(4)
    assert log.last_stable_offset == log.log_start_offset == 4
    append_marker(log, 7, commit=False)
    assert log.last_stable_offset == 4
    log.advance_high_watermark(7)
    assert log.last_stable_offset == 7


# Cuts


def test_truncation_killed_at_any_step_leaves_no_gap(log, tmp_path, monkeypatch) -> None:
    for number in range(30):
        append(log, b"%02d" % number * 20)
    log.flush()
    assert len(log.segments) > 6
    unlink, allowed = os.unlink, 0

    def stop_after(path: str) -> None:
        nonlocal allowed
        if not allowed:
            raise KeyboardInterrupt
        allowed -= 1
        unlink(path)

    for steps in range(0, 40, 3):
        copy = tmp_path / f"after-{steps}"
        shutil.copytree(log.volume.path, copy)
        victim = PartitionLog(Volume(copy, FileCache(20)), "t", 0, SMALL)
        victim.recovery_point = victim.high_watermark = 30
        victim.load(recover=False)
        allowed = steps
        monkeypatch.setattr(os, "unlink", stop_after)
        with suppress(KeyboardInterrupt):
            victim.truncate_to(5)
        monkeypatch.setattr(os, "unlink", unlink)
        again = reopen(log_at(copy), recover=True)
        found = read_values(again)
        assert found == [b"%02d" % number * 20 for number in range(len(found))]


def log_at(path: Path) -> PartitionLog:
    """Return a log whose batches were all synced before a kill."""
    log = PartitionLog(Volume(path, FileCache(20)), "t", 0, SMALL)
    log.recovery_point = log.high_watermark = 30
    return log


def test_truncation_lowers_the_checkpointed_recovery_point(log) -> None:
    """Batches appended there later are not synced yet (`LogManager.truncateTo`)."""
    for number in range(30):
        append(log, b"%02d" % number * 20)
    log.flush()
    volume = log.volume
    volume.write_checkpoints()
    log.truncate_to(5)
    points = decode_offsets((volume.path / "recovery-point-offset-checkpoint").read_bytes())
    assert points == {("t", 0): 5}


# Offsets that do not fit


def test_compacted_group_of_segments_fits_relative_offsets(log) -> None:
    """The offsets, not the sizes, may limit a group."""
    log.update_config(attrs.evolve(SMALL, is_compacted=True, is_deleted=False))
    log.update_config(attrs.evolve(log.config, segment_bytes=100_000))
    for offsets in ((0, 1), (2, 3), (4, 5, OFFSETS + 3), (OFFSETS + 4, OFFSETS + 5)):
        log.roll(NOW_MS)
        for offset in offsets:
            copied(log, offset, b"%d" % offset)
    log.roll(NOW_MS)
    log.flush_rolled()
    expected = [segment.base_offset for segment in log.segments]
    chosen = cleaning_plan.candidate(log, NOW_MS)
    assert chosen is not None
    for message in clean(
        cleaning_plan.job_for(chosen, cleaning_plan.Limits(1 << 20, 0.9, 300, 1e15), NOW_MS)
    ):
        if "group" in message:
            group = list(zip(message["group"], message["sizes"], strict=True))
            assert log.swap_cleaned(group, message["size"])
    assert len(log.segments) < len(expected)
    for segment in log.segments:
        last = max((header.last_offset for _, header in segment.headers()), default=0)
        assert last - segment.base_offset < OFFSETS
    assert len(read_values(log)) == 9


def test_batch_with_more_records_than_bytes_is_refused(log) -> None:
    """It would use offsets without records, and then one segment per batch."""
    log.update_config(attrs.evolve(SMALL, unpacked_max=7000))
    sound = batch(*[b"x"] * 10, codec=Codec.GZIP)
    for count, fits in ((1000, True), (1001, False), ((1 << 31) - 1, False)):
        header = read_header(sound)._replace(record_count=count, last_offset_delta=count - 1)
        made = pack_batch(header, sound[61:])
        if fits:
            log.append_as_leader(made, leader_epoch=0, now_ms=NOW_MS)
            continue
        with pytest.raises(KafkaError) as refused:
            log.append_as_leader(made, leader_epoch=0, now_ms=NOW_MS)
        assert refused.value.code is ErrorCode.INVALID_RECORD
    assert log.log_end_offset == 1000


# Times


@pytest.mark.parametrize("timestamp", [-1, -2, -(1 << 62), 0, (1 << 63) - 1])
def test_any_timestamp_is_found_after_any_stop(log, timestamp) -> None:
    log.update_config(attrs.evolve(SMALL, timestamp_after_max_ms=1 << 63, retention_ms=-1))
    for number in range(8):
        append(log, b"%d" % number * 60, timestamps=[timestamp])
    append(log, b"later", timestamps=[timestamp + 1 if timestamp < 1 << 62 else timestamp])
    found = log.offset_for_timestamp(max(timestamp, 0))
    latest = log.offset_of_max_timestamp()
    for recover in (True, False):
        if not recover:
            log.close()
        again = reopen(log, recover=recover)
        assert len(read_values(again)) == 9
        assert again.offset_for_timestamp(max(timestamp, 0)) == found
        assert again.offset_of_max_timestamp() == latest
    if timestamp >= 0:
        assert found == (timestamp, 0, 0)


def test_segments_with_future_or_no_timestamps_are_kept_for_the_retention(log) -> None:
    """Kafka uses the file's time for records without timestamps."""
    log.update_config(attrs.evolve(SMALL, timestamp_after_max_ms=1 << 62))
    for timestamp in (-1, NOW_MS + 10**9):
        append(log, b"x" * 300, timestamps=[timestamp])
    first = log.segments[0]
    os.utime(first.path, (NOW_MS / 1000, NOW_MS / 1000))
    log.update_config(attrs.evolve(log.config, retention_ms=1000))
    assert log.apply_retention(NOW_MS + 1000) == 0
    assert log.apply_retention(NOW_MS + 1001) == 1
    assert log.apply_retention(NOW_MS + 10**9 + 1000) == 0
    assert log.apply_retention(NOW_MS + 10**9 + 1001) == 1
    assert (log.log_start_offset, log.log_end_offset) == (2, 2)
    for recover in (True, False):
        again = reopen(log, recover=recover)
        assert (again.log_start_offset, again.log_end_offset) == (2, 2)
        assert again.offset_for_timestamp(0) is None
        assert again.offset_of_max_timestamp() is None
    assert append(log, b"more") == 2


# Partial writes


def test_bytes_of_a_failed_append_are_cut_when_the_segment_ends(log, monkeypatch) -> None:
    append(log, b"x" * 10)
    pwrite = os.pwrite

    def refuse(fd: int, data: bytes, at: int) -> int:
        pwrite(fd, bytes(data)[:-10], at)
        raise OSError(errno.ENOMEM, "out of memory")

    monkeypatch.setattr(os, "pwrite", refuse)
    with pytest.raises(KafkaError):
        append(log, b"y" * 100)
    monkeypatch.undo()
    append(log, b"z")
    active = log.active
    log.roll(NOW_MS)
    assert os.stat(active.path).st_size == active.size
    log.close()
    assert read_values(reopen(log, recover=False)) == [b"x" * 10, b"z"]


def test_partly_written_transaction_index_entry_takes_the_directory_offline(
    log, monkeypatch
) -> None:
    append(log, b"gone", producer=(7, 0, 0), transactional=True)
    write = os.write

    def short(fd: int, data: bytes) -> int:
        if len(data) < 34:
            raise OSError(errno.ENOSPC, "no space")
        return write(fd, data[:10])

    monkeypatch.setattr(os, "write", short)
    with pytest.raises(KafkaError) as refused:
        append_marker(log, 7, commit=False)
    monkeypatch.undo()
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert log.volume.failure is not None

"""`flushing`: a thread syncs a log while the loop changes it."""

import os
import sys
import threading
import time
from pathlib import Path

import pytest

from barnabas.log import FileCache, LogConfig, LogManager, PartitionLog, Volume
from barnabas.testing.batches import NOW_MS
from tests.log.logs import TOPIC_ID, append, new_log, open_volume, read_values, reopen

DURATION_S = 1.0
ROUNDS_MIN = 331
"""A busy machine takes longer for one round of each kind."""


def test_threads_that_load_and_close_logs_share_few_descriptors(tmp_path: Path) -> None:
    """A file that one thread evicts must stay open for the thread that uses it."""
    config = LogConfig(segment_bytes=400, index_interval_bytes=50)
    volume = Volume(tmp_path / "data", FileCache(2))
    volume.lock()
    manager = LogManager([volume], volume, config, recovery_threads=4)
    manager.open()
    manager.recover()
    expected = {}
    for number in range(24):
        log = manager.create("t", TOPIC_ID, number, config)
        expected[number] = [b"%d-%d" % (number, each) for each in range(40)]
        for sequence, value in enumerate(expected[number]):
            append(log, value, producer=(number, 0, sequence))
    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for clean in (False, True, False):
            manager.close(clean=clean)
            for file in volume.path.glob("*/*index") if not clean else ():
                file.unlink()
            volume = Volume(tmp_path / "data", FileCache(2))
            volume.lock()
            volume.load_checkpoints()
            manager = LogManager([volume], volume, config, recovery_threads=4)
            manager.open()
            manager.recover()
            for number, values in expected.items():
                log = manager.get("t", number)
                assert read_values(log) == values
                for segment in log.segments[:-1]:
                    assert segment.max_timestamp == NOW_MS
                    assert Path(segment.path_of(".index")).stat().st_size % 8 == 0
    finally:
        sys.setswitchinterval(switch)
    manager.close(clean=False)


@pytest.mark.parametrize("recover", [True, False])
def test_file_in_use_stays_open_when_another_thread_evicts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recover: bool
) -> None:
    log = new_log(open_volume(tmp_path / "data"), LogConfig(segment_bytes=900))
    used = set[str]()

    def making_room(name: str):
        call = getattr(os, name)

        def called(*arguments: object) -> object:
            for cache in (files for files in caches if len(files)):
                for owner in list(cache._owners):
                    cache.close(owner)
            used.add(name)
            return call(*arguments)

        return called

    names = ("pread", "preadv", "pwrite", "ftruncate")
    caches = [log.volume.files]
    for name in names:
        monkeypatch.setattr(os, name, making_room(name))
    for number in range(60):
        append(log, b"%d" % number, timestamps=[NOW_MS + number])
    log.truncate_to(50)
    log.close()
    with open(log.active.path, "ab") as file:
        file.write(b"torn")
    again = PartitionLog(open_again(log, caches), log.topic, log.partition, log.config)
    again.load(recover=recover)
    assert read_values(again) == [b"%d" % number for number in range(50)]
    for number in range(50):
        found = again.offset_for_timestamp(NOW_MS + number)
        assert found is not None
        assert found[1] == number
    assert used == set(names)


def open_again(log: PartitionLog, caches: list[FileCache]) -> Volume:
    volume = Volume(log.volume.path, FileCache(4))
    caches.append(volume.files)
    return volume


def test_flush_syncs_names_that_another_flush_has_not_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = new_log(open_volume(tmp_path / "data"))
    append(log, b"x")
    synced: list[str] = []

    def sync(path: str) -> None:
        if not synced:
            synced.append("begun")
            log.flush()
        synced.append(str(path))

    monkeypatch.setattr("barnabas.log.partition.flushing.sync_path", sync)
    log.flush()
    assert synced.count(log.directory) == 2
    append(log, b"y")
    synced.append("again")
    log.flush()
    assert synced[-1] == "again", "no file name changed"


@pytest.mark.timeout(600)  # a disk that is slow to sync
def test_recovery_point_after_a_concurrent_truncation_is_within_the_log(tmp_path: Path) -> None:
    volume = Volume(tmp_path / "data", FileCache(5))
    volume.lock()
    manager = LogManager([volume], volume, LogConfig())
    log = manager.create("t", TOPIC_ID, 0, LogConfig(segment_bytes=2000, file_delete_delay_ms=0))
    stopping, errors = threading.Event(), list[BaseException]()

    def sync() -> None:
        while not stopping.is_set():
            try:
                log.flush()
                log.flush_rolled()
                manager.checkpoint()
                manager.checkpoint_log_start_offsets()
            except BaseException as error:
                errors.append(error)
                return

    threads = [threading.Thread(target=sync) for _ in range(2)]
    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    for thread in threads:
        thread.start()
    deadline, number = time.monotonic() + DURATION_S, 0
    while time.monotonic() < deadline or number <= ROUNDS_MIN:
        number += 1
        append(log, b"%d" % number)
        if number % 50 == 0:
            end = log.log_end_offset - 7
            log.truncate_to(end)
            assert log.recovery_point <= end
        if number % 101 == 0:
            log.advance_log_start(log.log_end_offset - 60)
            log.apply_retention(NOW_MS)
        if number % 331 == 0:
            log.truncate_fully_and_start_at(log.log_end_offset + 5)
        if number % 211 == 0:
            manager.create(f"gone-{number}", TOPIC_ID, 0, LogConfig())
            manager.delete(f"gone-{number}", 0)
        assert log.recovery_point <= log.log_end_offset
    stopping.set()
    for thread in threads:
        thread.join()
    sys.setswitchinterval(switch)
    assert errors == []
    assert volume.failure is None
    assert read_values(reopen(log, recover=True)) == read_values(log)
    manager.close(clean=False)

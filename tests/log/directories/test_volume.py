"""`Volume`: after an I/O error its directory is offline, and others continue."""

import errno
import os
from pathlib import Path

import pytest

from barnabas.log import FileCache, LogConfig, LogManager, PartitionLog, Volume
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.testing.batches import NOW_MS
from tests.log.logs import TOPIC_ID, append, append_marker, new_log, read_values, reopen


@pytest.fixture
def manager(tmp_path: Path) -> LogManager:
    files = FileCache(50)
    volumes = [Volume(tmp_path / name, files) for name in ("a", "b")]
    for volume in volumes:
        volume.lock()
    manager = LogManager(volumes, volumes[0], LogConfig())
    manager.open()
    yield manager
    manager.close(clean=False)


def broken(error: int):
    def call(*_: object) -> int:
        raise OSError(error, os.strerror(error))

    return call


def create(manager: LogManager, topic: str) -> PartitionLog:
    return manager.create(topic, TOPIC_ID, 0, LogConfig(segment_bytes=300))


def code_of(call) -> ErrorCode:
    with pytest.raises(KafkaError) as raised:
        call()
    return raised.value.code


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, errno.EROFS])
def test_failed_write_takes_only_its_directory_offline(manager, monkeypatch, error) -> None:
    bad, good = create(manager, "bad"), create(manager, "good")
    told: list[Volume] = []
    bad.volume.on_failure = told.append
    append(bad, b"before")
    monkeypatch.setattr(os, "pwrite", broken(error))
    assert code_of(lambda: append(bad, b"lost")) is ErrorCode.KAFKA_STORAGE_ERROR
    monkeypatch.undo()
    assert told == [bad.volume]
    assert bad.log_end_offset == 1
    assert code_of(lambda: append(bad, b"again")) is ErrorCode.KAFKA_STORAGE_ERROR
    assert code_of(lambda: bad.read(0, 99, upper_bound=1)) is ErrorCode.KAFKA_STORAGE_ERROR
    assert code_of(bad.flush) is ErrorCode.KAFKA_STORAGE_ERROR
    append(good, b"fine")
    assert read_values(good) == [b"fine"]
    assert create(manager, "later").volume is good.volume
    manager.checkpoint()
    manager.delete("bad", 0)
    assert told == [bad.volume], "logged once"


def test_short_write_is_completed(manager, monkeypatch) -> None:
    log = create(manager, "t")
    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: pwrite(fd, bytes(data)[:7], at))
    append(log, b"value")
    assert read_values(log) == [b"value"]


def test_failed_fsync_is_never_retried(manager, monkeypatch) -> None:
    log = create(manager, "t")
    append(log, b"x")
    calls: list[int] = []

    def fails(fd: int) -> None:
        calls.append(fd)
        raise OSError(errno.EIO, "I/O error")

    monkeypatch.setattr("barnabas.log.segment.log_segment._fdatasync", fails)
    assert code_of(log.flush) is ErrorCode.KAFKA_STORAGE_ERROR
    assert code_of(log.flush) is ErrorCode.KAFKA_STORAGE_ERROR
    assert len(calls) == 1
    assert log.recovery_point == 0, "unsynced batches are checked after a restart"


@pytest.mark.parametrize("what", ["open", "rename", "replace"])
def test_failed_roll_retention_or_checkpoint_takes_the_directory_offline(
    manager, monkeypatch, what
) -> None:
    log = create(manager, "t")
    for number in range(9):
        append(log, b"%d" % number * 20)
    log.advance_log_start(8)
    for segment in log.segments:
        segment.close()
    monkeypatch.setattr(os, what, broken(errno.EIO))
    if what == "rename":
        assert code_of(lambda: log.apply_retention(NOW_MS)) is ErrorCode.KAFKA_STORAGE_ERROR
    elif what == "replace":
        manager.checkpoint()
    else:
        assert code_of(lambda: log.read(8, 99, upper_bound=9)) is ErrorCode.KAFKA_STORAGE_ERROR
    monkeypatch.undo()
    assert log.volume.failure is not None
    assert not manager.is_lost or log.volume is manager.metadata_volume


def test_too_many_open_files_do_not_take_the_directory_offline(manager, monkeypatch) -> None:
    log = create(manager, "t")
    append(log, b"x")
    log.active.close()
    monkeypatch.setattr(os, "open", broken(errno.EMFILE))
    assert code_of(lambda: append(log, b"y")) is ErrorCode.KAFKA_STORAGE_ERROR
    monkeypatch.undo()
    assert log.volume.failure is None
    append(log, b"z")
    assert read_values(log) == [b"x", b"z"]


def test_read_at_a_cached_end_of_an_offline_log_is_refused(manager, monkeypatch) -> None:
    log = create(manager, "t")
    append(log, b"a")
    log.read(0, 1000, upper_bound=1)
    append(log, b"b")
    log.volume.files.close(log.active)
    monkeypatch.setattr(os, "open", broken(errno.EIO))
    assert code_of(lambda: log.read(1, 1000, upper_bound=2)) is ErrorCode.KAFKA_STORAGE_ERROR
    assert log.volume.failure is not None


def test_file_cache_closes_files_when_the_process_has_no_descriptor_left(
    manager, monkeypatch
) -> None:
    first, second = create(manager, "t"), create(manager, "u")
    append(first, b"x")
    append(second, b"x")
    second.active.close()
    real, tries = os.open, []

    def once(path: str, *rest: int) -> int:
        tries.append(path)
        if len(tries) == 1:
            raise OSError(errno.EMFILE, "Too many open files")
        return real(path, *rest)

    monkeypatch.setattr(os, "open", once)
    append(second, b"y")
    monkeypatch.undo()
    assert first.active.file is None
    assert read_values(first) == [b"x"]


def test_log_manager_without_an_online_directory_is_lost(manager) -> None:
    assert not manager.is_lost
    manager.volumes[1].fail(OSError(errno.EIO, "I/O error"))
    assert not manager.is_lost
    manager.volumes[0].fail(OSError(errno.EIO, "I/O error"))
    assert manager.is_lost
    assert code_of(lambda: create(manager, "t")) is ErrorCode.KAFKA_STORAGE_ERROR


def test_log_manager_without_the_metadata_directory_is_lost(manager) -> None:
    manager.metadata_volume.fail(OSError(errno.EIO, "I/O error"))
    assert manager.is_lost


def test_failed_directory_that_works_again_is_recovered_at_the_start(manager) -> None:
    log = create(manager, "t")
    append(log, b"x")
    log.volume.fail(OSError(errno.EIO, "I/O error"))
    manager.close(clean=True)
    assert not (log.volume.path / ".kafka_cleanshutdown").exists()
    assert read_values(reopen(log, recover=True)) == [b"x"]


def test_abort_marker_without_its_index_entry_takes_the_directory_offline(
    manager, monkeypatch
) -> None:
    """Otherwise read_committed consumers would read aborted records."""
    log = new_log(manager.volumes[1], topic="txn")
    append(log, b"x", producer=(3, 0, 0), transactional=True)
    monkeypatch.setattr(
        "barnabas.log.segment.segment_index.TransactionIndex.append", broken(errno.EMFILE)
    )
    assert code_of(lambda: append_marker(log, 3, commit=False)) is ErrorCode.KAFKA_STORAGE_ERROR
    assert log.volume.failure is not None

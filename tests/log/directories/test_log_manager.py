"""`LogManager`: ownership of data directories, clean and unclean stops, and their logs."""

import errno
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from barnabas.log import (
    DataDirectoryError,
    FileCache,
    LogConfig,
    LogManager,
    PartitionLog,
    Volume,
)
from barnabas.log.checkpoints import MetaProperties
from barnabas.protocol.types import Uuid
from barnabas.testing.batches import NOW_MS, batch
from tests.log.logs import TOPIC_ID, append, open_volume, read_values

SMALL = LogConfig(segment_bytes=400, index_interval_bytes=100, file_delete_delay_ms=1000)


@pytest.fixture
def path(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Path:
    logging.getLogger("barnabas").propagate = True
    caplog.set_level(logging.INFO, "barnabas")
    return tmp_path / "data"


def start(*paths: Path, files: FileCache | None = None, recovered: bool = True) -> LogManager:
    cache = FileCache(50) if files is None else files
    volumes = [Volume(path, cache) for path in paths]
    for volume in volumes:
        volume.lock()
        volume.load_checkpoints()
    manager = LogManager(volumes, volumes[0], SMALL)
    manager.open()
    if recovered:
        manager.recover()
    return manager


def fill(manager: LogManager, topic: str = "t", partition: int = 0, count: int = 20) -> None:
    log = manager.get(topic, partition) or manager.create(topic, TOPIC_ID, partition, SMALL)
    for number in range(count):
        append(log, b"%d" % number, timestamps=[NOW_MS])


# Locks and identity


def test_directory_in_use_is_refused_to_a_second_node(path) -> None:
    volume = open_volume(path)
    with pytest.raises(DataDirectoryError, match="is in use by another node"):
        open_volume(path)
    code = (
        f"import fcntl; file = open({str(path / '.lock')!r}, 'w');"
        "fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)"
    )
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert other.returncode != 0, "the lock excludes a Java process too"
    volume.unlock()
    open_volume(path).unlock()


def test_meta_properties_are_read_as_written(path) -> None:
    volume = open_volume(path)
    assert volume.read_properties() is None
    written = MetaProperties("cluster", 4, Uuid(b"x" * 16))
    volume.write_properties(written)
    volume.unlock()
    again = open_volume(path)
    assert again.read_properties() == written
    assert again.directory_id == Uuid(b"x" * 16)
    again.unlock()


def test_damaged_meta_properties_raise_an_error(path) -> None:
    volume = open_volume(path)
    (path / "meta.properties").write_text("version=7\n")
    with pytest.raises(
        DataDirectoryError, match=r"meta\.properties is damaged: version 7 is not 1"
    ):
        volume.read_properties()
    volume.unlock()


# Clean and unclean stops


def test_clean_stop_without_registration_keeps_the_epoch_of_the_last_one(path) -> None:
    manager = start(path)
    manager.broker_epoch = lambda: 7
    manager.close(clean=True)

    start(path).close(clean=True)  # it ends before it has registered

    manager = start(path)
    assert manager.volumes[0].previous_broker_epoch == 7
    manager.close(clean=False)
    start(path).close(clean=True)  # after a kill: the epoch is unknown
    assert b'"brokerEpoch":-1' in (path / ".kafka_cleanshutdown").read_bytes()


def test_start_after_a_clean_stop_reads_no_segment(path, monkeypatch) -> None:
    manager = start(path)
    fill(manager)
    manager.close(clean=True)
    assert (path / ".kafka_cleanshutdown").exists()
    opened: list[str] = []
    open_file = FileCache.open
    monkeypatch.setattr(
        FileCache, "open", lambda self, owner: opened.append(owner.path) or open_file(self, owner)
    )
    manager = start(path)
    assert not (path / ".kafka_cleanshutdown").exists()
    assert opened == []
    log = manager.get("t", 0)
    assert log.log_end_offset == 20
    assert [name for name in opened if name.endswith(".log")] == [log.active.path]
    assert (log.recovery_point, log.high_watermark) == (20, 20)
    manager.close(clean=False)


def test_start_after_a_kill_checks_every_log_from_its_recovery_point(path, caplog) -> None:
    manager = start(path)
    fill(manager)
    manager.get("t", 0).flush()
    manager.checkpoint()
    fill(manager)
    manager.close(clean=False)
    manager = start(path)
    assert f"recovered log={path}/t-0 from=20 end=40 lost_bytes=0" in caplog.text
    log = manager.get("t", 0)
    assert (log.log_end_offset, log.high_watermark) == (40, 20)
    manager.close(clean=False)


def test_log_that_failed_recovery_is_recovered_by_the_next_start(path, monkeypatch) -> None:
    """A clean stop in between does not change that."""
    manager = start(path)
    fill(manager)
    log = manager.get("t", 0)
    with open(log.active.path, "r+b") as file:
        file.seek(log.active.size // 2)
        file.write(b"torn")
    manager.close(clean=False)
    with monkeypatch.context() as patch:
        patch.setattr("barnabas.log.partition.log_loading.load", refuse_files)
        start(path).close(clean=True)
    manager = start(path)
    assert manager.get("t", 0).log_end_offset < 20
    manager.close(clean=False)


def refuse_files(*_: object) -> None:
    raise OSError(errno.EMFILE, "too many open files")


@pytest.mark.parametrize(
    "name", ["recovery-point-offset-checkpoint", "replication-offset-checkpoint"]
)
def test_damaged_checkpoint_is_logged_and_all_batches_are_checked(path, caplog, name) -> None:
    manager = start(path)
    fill(manager)
    manager.checkpoint()
    manager.close(clean=False)
    (path / name).write_text("0\n7\n")
    manager = start(path)
    assert f"ignoring damaged checkpoint file={path / name}" in caplog.text
    assert manager.get("t", 0).log_end_offset == 20
    manager.close(clean=False)


@pytest.mark.parametrize("is_recovered_by_use", [False, True])
def test_kill_after_a_power_loss_commits_no_record_that_replaced_a_lost_one(
    path, is_recovered_by_use
) -> None:
    """The high watermark's checkpoint is above the log end until it is written again."""
    manager = start(path)
    fill(manager)
    log = manager.get("t", 0)
    log.advance_log_start(19)
    manager.checkpoint()
    segments = log.segments
    assert len(segments) > 1
    manager.close(clean=False)
    for segment in segments[1:]:  # the power was lost before they were synced
        Path(segment.path).unlink()
    (path / "recovery-point-offset-checkpoint").unlink()

    manager = start(path, recovered=not is_recovered_by_use)
    log = manager.get("t", 0)
    end = log.log_end_offset
    assert end == log.high_watermark == log.log_start_offset < 19
    for number in range(20):  # by a leader of an unclean election; not committed yet
        log.append_as_leader(batch(b"%d" % number), leader_epoch=1, now_ms=NOW_MS)
    manager.close(clean=False)

    manager = start(path)
    log = manager.get("t", 0)
    assert (log.log_start_offset, log.high_watermark) == (end, end)
    manager.close(clean=False)


def test_truncation_below_the_high_watermark_is_checkpointed_before_an_append(path) -> None:
    manager = start(path)
    fill(manager)
    manager.checkpoint()
    log = manager.get("t", 0)
    log.truncate_to(7)  # the leader of an unclean election has other records there
    for number in range(20):
        log.append_as_leader(batch(b"%d" % number), leader_epoch=1, now_ms=NOW_MS)
    manager.close(clean=False)

    manager = start(path)
    assert manager.get("t", 0).high_watermark == 7
    manager.close(clean=False)


def test_log_start_inside_a_segment_survives_a_kill(path) -> None:
    manager = start(path)
    fill(manager)
    manager.get("t", 0).advance_log_start(7)
    manager.checkpoint_log_start_offsets()
    manager.close(clean=False)
    manager = start(path)
    assert manager.get("t", 0).log_start_offset == 7
    assert read_values(manager.get("t", 0))[0] == b"7"
    manager.close(clean=False)


def test_checkpoints_keep_the_offsets_of_logs_never_loaded(path) -> None:
    manager = start(path)
    fill(manager)
    manager.close(clean=True)
    manager = start(path)
    manager.close(clean=True)
    manager = start(path)
    log = manager.get("t", 0)
    assert (log.recovery_point, log.high_watermark) == (20, 20)
    manager.close(clean=False)


def test_flush_of_rolled_segments_advances_the_recovery_point(path) -> None:
    manager = start(path)
    fill(manager)
    logs = manager.take_rolled()
    assert [log.topic for log in logs] == ["t"]
    assert manager.take_rolled() == []
    manager.flush_rolled(logs)
    log = manager.get("t", 0)
    assert 0 < log.recovery_point == log.active.base_offset < 20
    manager.close(clean=False)


# Create and delete


def test_new_log_is_created_in_the_directory_with_the_fewest(path, tmp_path) -> None:
    manager = start(path, tmp_path / "other")
    for partition in range(6):
        fill(manager, partition=partition, count=1)
    assert [len(volume.logs) for volume in manager.volumes] == [3, 3]
    manager.close(clean=True)
    manager = start(path, tmp_path / "other")
    assert all(manager.get("t", partition).log_end_offset == 1 for partition in range(6))
    manager.close(clean=False)


def test_deleted_log_is_renamed_at_once_and_removed_after_the_delay(path) -> None:
    manager = start(path)
    long_name = "x" * 249
    fill(manager, long_name)
    log = manager.get(long_name, 0)
    slice_on_its_way = log.read(0, 100, upper_bound=20)
    manager.delete(long_name, 0)
    assert manager.get(long_name, 0) is None
    [aside] = path.glob("*-delete")
    assert len(aside.name) == 255
    assert manager.due_deletions(NOW_MS) == []
    assert manager.due_deletions(NOW_MS + 999) == []
    manager.remove_deleted(manager.due_deletions(NOW_MS + 1000))
    assert not aside.exists()
    assert len(slice_on_its_way.read()) == len(slice_on_its_way), "a fetch may still send it"
    assert manager.volumes[0].failure is None
    manager.close(clean=False)


def test_deleted_log_does_not_change_files_of_a_new_log(path) -> None:
    manager = start(path)
    fill(manager)
    old = manager.get("t", 0)
    manager.delete("t", 0)
    new = manager.create("t", Uuid(b"2" * 16), 0, SMALL)
    for call in (
        lambda: append(old, b"stray"),
        lambda: old.read(0, 100, upper_bound=20),
        lambda: old.apply_retention(NOW_MS),
        old.flush,
    ):
        with pytest.raises(Exception, match="was deleted"):
            call()
    assert (new.log_end_offset, new.size_bytes) == (0, 0)
    assert manager.volumes[0].failure is None
    manager.close(clean=False)


@pytest.mark.parametrize("restarts", [False, True])
def test_checkpoints_of_a_deleted_log_do_not_apply_to_a_new_log(path, restarts) -> None:
    manager = start(path)
    fill(manager, count=50)
    log, volume = manager.get("t", 0), manager.volumes[0]
    log.advance_log_start(45)
    log.flush()
    volume.cleaner_offsets["t", 0] = 10
    volume.write_cleaner_offsets()
    manager.checkpoint()
    manager.delete("t", 0)
    if restarts:
        manager.close(clean=False)
        manager = start(path)
    fill(manager, count=20)
    manager.close(clean=False)
    manager = start(path)
    log = manager.get("t", 0)
    assert read_values(log) == [b"%d" % number for number in range(20)]
    volume = manager.volumes[0]
    known = (volume.recovery_points, volume.log_starts, volume.cleaner_offsets)
    assert [each.get(("t", 0), 0) for each in known] == [0, 0, 0]
    manager.close(clean=False)


def test_start_removes_logs_whose_deletion_a_kill_interrupted(path) -> None:
    manager = start(path)
    fill(manager)
    manager.delete("t", 0)
    manager.close(clean=False)
    manager = start(path)
    assert list(manager.logs()) == []
    manager.remove_deleted(manager.due_deletions(NOW_MS))
    assert not list(path.glob("*-delete"))
    manager.close(clean=False)


def test_stray_log_is_quarantined_and_its_files_are_kept(path, caplog) -> None:
    manager = start(path)
    fill(manager)
    manager.quarantine("t", 0)
    assert "no topic has it log" in caplog.text
    manager.close(clean=True)
    manager = start(path)
    assert list(manager.logs()) == []
    [aside] = path.glob("t-0.*-stray")
    assert list(aside.glob("*.log"))
    manager.close(clean=False)


def test_partition_in_two_directories_is_logged_and_used_once(path, tmp_path, caplog) -> None:
    other = tmp_path / "other"
    for each in (path, other):
        manager = start(each)
        fill(manager, count=3)
        manager.close(clean=True)
    manager = start(path, other)
    manager.resolve_duplicates(lambda _: ())
    assert f"partition is in two directories path={other}/t-0" in caplog.text
    assert len(list(manager.logs())) == 1
    manager.close(clean=False)


def test_unknown_entries_of_a_directory_are_ignored(path) -> None:
    path.mkdir()
    (path / "lost+found").mkdir()
    (path / "notes-1").write_text("not a directory")
    manager = start(path)
    assert list(manager.logs()) == []
    manager.close(clean=True)
    assert (path / "notes-1").read_text() == "not a directory"


# Open files


def test_open_files_stay_below_the_limit_for_any_reads(path) -> None:
    files = FileCache(12)
    manager = start(path, files=files)
    for partition in range(40):
        fill(manager, partition=partition)
    for partition in range(40):
        assert read_values(manager.get("t", partition), 3)[0] == b"3"
    assert len(files) <= 12
    open_here = [p for p in Path("/proc/self/fd").iterdir() if str(path) in str(p.resolve())]
    assert len(open_here) <= 13 + 1, "the lock and the cached files"
    manager.close(clean=False)


# After a kill


def test_logs_are_recovered_by_threads_of_each_directory(path, tmp_path, caplog) -> None:
    paths = [path, tmp_path / "second", tmp_path / "third"]
    manager = start(*paths)
    for partition in range(12):
        fill(manager, partition=partition)
    manager.close(clean=False)
    volumes = [open_volume(each) for each in paths]
    again = LogManager(volumes, volumes[0], SMALL, recovery_threads=3)
    again.open()
    again.recover()
    assert all(log.is_loaded for log in again.logs())
    for partition in range(12):
        log = again.known("t", partition)
        assert read_values(log) == [b"%d" % number for number in range(20)]
    assert f"recovered directories={','.join(map(str, paths))} logs=12" in caplog.text
    again.close(clean=True)


def test_log_that_cannot_be_recovered_does_not_stop_the_others(path, caplog, monkeypatch) -> None:
    manager = start(path)
    for partition in range(3):
        fill(manager, partition=partition)
    manager.close(clean=False)
    load = PartitionLog.load

    def fails(log: PartitionLog, *, recover: bool) -> None:
        if log.partition == 1:
            raise ValueError("a bug")
        load(log, recover=recover)

    monkeypatch.setattr(PartitionLog, "load", fails)
    again = start(path)
    assert [log.is_loaded for log in again.logs()] == [True, False, True]
    assert "recovery failed" in caplog.text
    monkeypatch.undo()
    assert read_values(again.get("t", 1)) == [b"%d" % number for number in range(20)]
    again.close(clean=True)


def test_checkpoint_syncs_logs_with_many_unsynced_bytes_first(path, monkeypatch) -> None:
    monkeypatch.setattr("barnabas.log.directories.log_manager._UNSYNCED_BYTES_MAX", 150)
    manager = start(path)
    fill(manager, partition=0, count=3)
    fill(manager, partition=1, count=1)
    manager.checkpoint()
    assert manager.get("t", 0).recovery_point == 3
    assert manager.get("t", 1).recovery_point == 0
    manager.close(clean=False)
    again = start(path)
    assert again.volumes[0].recovery_points == {("t", 0): 3, ("t", 1): 0}
    again.close(clean=True)


def test_recovery_points_are_written_after_many_synced_bytes(path, monkeypatch) -> None:
    manager = start(path)
    monkeypatch.setattr("barnabas.log.directories.log_manager._CHECKPOINT_BYTES", 600)
    fill(manager, count=8)
    assert len(manager.get("t", 0).segments) == 2
    manager.flush_rolled(manager.take_rolled())
    assert not (path / "recovery-point-offset-checkpoint").exists()
    fill(manager, count=10)
    manager.flush_rolled(manager.take_rolled())
    point = manager.get("t", 0).recovery_point
    assert point == manager.get("t", 0).active.base_offset
    manager.close(clean=False)
    again = start(path)
    assert again.volumes[0].recovery_points == {("t", 0): point}
    again.close(clean=True)


def test_unsynced_bytes_are_the_bytes_above_the_recovery_point(path) -> None:
    manager = start(path)
    fill(manager, count=20)
    log = manager.get("t", 0)
    assert log.unsynced_bytes == log.size_bytes
    log.flush_rolled()
    assert log.unsynced_bytes == log.active.size
    log.flush()
    assert log.unsynced_bytes == 0
    size = log.size_bytes
    fill(manager, count=1)
    assert log.unsynced_bytes == log.size_bytes - size
    manager.close(clean=True)


def test_create_in_an_existing_directory_loads_its_log(path) -> None:
    """A start skips a log that it cannot read; a later `create` loses no record."""
    manager = start(path)
    fill(manager)
    manager.close(clean=True)
    volume = open_volume(path)
    log = PartitionLog(volume, "t", 0, SMALL)
    log.create(TOPIC_ID)
    assert (log.log_end_offset, log.topic_id) == (20, TOPIC_ID)
    assert read_values(log) == [b"%d" % number for number in range(20)]
    volume.unlock()


@pytest.mark.parametrize("name", ["t-007", "t-\u0661", "t-2147483648", "t-0.5", "-1"])
def test_directory_with_an_invalid_partition_name_is_ignored(path, name) -> None:
    fill(start(path))
    (path / name).mkdir()
    (path / name / "00000000000000000000.log").write_bytes(b"a friend's")
    volume = Volume(path, FileCache(9))
    manager = LogManager([volume], volume, SMALL)
    manager.open()
    manager.recover()
    assert [log.directory for log in manager.logs()] == [f"{path}/t-0"]
    assert volume.failure is None
    assert (path / name / "00000000000000000000.log").read_bytes() == b"a friend's"

"""`LogRelocation`: a log moves while it is written, and no record is lost or changed."""

import os
import re
import shutil
import threading
from pathlib import Path

import pytest

from barnabas.log import FileCache, LogConfig, LogManager, PartitionLog, Volume
from barnabas.log.checkpoints import MetaProperties
from barnabas.log.directories import log_relocation
from barnabas.log.directories.log_relocation import LogRelocation, StaleCopyError
from barnabas.log.partition.log_state import LogState
from barnabas.log.segment.log_segment import Segment
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.types import Uuid
from barnabas.testing.batches import NOW_MS
from tests.log.logs import TOPIC_ID, append, read_values, reopen

SECOND_ID = Uuid(b"\x02" * 16)
SMALL = LogConfig(segment_bytes=800, index_interval_bytes=150, file_delete_delay_ms=0)


@pytest.fixture
def manager(tmp_path: Path) -> LogManager:
    files = FileCache(50)
    volumes = [Volume(tmp_path / name, files) for name in ("a", "b")]
    for volume in volumes:
        volume.lock()
    manager = LogManager(volumes, volumes[0], SMALL)
    manager.open()
    manager.recover()
    yield manager
    manager.close(clean=False)


def create(manager: LogManager) -> PartitionLog:
    log = manager.create("t", TOPIC_ID, 0, SMALL)
    assert log.volume is manager.volumes[0]
    return log


def write(log: PartitionLog, first: int, count: int) -> None:
    for number in range(first, first + count):
        append(log, b"%04d" % number, producer=(6, 0, number), timestamps=[NOW_MS + number])


def begin(manager: LogManager) -> LogRelocation:
    move = manager.relocations.begin("t", 0, str(manager.volumes[1].path))
    assert move is not None
    return move


def test_move_of_a_log_written_meanwhile_copies_all_records(manager) -> None:
    log, other = create(manager), manager.volumes[1]
    write(log, 0, 100)
    log.advance_log_start(3)
    move = begin(manager)
    copying = threading.Thread(target=move.copy)
    copying.start()
    write(log, 100, 40)
    copying.join()
    write(log, 140, 5)
    before = log.read(3, 100, upper_bound=145)
    expected = before.read()
    move.finish()
    manager.relocations.end(move)
    assert (log.volume, log.directory) == (other, f"{other.path}/t-0")
    assert other.logs == {("t", 0): log}
    assert manager.volumes[0].logs == {}
    assert before.read() == expected, "a fetch of the old files continues"
    values = [b"%04d" % number for number in range(3, 145)]
    assert read_values(log) == values
    assert log.offset_for_timestamp(NOW_MS + 77) == (NOW_MS + 77, 77, 0)
    write(log, 145, 30)
    log.flush()
    assert log.recovery_point == 175
    manager.remove_deleted(manager.due_deletions(NOW_MS))
    assert [path.name for path in manager.volumes[0].path.iterdir() if path.is_dir()] == []
    for recover in (False, True):
        if not recover:
            log.close()
        again = reopen(log, recover=recover)
        assert read_values(again)[: len(values)] == values
        assert again.log_end_offset == 175
        assert again.topic_id == TOPIC_ID
        assert again.producers.find(6).last_sequence == 174


def test_moved_log_keeps_the_end_of_its_mirror(manager) -> None:
    log = create(manager)
    write(log, 0, 3)
    log.note_mirror_epochs(5)
    log.start_leader_epoch(5, 3)
    append(log, b"own", producer=(6, 0, 0), epoch=5)
    move = begin(manager)
    move.copy()
    move.finish()
    again = reopen(log, recover=True)
    assert again.mirror_end == 3
    assert again.producers.find(6).last_sequence == 0


def test_start_after_a_kill_checks_unsynced_bytes_of_a_moved_log(manager) -> None:
    log = create(manager)
    write(log, 0, 50)
    log.flush_rolled()
    move = begin(manager)
    move.copy()
    active = log.active.base_offset
    move.finish()
    assert log.recovery_point == active


def test_flush_during_the_last_step_does_not_advance_the_recovery_point(
    manager, monkeypatch
) -> None:
    log = create(manager)
    write(log, 0, 20)
    move = begin(manager)
    move.copy()
    flushes: list[threading.Thread] = []
    names = ("volume", "directory", "segments", "cuts")  # a flush that begins later syncs the copy
    real = {name: LogState.__dict__[name] for name in names}
    for name in names:

        def change(log: PartitionLog, value: object, slot=real[name]) -> None:
            if threading.current_thread() is threading.main_thread():
                flushes.append(threading.Thread(target=log.flush))
                flushes[-1].start()
                flushes[-1].join(0.1)
            slot.__set__(log, value)

        monkeypatch.setattr(LogState, name, property(real[name].__get__, change))
    move.finish()
    synced = log.recovery_point
    for flush in flushes:
        flush.join()
    monkeypatch.undo()
    assert (len(flushes), synced) == (4, 0)


@pytest.mark.parametrize("flushed", [True, False])
def test_durable_records_stay_durable_when_the_old_files_go(manager, monkeypatch, flushed) -> None:
    log = create(manager)
    write(log, 0, 60)
    if flushed:
        log.flush()
    else:
        log.flush_rolled()
    synced: dict[int, int] = {}
    missing: list[str] = []
    fsync, rename = os.fsync, os.rename

    def note(fd: int) -> None:
        fsync(fd)
        stat = os.fstat(fd)
        synced[stat.st_ino] = stat.st_size

    def look(old: str, new: str) -> None:
        if new.endswith("-delete"):
            there = manager.volumes[1].path / "t-0"
            for path in (
                there.parent,
                there,
                *sorted(there.glob("*.*index")),
                *there.glob("*.log"),
            ):
                stat = path.stat()
                if stat.st_ino not in synced or synced[stat.st_ino] < stat.st_size:
                    missing.append(path.name)
        rename(old, new)

    monkeypatch.setattr(os, "fsync", note)
    monkeypatch.setattr(os, "rename", look)
    move = begin(manager)
    move.copy()
    write(log, 60, 2)
    recovery_point = log.recovery_point
    move.finish()
    active = Path(log.active.path).stem
    assert [name for name in missing if active not in name] == []
    assert bool(missing) is not flushed
    assert log.recovery_point == recovery_point
    assert read_values(reopen(log, recover=True)) == [b"%04d" % number for number in range(62)]


def test_target_that_cannot_be_synced_keeps_the_log_in_its_directory(manager, monkeypatch) -> None:
    log = create(manager)
    write(log, 0, 20)
    move = begin(manager)
    move.copy()

    def refuse(path: object) -> None:
        if path == move.target.path:
            raise OSError(5, "I/O error")

    monkeypatch.setattr(log_relocation, "sync_path", refuse)
    with pytest.raises(OSError, match="I/O error"):
        move.finish()
    manager.relocations.end(move)
    assert directories(manager) == ["a/t-0"]
    write(log, 20, 1)
    assert len(read_values(log)) == 21


def test_flush_error_of_the_old_disk_after_a_move_fails_that_disk_only(
    manager, monkeypatch
) -> None:
    log = create(manager)
    write(log, 0, 5)
    move = begin(manager)
    move.copy()

    def fail(segment: Segment) -> None:
        move.finish()
        raise OSError(5, "I/O error")

    monkeypatch.setattr(Segment, "sync_batches", fail)
    with pytest.raises(KafkaError):
        log.flush()
    assert [volume.failure is None for volume in manager.volumes] == [False, True]
    assert log.volume is manager.volumes[1]


def test_move_follows_retention_and_rolls(manager) -> None:
    log = create(manager)
    write(log, 0, 60)
    move = begin(manager)
    move.copy()
    log.advance_log_start(30)
    log.apply_retention(NOW_MS)
    write(log, 60, 30)
    move.finish()
    assert read_values(log) == [b"%04d" % number for number in range(30, 90)]
    assert len(list(Path(log.directory).glob("*.log"))) == len(log.segments)


@pytest.mark.parametrize("length", [214, 249])
def test_move_of_a_topic_with_a_too_long_name_is_refused(manager, length) -> None:
    """KAFKA-4893: the copy could not be found again under a shortened name."""
    append(manager.create("x" * length, TOPIC_ID, 0, SMALL), b"stays")
    with pytest.raises(KafkaError) as refused:
        manager.relocations.begin("x" * length, 0, str(manager.volumes[1].path))
    assert refused.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert directories(manager) == ["a/" + "x" * length + "-0"]


def test_move_fails_when_the_log_is_truncated_or_deleted(manager) -> None:
    log = create(manager)
    write(log, 0, 60)
    move = begin(manager)
    move.copy()
    log.truncate_to(log.log_end_offset - 1)
    with pytest.raises(StaleCopyError):
        move.finish()
    manager.relocations.end(move)
    assert log.volume is manager.volumes[0]
    move = begin(manager)
    manager.delete("t", 0)
    with pytest.raises(StaleCopyError):
        move.finish()


def test_move_with_an_invalid_target_or_partition_is_refused(manager) -> None:
    log = create(manager)
    write(log, 0, 1)
    assert manager.relocations.begin("t", 0, str(manager.volumes[0].path)) is None
    for topic, path, code in (
        ("t", "/nowhere", ErrorCode.LOG_DIR_NOT_FOUND),
        ("u", str(manager.volumes[1].path), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ):
        with pytest.raises(KafkaError) as raised:
            manager.relocations.begin(topic, 0, path)
        assert raised.value.code is code
    manager.volumes[1].fail(OSError(5, "I/O error"))
    with pytest.raises(KafkaError) as raised:
        begin(manager)
    assert raised.value.code is ErrorCode.KAFKA_STORAGE_ERROR


def restarted(manager: LogManager, root: Path) -> LogManager:
    """Return the manager of a start on `root` after a kill of `manager`."""
    files = FileCache(50)
    volumes = [Volume(root / volume.path.name, files) for volume in manager.volumes]
    for volume in volumes:
        volume.lock()
        volume.load_checkpoints()
    again = LogManager(volumes, volumes[0], SMALL)
    again.open()
    again.recover()
    return again


def directories(manager: LogManager) -> list[str]:
    manager.remove_deleted(manager.due_deletions(NOW_MS))
    return [
        f"{volume.path.name}/{path.name}"
        for volume in manager.volumes
        for path in sorted(volume.path.iterdir())
        if path.is_dir()
    ]


def test_move_killed_at_any_step_loses_no_record_and_resumes(
    manager, tmp_path, monkeypatch
) -> None:
    log = create(manager)
    write(log, 0, 60)
    log.advance_log_start(3)
    for volume in manager.volumes:
        volume.write_checkpoints()
    values = [b"%04d" % number for number in range(3, 60)]
    steps = [(os, "sendfile"), (os, "rename"), (os, "replace"), (os, "unlink")]
    real = {name: getattr(module, name) for module, name in [*steps, (shutil, "copyfile")]}
    resumed = 0
    for allowed in range(200):
        root = tmp_path / f"copy-{allowed}"
        for volume in manager.volumes:
            shutil.copytree(volume.path, root / volume.path.name)
        victim = restarted(manager, root)
        done: list[str] = []
        for module, name in [*steps, (shutil, "copyfile")]:

            def step(*arguments, name=name, done=done, allowed=allowed, **more) -> object:
                if len(done) == allowed:
                    raise KeyboardInterrupt
                done.append(name)
                return real[name](*arguments, **more)

            monkeypatch.setattr(module, name, step)
        finished = True
        try:
            move = begin(victim)
            move.copy()
            move.finish()
        except KeyboardInterrupt:
            finished = False
        monkeypatch.undo()
        for volume in victim.volumes:
            volume.unlock()
        again = restarted(manager, root)
        again.resolve_duplicates(lambda _: ())
        for move in again.relocations.resume():
            resumed += 1
            move.resume()
            move.copy()
            move.finish()
            again.relocations.end(move)
        assert read_values(again.get("t", 0)) == values, allowed
        assert again.get("t", 0).log_start_offset == 3, allowed
        found = [each for each in directories(again) if not each.endswith("-stray")]
        assert found in (["b/t-0"], ["a/t-0"]), allowed
        again.close(clean=False)
        if finished:
            assert resumed > 20
            return
    raise AssertionError("the move never ends")


def test_resumed_copy_keeps_only_bytes_equal_to_the_log(manager) -> None:
    """Compaction, truncation or a power loss may have changed the log or the copy."""
    log = create(manager)
    write(log, 0, 60)
    move = begin(manager)
    move.copy()
    first, second, third = sorted(Path(move.directory).glob("*.log"))[:3]
    content = bytearray(second.read_bytes())
    content[100] ^= 1
    second.write_bytes(content)
    with third.open("ab") as file:
        file.write(b"more than there is")
    differ = {int(second.stem), int(third.stem)}
    (first.parent / "00000000000000000777.log").write_bytes(b"x")
    (first.parent / "00000000000000000000.index").write_bytes(b"x")
    manager.close(clean=False)
    again = restarted(manager, manager.volumes[0].path.parent)
    [move] = again.relocations.resume()
    move.resume()
    copied = {segment.base_offset: size for segment, size in move.copied.items()}
    sizes = {segment.base_offset: segment.size for segment in again.get("t", 0).segments}
    assert copied == {base: sizes[base] for base in sizes.keys() - differ}
    assert len(list(first.parent.iterdir())) == len(sizes)
    move.copy()
    move.finish()
    assert read_values(again.get("t", 0)) == [b"%04d" % number for number in range(60)]
    again.close(clean=False)


def test_cancelled_move_does_not_resume_after_a_kill(manager, tmp_path) -> None:
    write(create(manager), 0, 60)
    move = begin(manager)
    move.copy()
    assert manager.relocations.begin("t", 0, str(manager.volumes[0].path)) is None
    assert move.is_stopped
    shutil.copytree(manager.volumes[0].path, tmp_path / "killed" / "a")
    shutil.copytree(manager.volumes[1].path, tmp_path / "killed" / "b")
    again = restarted(manager, tmp_path / "killed")
    assert again.relocations.resume() == []
    assert directories(again) == ["a/t-0"]
    again.close(clean=False)


def test_interrupted_move_with_the_longest_name_resumes(manager) -> None:
    topic = "x" * 213
    append(manager.create(topic, TOPIC_ID, 0, SMALL), b"moves")
    move = manager.relocations.begin(topic, 0, str(manager.volumes[1].path))
    assert move is not None
    assert len(Path(move.directory).name) == 255
    move.copy()
    manager.close(clean=False)
    again = restarted(manager, manager.volumes[0].path.parent)
    assert [each.directory for each in again.relocations.resume()] == [move.directory]
    again.close(clean=False)


def ready_copy_alone(manager: LogManager) -> LogManager:
    """Return a start after a kill before the last step of a move, without the old directory."""
    log = create(manager)
    write(log, 0, 60)
    log.advance_log_start(3)
    move = begin(manager)
    move.copy()
    move.make_ready()
    manager.close(clean=False)
    shutil.rmtree(log.directory)
    again = restarted(manager, manager.volumes[0].path.parent)
    assert again.relocations.interrupted() == [("t", 0)]
    again.volumes[1].properties = MetaProperties("cluster", 1, SECOND_ID)
    return again


def test_copy_replaces_a_missing_log_in_the_directory_of_the_metadata(manager) -> None:
    """KAFKA-16082: the node ended after it reported the move and before the last step."""
    again = ready_copy_alone(manager)
    log = again.create("t", TOPIC_ID, 0, SMALL, SECOND_ID)
    assert directories(again) == ["b/t-0"]
    assert read_values(log, 0) == [b"%04d" % number for number in range(60)]
    assert log.topic_id == TOPIC_ID
    assert again.relocations.resume() == []
    assert again.get("t", 0) is log
    write(log, 60, 5)
    again.close(clean=True)


def test_copy_of_an_earlier_topic_with_the_same_name_is_not_used(manager) -> None:
    again = ready_copy_alone(manager)
    log = again.create("t", Uuid(b"\x08" * 16), 0, SMALL, SECOND_ID)
    assert log.log_end_offset == 0
    assert again.relocations.resume() == []
    assert directories(again) == ["b/t-0"]
    again.close(clean=False)


@pytest.mark.parametrize("stale", ["a", "b"])
def test_duplicate_logs_of_equal_rank_use_the_one_with_more_records(manager, stale) -> None:
    """The old directory of a move failed before its log could be renamed."""
    log, root = create(manager), manager.volumes[0].path.parent
    write(log, 0, 30)
    manager.close(clean=False)
    other = root / "b" / "t-0"
    shutil.copytree(log.directory, other)
    behind = root / stale / "t-0"
    last = max(behind.glob("*.log"))
    os.truncate(last, last.stat().st_size // 2)
    (behind / "notes.log").write_bytes(b"mine")
    again = restarted(manager, root)
    again.resolve_duplicates(lambda _: ())
    used = {"a": "b", "b": "a"}[stale]
    assert again.get("t", 0).directory == str(root / used / "t-0")
    assert len(read_values(again.get("t", 0))) == 30
    assert [len(volume.logs) for volume in again.volumes] == [used == "a", used == "b"]
    strays = [each for each in directories(again) if each.endswith("-stray")]
    assert [each[0] for each in strays] == [stale]
    again.close(clean=False)


def test_duplicate_logs_use_the_one_of_higher_rank(manager) -> None:
    """A directory came back after a copy replaced its log in the metadata."""
    log, root = create(manager), manager.volumes[0].path.parent
    write(log, 0, 30)
    manager.close(clean=False)
    shutil.copytree(log.directory, root / "b" / "t-0")
    again = restarted(manager, root)
    write(again.volumes[0].logs["t", 0], 30, 20)
    again.resolve_duplicates(lambda each: (each.volume is again.volumes[1],))
    assert again.get("t", 0).directory == str(root / "b" / "t-0")
    assert len(read_values(again.get("t", 0))) == 30
    assert [each[0] for each in directories(again) if each.endswith("-stray")] == ["a"]
    again.close(clean=False)


def test_copy_without_a_log_is_quarantined(manager) -> None:
    again = ready_copy_alone(manager)
    assert again.relocations.resume() == []
    [stray] = directories(again)
    assert re.fullmatch(r"b/t-0\.[0-9a-f]{32}-stray", stray)
    assert sum(path.stat().st_size for path in (again.volumes[1].path / stray[2:]).glob("*.log"))
    again.close(clean=False)


def test_copy_is_kept_when_the_disk_of_its_log_fails(manager) -> None:
    log = create(manager)
    write(log, 0, 30)
    move = begin(manager)
    move.copy()
    manager.volumes[0].fail(OSError(5, "I/O error"))
    manager.relocations.end(move)
    assert manager.relocations.active == {}
    assert any(each.endswith("-future") for each in directories(manager))


def test_copy_is_kept_when_its_log_is_offline(manager) -> None:
    log = create(manager)
    write(log, 0, 30)
    begin(manager).copy()
    manager.close(clean=False)
    again = restarted(manager, manager.volumes[0].path.parent)
    again.volumes[0].fail(OSError(5, "I/O error"))
    assert again.relocations.resume() == []
    assert any(each.endswith("-future") for each in directories(again))
    again.close(clean=False)


def test_copy_in_portions_equals_the_log(manager) -> None:
    log, other = create(manager), manager.volumes[1]
    write(log, 0, 60)
    move = begin(manager)
    left, portions = move.left_bytes, []
    while copied := move.copy(300):
        portions.append(copied)
        assert move.left_bytes == left - sum(portions)
    assert sum(portions) == left
    assert set(portions[:-1]) == {300}
    assert len(portions) > 4
    move.make_ready()
    move.finish()
    assert log.volume is other
    assert read_values(log) == [b"%04d" % number for number in range(60)]

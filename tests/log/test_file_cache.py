"""`FileCache` with more logs than descriptors: all are written, read, rolled and retained."""

import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.log import FileCache, LogConfig, LogManager, Volume
from barnabas.log.file_cache import OpenFile
from barnabas.testing.batches import NOW_MS
from tests.log.logs import TOPIC_ID, append, read_values

LOGS = 1500
OPEN_FILES = 96
CONFIG = LogConfig(segment_bytes=300, index_interval_bytes=50, retention_bytes=100)


@pytest.fixture
def few_files() -> Iterator[int]:
    """Allow the process `OPEN_FILES` more files, half of them for logs, as `serve` does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    others = len(os.listdir("/dev/fd"))  # for example files that earlier tests left open
    resource.setrlimit(resource.RLIMIT_NOFILE, (others + OPEN_FILES, hard))
    yield OPEN_FILES // 2
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def start(path: Path, files_max: int) -> LogManager:
    volume = Volume(path, FileCache(files_max))
    volume.lock()
    volume.load_checkpoints()
    manager = LogManager([volume], volume, CONFIG, recovery_threads=2)
    manager.open()
    manager.recover()
    return manager


def test_logs_share_a_limited_number_of_descriptors(tmp_path: Path, few_files: int) -> None:
    manager = start(tmp_path / "data", few_files)
    for number in range(LOGS):
        manager.create("t", TOPIC_ID, number, CONFIG)
    for turn in range(6):
        for log in manager.logs():
            append(log, b"%d" % turn * 20)
    volume = manager.volumes[0]
    assert volume.failure is None
    assert len(volume.files) <= few_files
    assert len(os.listdir("/dev/fd")) < resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    expected = [b"%d" % turn * 20 for turn in range(6)]
    for clean in (False, True):
        manager.close(clean=clean)
        manager = start(tmp_path / "data", few_files)
        for number in range(LOGS):
            log = manager.get("t", number)
            assert read_values(log) == expected
            assert log.offset_for_timestamp(NOW_MS) == (NOW_MS, 0, 0)
            log.advance_high_watermark(log.log_end_offset)
    assert sum(log.apply_retention(NOW_MS) for log in manager.logs()) >= LOGS
    assert len(manager.volumes[0].files) <= few_files
    manager.close(clean=False)


class Reopened:
    """An owner whose file another thread opens again as soon as the cache closes it."""

    def __init__(self, path: str, cache: FileCache) -> None:
        self.path = path
        self._cache = cache
        self._file: OpenFile | None = None
        self._again = True

    @property
    def file(self) -> OpenFile | None:
        """Return the owners in the cache."""
        return self._file

    @file.setter
    def file(self, file: OpenFile | None) -> None:
        self._file = file
        if file is None and self._again:
            self._again = False
            self._cache.open(self)


def test_file_opened_again_during_its_close_is_counted(tmp_path: Path) -> None:
    cache = FileCache(10)
    owner = Reopened(str(tmp_path / "file"), cache)
    cache.open(owner)
    cache.close(owner)
    assert owner.file is not None
    assert len(cache) == 1
    cache.close(owner)
    assert (owner.file, len(cache)) == (None, 0)

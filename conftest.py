"""Settings for all tests."""

import gc
import os
import re
import shutil
import signal
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, settings

_IN_MEMORY: Final = Path("/dev/shm")
_RUN: Final = "barnabas-tests-"
_FREE_MIN: Final = 12 << 30
"""Bytes of memory that are free where the files of tests, 3 GB, fit beside their processes."""


def _has_memory_for_files() -> bool:
    """True where a file system in memory takes programs, and has enough room."""
    if not os.access(_IN_MEMORY, os.W_OK):
        return False
    found = os.statvfs(_IN_MEMORY)
    free = re.search(r"MemAvailable: +(\d+) kB", Path("/proc/meminfo").read_text())
    available = min(found.f_bavail * found.f_bsize, int(free[1]) << 10 if free else 0)
    return available >= _FREE_MIN and not found.f_flag & os.ST_NOEXEC


def _directory_of_run() -> Path:
    """Make the directory in memory of this run's files.

    Remove those of runs that have ended: a run that failed leaves its files for a look, and so does
    one that was killed.
    """
    for directory in _IN_MEMORY.glob(f"{_RUN}*"):
        if not Path("/proc", directory.name.removeprefix(_RUN)).exists():
            shutil.rmtree(directory, ignore_errors=True)
    made = _IN_MEMORY / f"{_RUN}{os.getpid()}"
    made.mkdir(exist_ok=True)
    made.chmod(0o1777)  # as /tmp: servers of databases run as other users
    return made


# Tests write hundreds of thousands of small files: on a disk that takes 6 % of both cores.
_directory = None
if "TMPDIR" not in os.environ and _has_memory_for_files():
    _directory = _directory_of_run()
    os.environ["TMPDIR"] = str(_directory)
    # pytest has asked for the directory before, and `tempfile` keeps what it found.
    tempfile.tempdir = None

# A shell may start tests in the background with SIGINT ignored, and child processes inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# On a busy machine an example may take any time.
settings.register_profile("any speed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any speed")


@pytest.fixture
def disk_path() -> Iterator[Path]:
    """Make a directory on a disk, which reads without the page cache and evicts pages."""
    with tempfile.TemporaryDirectory(prefix="barnabas-", dir="/var/tmp") as directory:
        yield Path(directory)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect the tests without the garbage collector, which then leaves out their objects.

    It finds no garbage among the half million objects of eleven thousand tests and their modules;
    to scan them repeatedly takes as long as the collection itself.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(exitstatus: int) -> None:
    """Remove the files of a run without failures, also what killed processes left."""
    if _directory and exitstatus == pytest.ExitCode.OK:
        shutil.rmtree(_directory, ignore_errors=True)

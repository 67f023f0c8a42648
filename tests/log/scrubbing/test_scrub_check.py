"""`scrub_check`: finds bit rot in a stopped directory, and by the scrubber in a node."""

import ctypes
import errno
import fcntl
import mmap
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from barnabas.log import LogConfig, PartitionLog
from barnabas.log.scrubbing import check_log
from barnabas.server.monitoring.metrics import Metrics
from barnabas.testing import Node
from tests.log.logs import append, new_log, open_volume
from tests.processes import refuse_first

SMALL = LogConfig(segment_bytes=800)
LIBC = ctypes.CDLL(None, use_errno=True)


@pytest.fixture
def log(disk_path: Path) -> Iterator[PartitionLog]:
    log = new_log(open_volume(disk_path / "data"), SMALL)
    for number in range(60):
        append(log, b"%04d" % number)
    yield log
    log.volume.unlock()


def faults(log: PartitionLog, *, with_active: bool = False) -> list[tuple[str, str]]:
    return [
        (Path(each.path).name, each.fault)
        for each in check_log(log.directory, lambda _: None, with_active=with_active)
        if each.fault is not None
    ]


def change(path: str, at: int, to: bytes) -> None:
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(to)


def test_check_of_a_valid_log_reads_all_bytes_without_a_fault(log) -> None:
    read: list[int] = []
    found = list(check_log(log.directory, read.append, with_active=True))
    assert [each.path for each in found] == [segment.path for segment in log.segments]
    assert {each.fault for each in found} == {None}
    assert sum(read) == sum(each.size for each in found) == log.size_bytes


@pytest.mark.parametrize(
    ("at", "to", "fault"),
    [(70, b"!!", "wrong crc"), (8, b"\x7f", "no valid batch"), (16, b"\x01", "no valid batch")],
)
def test_check_reports_each_damage_with_its_segment(log, at, to, fault) -> None:
    victim = log.segments[1]
    change(victim.path, at, to)
    [(name, told)] = faults(log)
    assert name == Path(victim.path).name
    assert fault in told


def test_check_reports_cut_files_and_offsets_out_of_order(log) -> None:
    first, second, third = (segment.path for segment in log.segments[:3])
    content = Path(first).read_bytes()
    Path(first).write_bytes(content[:-5])
    Path(second).write_bytes(content)
    Path(third).write_bytes(Path(third).read_bytes() * 2)
    assert [name for name, _ in faults(log)] == [Path(p).name for p in (first, second, third)]


def is_cached(path: str) -> bool:
    """Return True when the page cache holds the file's first page. This reads nothing."""
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as pages:
        start = ctypes.c_char.from_buffer(pages)
        page = (ctypes.c_ubyte * 1)()
        failed = LIBC.mincore(ctypes.byref(start), ctypes.c_size_t(1), page)
        number = ctypes.get_errno()
        del start  # a map with a pointer into it cannot be closed
    if failed:
        raise OSError(number, os.strerror(number), path)
    return bool(page[0] & 1)


def evict(path: str) -> bool:
    """Take the file out of the page cache; return False when the file system keeps it there.

    The system keeps a page that something else holds at that moment, so this asks again.
    """
    for _ in range(100):
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        if not is_cached(path):
            return True
        time.sleep(0.02)
    return False


def test_check_reads_the_disk_and_keeps_the_page_cache(log) -> None:
    cold, hot = (segment.path for segment in log.segments[:2])
    if not evict(cold):
        pytest.skip("this file system keeps files in memory")
    assert is_cached(hot)
    assert faults(log) == []
    assert (is_cached(cold), is_cached(hot)) == (False, True)


def test_check_reads_batches_larger_than_its_buffer(log) -> None:
    log.update_config(LogConfig(max_message_bytes=9 << 20))
    for _ in range(2):
        append(log, os.urandom(3 << 20), b"small")
    log.roll(0)
    victim = log.segments[-2]
    assert faults(log) == []
    change(victim.path, victim.size - 100, b"!!")
    assert [name for name, _ in faults(log)] == [Path(victim.path).name]


def test_check_works_on_a_file_system_without_direct_reads(log, monkeypatch) -> None:
    real = os.preadv

    def preadv(fd: int, *arguments: object) -> int:
        if fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_DIRECT:
            raise OSError(errno.EINVAL, "Invalid argument")
        return real(fd, *arguments)

    monkeypatch.setattr(os, "preadv", preadv)
    assert faults(log) == []
    change(log.segments[1].path, 70, b"!!")
    assert [name for name, _ in faults(log)] == [Path(log.segments[1].path).name]


def test_check_of_the_active_segment_is_optional(log) -> None:
    with open(log.active.path, "ab") as file:
        file.write(b"half a batch")
    assert faults(log) == []
    assert len(faults(log, with_active=True)) == 1


def test_scrubber_of_a_node_logs_bit_rot(caplog) -> None:
    config = {"barnabas.scrub.interval.ms": "50", "log.segment.bytes": "1048576"}
    with Node(config=config) as node:
        assert node.server is not None
        scrubber = node.server.background.scrubber
        producer = Producer({"bootstrap.servers": node.bootstrap, "linger.ms": 0})
        for number in range(300):
            producer.produce("t", b"%04d" % number * 2000)
        assert producer.flush(60) == 0
        wait_for_a_round(scrubber)
        assert (scrubber.rotten, scrubber.bytes > 1_000_000) == ({}, True)
        [first, *_] = sorted((node.data / "t-0").glob("*.log"))
        change(str(first), 5_000, b"!")
        wait_for_a_round(scrubber)
        assert list(scrubber.rotten) == [str(first)]
        assert "barnabas_scrubber_rotten_segments 1.0" in Metrics(node.server).text().decode()
        [line, *_] = [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]
        assert f"bit rot found segment={first}" in line


def test_scrubber_continues_when_a_helper_cannot_be_started(monkeypatch) -> None:
    refused = refuse_first(monkeypatch, "scrubbing")
    config = {"barnabas.scrub.interval.ms": "50", "log.segment.bytes": "1048576"}
    with Node(config=config) as node:
        assert node.server is not None
        producer = Producer({"bootstrap.servers": node.bootstrap, "linger.ms": 0})
        for number in range(300):
            producer.produce("t", b"%04d" % number * 2000)
        assert producer.flush(60) == 0
        scrubber = node.server.background.scrubber
        wait_for_a_round(scrubber)
        assert (len(refused), scrubber.bytes > 1_000_000) == (1, True)


def wait_for_a_round(scrubber) -> None:
    """Wait for a round that starts after this call."""
    rounds, deadline = scrubber.rounds, time.monotonic() + 60
    while scrubber.rounds < rounds + 2:
        assert time.monotonic() < deadline
        time.sleep(0.02)

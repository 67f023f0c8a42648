"""A disk that is really full under a mirror: it keeps what it acknowledged, and continues."""

import shutil
import subprocess
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.protocol.batches.batch_header import read_header
from barnabas.protocol.errors import ErrorCode
from barnabas.testing.batches import batch, marker
from barnabas.testing.mirrored import placed
from compat_tests.servers import BarnabasProcess
from tests.crash.test_mirror_failover import read
from tests.server import mirror_flow

VALUE = b"v" * 30_000
COUNT = 240
PER_REQUEST = 1


def mount(path: Path, options: str) -> bool:
    """Mount a file system in memory; False where this user may not."""
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(path)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Return a directory with 4 MB of room."""
    path = tmp_path / "small"
    path.mkdir()
    if shutil.which("mount") is None or not mount(path, "size=4m"):
        pytest.skip("this user may not mount file systems: run the test as root")
    try:
        yield path
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


@pytest.fixture
def node(small_disk: Path, tmp_path: Path) -> Iterator[BarnabasProcess]:
    """Return a node with its partitions on the small disk, and its metadata on another one."""
    process = BarnabasProcess({"metadata.log.dir": str(tmp_path / "metadata")})
    process.data = small_disk / "data"
    try:
        process.start()
        yield process
    finally:
        process.close()


def source_log() -> list[bytes]:
    """Return batches with gaps, one in three transactional, and markers that abort them."""
    found: list[bytes] = []
    offset = 0
    for number in range(COUNT // 3):
        offset += number % 4
        for data in (
            batch(VALUE + b"%d" % number, producer=(7, 0, number)),
            batch(VALUE + b"t%d" % number, producer=(8, 0, number), transactional=True),
            marker(8, commit=False),
        ):
            found.append(placed(data, offset))
            offset = read_header(found[-1]).next_offset
    return found


def copy(node: BarnabasProcess, source: list[bytes]) -> int:
    """Copy from the end of the mirror on until the node fails; return the acknowledged end."""
    starts = [read_header(each).base_offset for each in source]
    end = mirror_flow.offset(node.bootstrap, mirror_flow.LATEST)
    while True:
        first = bisect_left(starts, end)
        sent = source[first : first + PER_REQUEST]
        if not sent:
            return end
        try:
            answer = mirror_flow.copy(node.bootstrap, sent, end)
        except (OSError, EOFError):
            return end
        if answer.error_code:
            assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            return end
        end = read_header(sent[-1]).next_offset


def test_a_mirror_on_a_full_disk_keeps_what_it_acknowledged(
    node: BarnabasProcess, small_disk: Path
) -> None:
    source = source_log()
    end = read_header(source[-1]).next_offset
    assert mirror_flow.create_mirror(node.bootstrap) == 0
    acknowledged = copy(node, source)
    assert 0 < acknowledged < end, "the disk was not full"
    node.kill()
    assert mount(small_disk, "remount,size=64m")
    node.start()
    found = mirror_flow.offset(node.bootstrap, mirror_flow.LATEST)
    assert acknowledged <= found < end
    assert read(node.bootstrap, "read_uncommitted") == records_below(source, found)
    assert copy(node, source) == end
    assert read(node.bootstrap, "read_uncommitted") == records_below(source, end)
    committed = [
        each for each in records_below(source, end) if not each[1].startswith(VALUE + b"t")
    ]
    assert read(node.bootstrap, "read_committed") == committed


def records_below(source: list[bytes], end: int) -> list[tuple[int, bytes]]:
    """Return offset and value of the source's records below an offset."""
    found: list[tuple[int, bytes]] = []
    for number, data in enumerate(source):
        header = read_header(data)
        if header.is_control or header.base_offset >= end:
            continue
        mark = b"" if number % 3 == 0 else b"t"
        found.append((header.base_offset, VALUE + mark + b"%d" % (number // 3)))
    return found

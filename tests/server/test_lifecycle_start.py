"""Checks before a node opens its data: addresses and limits of the process."""

import logging
import os
import resource
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from barnabas.config import Listener as Endpoint
from barnabas.config import NodeConfig
from barnabas.server.node import startup_checks
from barnabas.server.node.startup_checks import raise_open_files_limit
from barnabas.server.node_failures import StartupError
from barnabas.server.transport.acceptor import Limits, bind
from barnabas.sockets import file_ranges
from barnabas.testing import Node


@pytest.fixture
def limits() -> Limits:
    return Limits.of(NodeConfig.load())


def test_limits_are_read_from_the_properties_of_kafka() -> None:
    config = NodeConfig.load(
        None,
        {
            "max.connections": "10",
            "max.connections.per.ip": "3",
            "max.connections.per.ip.overrides": "127.0.0.1:7, ::1:8",
            "socket.request.max.bytes": "1000",
            "connections.max.idle.ms": "5000",
        },
    )
    limits = Limits.of(config)
    assert limits.connections_max == 10
    assert limits.connections_per_ip_max == 3
    assert limits.connections_per_ip_overrides == {"127.0.0.1": 7, "::1": 8}
    assert limits.request_bytes_max == 1000
    assert limits.idle_ms_max == 5000


def test_bind_to_a_used_port_raises_one_line(limits: Limits) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        endpoint = Endpoint("PLAINTEXT", "127.0.0.1", taken.getsockname()[1], "PLAINTEXT")
        with pytest.raises(StartupError) as raised:
            bind(endpoint, limits)
    assert str(raised.value) == f"listeners: {endpoint} cannot be opened: Address already in use"


def test_bind_to_a_host_of_another_machine_raises_one_line(limits: Limits) -> None:
    with pytest.raises(StartupError, match=r"listeners: PLAINTEXT://192\.0\.2\.1:0 cannot be"):
        bind(Endpoint("PLAINTEXT", "192.0.2.1", 0, "PLAINTEXT"), limits)


def test_bind_to_an_unknown_host_raises_one_line(limits: Limits) -> None:
    with pytest.raises(StartupError, match=r"listeners: PLAINTEXT://no-such\.invalid:0"):
        bind(Endpoint("PLAINTEXT", "no-such.invalid", 0, "PLAINTEXT"), limits)


def test_bind_to_an_empty_host_accepts_ipv4(limits: Limits) -> None:
    with bind(Endpoint("PLAINTEXT", "", 0, "PLAINTEXT"), limits) as sock:
        sock.listen()
        with socket.create_connection(("127.0.0.1", sock.getsockname()[1]), timeout=60):
            pass


def test_open_files_limit_is_raised_to_the_hard_limit() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, hard), hard))
        assert raise_open_files_limit() == hard
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_open_files_limit_below_the_recommendation_is_logged_with_a_hint(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(startup_checks, "OPEN_FILES_RECOMMENDED", 10**9)
    with caplog.at_level(logging.WARNING, "barnabas"):
        raise_open_files_limit()
    assert "ulimit -n" in caplog.text


def test_start_up_on_windows_raises_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(startup_checks.sys, "platform", "win32")
    with pytest.raises(StartupError, match="WSL"):
        startup_checks.refuse_unknown_systems()


def is_read_at_once(fd: int) -> bool:
    """Return True when the first byte of a file needs no disk access, or the system cannot say."""
    try:
        return os.preadv(fd, [bytearray(1)], 0, os.RWF_NOWAIT) == 1
    except BlockingIOError:
        return False
    except OSError:
        return True


def test_read_if_cached_of_evicted_pages_returns_none(disk_path: Path) -> None:
    """Each question makes the system read the pages, and an eviction may leave some of them."""
    size = 4 * 1024 * 1024
    with (
        tempfile.TemporaryFile(dir=disk_path) as file,
        tempfile.TemporaryFile(dir=disk_path) as other,
    ):
        fd = file.fileno()
        for each in (file, other):
            each.write(os.urandom(size))
            each.flush()
            os.fsync(each.fileno())
        assert file_ranges.is_cached(fd, 0, size)

        def evicted(asked: int, read: Callable[[], bool]) -> bool:
            """Return True when one of 20 evictions of a file shows in the answer."""
            for _ in range(20):
                os.posix_fadvise(asked, 0, 0, os.POSIX_FADV_DONTNEED)
                if not read():
                    return True
            return False

        if not evicted(other.fileno(), lambda: is_read_at_once(other.fileno())):
            pytest.skip("this file system keeps its pages, or does not report them")
        assert evicted(fd, lambda: file_ranges.is_cached(fd, 0, size))
        assert evicted(fd, lambda: file_ranges.read_if_cached(fd, 0, 4096) is not None)
        file_ranges.read_ahead(fd, 0, size)
        assert file_ranges.is_cached(fd, 0, size)
        assert file_ranges.read_if_cached(fd, 0, 4096) is not None


def test_start_up_with_an_unavailable_assignor_fails_before_anything_is_written(
    tmp_path: Path,
) -> None:
    data = tmp_path / "data"
    node = Node(data, {"group.consumer.assignors": "uniform,no_such_module:Assignor"})
    with pytest.raises(StartupError, match="no_such_module:Assignor is neither uniform, range"):
        node.start()
    assert not data.exists()

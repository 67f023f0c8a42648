"""What is found before a node touches its data: addresses and limits of the process."""

import logging
import os
import resource
import socket
import tempfile
from pathlib import Path

import pytest

from barnabas.config import Listener as Endpoint
from barnabas.config import NodeConfig
from barnabas.server.node import startup_checks
from barnabas.server.node.startup_checks import StartupError, raise_open_files_limit
from barnabas.server.transport import sending
from barnabas.server.transport.acceptor import Limits, bind
from barnabas.testing import Node


@pytest.fixture
def limits() -> Limits:
    return Limits.of(NodeConfig.load())


def test_limits_are_read_from_kafkas_properties() -> None:
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


def test_a_port_in_use_is_told_in_one_line(limits: Limits) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        endpoint = Endpoint("PLAINTEXT", "127.0.0.1", taken.getsockname()[1], "PLAINTEXT")
        with pytest.raises(StartupError) as raised:
            bind(endpoint, limits)
    assert str(raised.value) == f"listeners: {endpoint} cannot be opened: Address already in use"


def test_a_host_of_another_machine_is_told_in_one_line(limits: Limits) -> None:
    with pytest.raises(StartupError, match=r"listeners: PLAINTEXT://192\.0\.2\.1:0 cannot be"):
        bind(Endpoint("PLAINTEXT", "192.0.2.1", 0, "PLAINTEXT"), limits)


def test_a_host_that_no_name_server_knows_is_told_in_one_line(limits: Limits) -> None:
    with pytest.raises(StartupError, match=r"listeners: PLAINTEXT://no-such\.invalid:0"):
        bind(Endpoint("PLAINTEXT", "no-such.invalid", 0, "PLAINTEXT"), limits)


def test_an_empty_host_takes_ipv4_whatever_else_it_takes(limits: Limits) -> None:
    with bind(Endpoint("PLAINTEXT", "", 0, "PLAINTEXT"), limits) as sock:
        sock.listen()
        with socket.create_connection(("127.0.0.1", sock.getsockname()[1]), timeout=5):
            pass


def test_the_open_files_limit_is_raised_to_what_the_system_allows() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, hard), hard))
        assert raise_open_files_limit() == hard
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_low_open_files_limit_is_told_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(startup_checks, "OPEN_FILES_COMFORTABLE", 10**9)
    with caplog.at_level(logging.WARNING, "barnabas"):
        raise_open_files_limit()
    assert "ulimit -n" in caplog.text


def test_windows_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(startup_checks.sys, "platform", "win32")
    with pytest.raises(StartupError, match="WSL"):
        startup_checks.refuse_unknown_systems()


def test_pages_that_left_the_page_cache_are_seen_as_cold(tmp_path: Path) -> None:
    size = 4 * 1024 * 1024
    with tempfile.TemporaryFile(dir=tmp_path) as file:
        file.write(os.urandom(size))
        file.flush()
        os.fsync(file.fileno())
        assert sending.is_cached(file.fileno(), 0, size)
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        if sending.is_cached(file.fileno(), 0, size):
            pytest.skip("this file system keeps its pages, or cannot tell")
        assert sending.read_if_cached(file.fileno(), 0, 4096) is None
        sending.read_ahead(file.fileno(), 0, size)
        assert sending.is_cached(file.fileno(), 0, size)
        assert sending.read_if_cached(file.fileno(), 0, 4096) is not None


def test_an_assignor_that_cannot_be_had_stops_the_start_before_anything_is_written(
    tmp_path: Path,
) -> None:
    data = tmp_path / "data"
    node = Node(data, {"group.consumer.assignors": "uniform,no_such_module:Assignor"})
    with pytest.raises(StartupError, match="no_such_module:Assignor is neither uniform, range"):
        node.start()
    assert not data.exists()

"""The cost of a start: the modules that are imported before the first Metadata response."""

import re
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from barnabas.testing.free_ports import free_ports

# Each is wanted later or never: for compression, HTTP, tables, other clients, or debugging.
UNWANTED = {
    "aiokafka", "argparse", "asyncio", "confluent_kafka", "construct", "cramjam", "difflib",
    "email", "google.re2", "h11", "http.client", "http.server", "hypercorn", "importlib.metadata",
    "kafka", "multiprocessing", "prometheus_client", "pydoc", "re2", "rich", "starlette",
    "unittest", "xml",
}  # fmt: skip

# Importing is most of a start; 564 are imported by Python 3.11. On a busy machine, tasks that begin
# after the start import a few more before the process ends.
MODULES_MAX = 573

METADATA_V1_ALL = struct.pack(">ihhihi", 14, 3, 1, 7, -1, -1)


@pytest.fixture
def port() -> int:
    return free_ports(1)[0]


def serve(data: Path, port: int, *options: str) -> "subprocess.Popen[str]":
    listeners = f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:0"
    command = [sys.executable, *options, "-m", "barnabas", "serve", "--data", str(data)]
    command.append(f"--set=listeners={listeners}")
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def wait_for_metadata(port: int, timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=60) as sock:
                sock.sendall(METADATA_V1_ALL)
                if len(sock.recv(8, socket.MSG_WAITALL)) == 8:
                    return
        except ConnectionError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.005)


def test_start_up_imports_only_required_modules(tmp_path: Path, port: int) -> None:
    process = serve(tmp_path / "data", port, "-X", "importtime")
    try:
        wait_for_metadata(port)
    finally:
        process.terminate()
        _, log = process.communicate(timeout=60)
    imported = set(re.findall(r"^import time:.*\|\s+(\S+)$", log, re.MULTILINE))
    # The handler's module is not in the list: the interpreter does not count import_module.
    assert "barnabas.server.api.handlers.metadata.authorized_operations" in imported
    assert imported & UNWANTED == set()
    assert len(imported) <= MODULES_MAX, len(imported)

"""`barnabas serve --registry`: a registry process that lives and ends with the node."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import bcrypt
import pytest

from barnabas.cli.main import run
from barnabas.http import optional_packages
from barnabas.testing import Node
from tests.processes import is_alive

_URL = re.compile(r"schema registry ready url=(\S+)")
_PID = re.compile(r"companion started name=registry pid=(\d+)")


class ServedRegistry:
    """A node with a registry, and what both write."""

    def __init__(self, data: Path, *options: str) -> None:
        command = [sys.executable, "-m", "barnabas", "serve", "--data", str(data)]
        command += ["--listen", "127.0.0.1:0", "--registry", *options]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.output = ""
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.output += line

    def found(self, pattern: re.Pattern[str], count: int = 1) -> list[str]:
        """Return the matches in the output, once there are as many."""
        eventually(lambda: len(pattern.findall(self.output)) >= count, self)
        return pattern.findall(self.output)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.reader.join(60)
        if self.process.stdout is not None:
            self.process.stdout.close()


def eventually(condition: Callable[[], bool], served: ServedRegistry) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, served.output
        time.sleep(0.02)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., ServedRegistry]]:
    started: list[ServedRegistry] = []

    def start(*options: str) -> ServedRegistry:
        started.append(ServedRegistry(tmp_path / "data", *options))
        return started[-1]

    yield start
    for served in started:
        served.end()


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return answer.read().decode()


def test_registry_beside_a_node_answers_and_stops_with_it(
    serve: Callable[..., ServedRegistry], tmp_path: Path
) -> None:
    file = tmp_path / "registry.properties"
    file.write_text("barnabas.http.body.max.bytes=99\naccess.control.allow.origin=https://a\n")
    served = serve("--registry-listen", "127.0.0.1:0", "--registry-client-config", str(file))
    url, pid = served.found(_URL)[0], int(served.found(_PID)[0])
    assert get(f"{url}/subjects") == "[]"
    assert get(f"{url}/healthz") == "ok\n"
    assert "barnabas_http_requests_total" in get(f"{url}/metrics")
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{url}/subjects/s", b" " * 100, timeout=60)
    with refused.value:
        assert refused.value.code == 413
    page = urllib.request.Request(f"{url}/subjects", headers={"Origin": "https://a"})
    with urllib.request.urlopen(page, timeout=60) as answer:
        assert answer.headers["Access-Control-Allow-Origin"] == "https://a"
    assert os.getpriority(os.PRIO_PROCESS, pid) >= 10
    served.process.send_signal(signal.SIGTERM)
    assert served.process.wait(60) == 0
    assert not is_alive(pid)
    served.reader.join(60)
    assert "stopped clean=true" in served.output


def test_registry_ends_when_the_node_is_killed(serve: Callable[..., ServedRegistry]) -> None:
    served = serve("--registry-listen", "127.0.0.1:0")
    served.found(_URL)
    pid = int(served.found(_PID)[0])
    served.process.kill()
    eventually(lambda: not is_alive(pid), served)


def test_registry_that_is_killed_restarts(serve: Callable[..., ServedRegistry]) -> None:
    served = serve("--registry-listen", "127.0.0.1:0")
    served.found(_URL)
    os.kill(int(served.found(_PID)[0]), signal.SIGKILL)
    assert get(f"{served.found(_URL, 2)[1]}/subjects") == "[]"
    assert served.process.poll() is None


def test_registry_on_a_taken_port_is_logged_and_the_node_serves(
    serve: Callable[..., ServedRegistry],
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        served = serve("--registry-listen", address)
        served.found(re.compile(f"barnabas: cannot listen on {address}: Address already in use\n"))
        served.found(re.compile("companion ended with status 1, restarting"))
        assert served.process.poll() is None


def test_registry_command_requires_credentials(tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text(f"alice:{bcrypt.hashpw(b'secret', bcrypt.gensalt(4)).decode()}\n")
    with Node() as node:
        command = [sys.executable, "-m", "barnabas", "registry", "--bootstrap", node.bootstrap]
        command += ["--listen", "127.0.0.1:0", "--password-file", str(users)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            url = _URL.search(process.stdout.readline())
            assert url is not None
            with pytest.raises(urllib.error.HTTPError) as refused:
                get(f"{url[1]}/subjects")
            with refused.value:
                assert refused.value.code == 401
                assert b'"error_code": 40101' in refused.value.read()
            request = urllib.request.Request(f"{url[1]}/subjects")
            request.add_header("Authorization", "Basic YWxpY2U6c2VjcmV0")
            with urllib.request.urlopen(request) as answer:
                assert answer.read() == b"[]"
            process.terminate()
            assert process.wait(60) == 0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--listen", "8081"], "it must be HOST:PORT"),
        (["--token-keys", "keys.json"], "needs a value for issuer"),
        (["--tls-key", __file__], "belong together"),
    ],
)
def test_registry_command_with_wrong_options_is_one_line_and_exit_code_2(
    options: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["registry", *options]) == 2
    err = capsys.readouterr().err
    assert says in err
    assert err.count("\n") == 1


def test_registry_command_without_its_packages_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(optional_packages, "find_spec", lambda name: None)
    assert run(["registry"]) == 2
    assert "pip install 'barnabas[registry]'" in capsys.readouterr().err

"""The process of a database server of a test, with its data in a temporary directory."""

import os
import pwd
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, ClassVar

from barnabas.testing.free_ports import free_ports

_START_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 90.0


class DatabaseProcess:
    """One server process. It refuses to run as root, so root starts it as another user."""

    title: ClassVar[str]
    account: ClassVar[str]
    """The system's user of the server, where its package creates one."""
    stop_signal: ClassVar[signal.Signals]
    schema: ClassVar[str]
    """The schema of tables that are named without one."""
    user = "tester"
    password = "secret of a test"

    def __init__(self) -> None:
        prefix = f"barnabas-{self.title.lower()}-"
        self.directory = Path(tempfile.mkdtemp(prefix=prefix, dir="/tmp"))
        self.data = self.directory / "data"
        self.log_file = self.directory / "log"
        (self.port,) = free_ports(1)
        self.process: subprocess.Popen[bytes] | None = None
        self._alive = -1
        """A pipe whose other end each process of the server has."""
        self._account: dict[str, Any] = {}
        if os.getuid() == 0:
            names = {entry.pw_name: entry for entry in pwd.getpwall()}
            account = names.get(self.account) or names["nobody"]
            ids = account.pw_uid, account.pw_gid
            self._account = {"user": ids[0], "group": ids[1], "extra_groups": []}
            os.chown(self.directory, *ids)

    @property
    def jdbc_url(self) -> str:
        raise NotImplementedError

    @property
    def properties(self) -> dict[str, str]:
        """Return the connection as connectors have it."""
        return {
            "connection.url": self.jdbc_url,
            "connection.user": self.user,
            "connection.password": self.password,
        }

    def start(self) -> None:
        """Create the databases at the first start, and wait until the server answers."""
        if not self.data.exists():
            self.create()
        self._alive, inherited = os.pipe()
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                pass_fds=[inherited], **self._account,
            )  # fmt: skip
        os.close(inherited)
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not self._answers():
            assert self.process.poll() is None, f"{self.title} ended:\n{self.log_tail()}"
            assert time.monotonic() < deadline, f"{self.title} did not start:\n{self.log_tail()}"
            time.sleep(0.05)

    def create(self) -> None:
        """Create the databases."""
        raise NotImplementedError

    def command(self) -> list[str]:
        """Return the command of the server."""
        raise NotImplementedError

    def run(self, *statements: str, parameters: Any = None) -> list[tuple[Any, ...]]:
        """Run statements, each in its own transaction; return the rows of the last."""
        raise NotImplementedError

    def clear(self) -> None:
        """Leave no tables."""
        raise NotImplementedError

    def disconnect(self) -> None:
        """End all connections."""
        raise NotImplementedError

    def run_as_server(self, command: list[str], text: str | None = None) -> None:
        """Run a program as the user of the server."""
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, check=False, timeout=60,
            **self._account,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=2):
                pass
            self.run("SELECT 1")
        except Exception:
            return False
        return True

    def log_tail(self) -> str:
        return "\n".join(self.log_file.read_text(errors="replace").splitlines()[-40:])

    def kill(self) -> None:
        """Kill the server: its data stay, and `start` recovers them.

        PostgreSQL's other processes end by themselves a moment later, and share its memory until
        then: a server that starts earlier refuses its data.
        """
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        ended, _, _ = select.select([self._alive], [], [], _STOP_TIMEOUT_S)
        assert ended, f"processes of {self.title} run on:\n{self.log_tail()}"
        os.close(self._alive)

    def close(self) -> None:
        """Stop the server and remove its directory."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(self.stop_signal)
            try:
                self.process.wait(_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            os.close(self._alive)
        shutil.rmtree(self.directory, ignore_errors=True)

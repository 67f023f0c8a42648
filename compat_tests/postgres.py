"""A PostgreSQL server of a test: a new cluster of databases in a temporary directory."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from barnabas.testing.free_ports import free_ports

_START_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 90.0
_DEBIAN = Path("/usr/lib/postgresql")
# The data of a test need not survive the machine.
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "fsync": "off",
    "wal_level": "logical",
    "max_wal_senders": "4",
    "max_replication_slots": "4",
    "shared_buffers": "16MB",
    "max_connections": "40",
}


def programs() -> Path | None:
    """Return the directory of PostgreSQL's programs, the newest version's on Debian."""
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    versions = sorted(_DEBIAN.glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    return versions[-1].parent if versions else None


def missing() -> str | None:
    """Return in one line why PostgreSQL cannot run here, or None."""
    if programs() is None:
        return "PostgreSQL is missing (Debian: apt install postgresql)"
    if find_spec("psycopg") is None:
        return "psycopg is missing: pip install 'barnabas[jdbc]'"
    return None


class PostgresServer:
    """One server process. It refuses to run as root, so root starts it as another user."""

    user = "tester"
    password = "secret of a test"

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="barnabas-postgres-", dir="/tmp"))
        self.data = self.directory / "data"
        self.log_file = self.directory / "log"
        (self.port,) = free_ports(1)
        self.process: subprocess.Popen[bytes] | None = None
        self._account: dict[str, Any] = {}
        if os.getuid() == 0:
            names = {entry.pw_name: entry for entry in pwd.getpwall()}
            account = names.get("postgres") or names["nobody"]
            ids = account.pw_uid, account.pw_gid
            self._account = {"user": ids[0], "group": ids[1], "extra_groups": []}
            os.chown(self.directory, *ids)

    @property
    def jdbc_url(self) -> str:
        return f"jdbc:postgresql://127.0.0.1:{self.port}/postgres"

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
        folder = programs()
        assert folder is not None
        if not self.data.exists():
            self._create(folder)
        settings = [f"--{name}={value}" for name, value in _SETTINGS.items()]
        command = [str(folder / "postgres"), "-D", str(self.data), "-p", str(self.port), *settings]
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **self._account
            )
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not self._answers():
            assert self.process.poll() is None, f"PostgreSQL ended:\n{self.log_tail()}"
            assert time.monotonic() < deadline, f"PostgreSQL did not start:\n{self.log_tail()}"
            time.sleep(0.05)

    def _create(self, folder: Path) -> None:
        secret = self.directory / "password"
        secret.write_text(self.password)
        secret.chmod(0o644)
        command = [
            *(str(folder / "initdb"), "-D", str(self.data), "-U", self.user, "-E", "UTF8"),
            *("--locale=C", "--no-sync", "--auth=scram-sha-256", f"--pwfile={secret}"),
        ]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=60, **self._account
        )
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

    def run(self, *statements: str, parameters: Any = None) -> list[tuple[Any, ...]]:
        """Run statements, each in its own transaction; return the rows of the last."""
        import psycopg

        rows: list[tuple[Any, ...]] = []
        with psycopg.connect(
            host="127.0.0.1",
            port=self.port,
            user=self.user,
            password=self.password,
            dbname="postgres",
            autocommit=True,
            options="-c TimeZone=UTC",
        ) as connection:
            for statement in statements:
                cursor = connection.execute(statement.encode(), parameters)
                rows = cursor.fetchall() if cursor.description else []
        return rows

    def close(self) -> None:
        """Stop the server and remove its directory."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

"""A PostgreSQL server of a test: a new cluster of databases in a temporary directory."""

import shutil
import signal
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from compat_tests.database_process import DatabaseProcess

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


needed = pytest.mark.skipif(missing() is not None, reason=missing() or "")
"""Skips a test, or the tests of a module, where PostgreSQL cannot run."""


class PostgresServer(DatabaseProcess):
    """One server process."""

    title = "PostgreSQL"
    account = "postgres"
    stop_signal = signal.SIGINT
    schema = "public"

    @property
    def jdbc_url(self) -> str:
        return f"jdbc:postgresql://127.0.0.1:{self.port}/postgres"

    def command(self) -> list[str]:
        folder = programs()
        assert folder is not None
        settings = [f"--{name}={value}" for name, value in _SETTINGS.items()]
        return [str(folder / "postgres"), "-D", str(self.data), "-p", str(self.port), *settings]

    def create(self) -> None:
        folder = programs()
        assert folder is not None
        secret = self.directory / "password"
        secret.write_text(self.password)
        secret.chmod(0o644)
        command = [
            *(str(folder / "initdb"), "-D", str(self.data), "-U", self.user, "-E", "UTF8"),
            *("--locale=C", "--no-sync", "--auth=scram-sha-256", f"--pwfile={secret}"),
        ]
        self.run_as_server(command)

    def run(self, *statements: str, parameters: Any = None) -> list[tuple[Any, ...]]:
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

    def clear(self) -> None:
        self.run("DROP SCHEMA IF EXISTS other CASCADE", "DROP SCHEMA public CASCADE")
        self.run("CREATE SCHEMA public")

    def disconnect(self) -> None:
        others = "FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
        self.run(f"SELECT pg_terminate_backend(pid) {others}")

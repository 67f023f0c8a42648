"""A MariaDB server of a test: new databases in a temporary directory."""

import os
import shutil
import signal
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import pytest

from compat_tests.database_process import DatabaseProcess

_SHARES = (Path("/usr/share/mysql"), Path("/usr/share/mariadb"))
_SYSTEM_TABLES = ("system_tables", "performance_tables", "system_tables_data")
# The data of a test must survive the process, and need not survive the machine.
_SETTINGS = {
    "bind-address": "127.0.0.1",
    "innodb-flush-log-at-trx-commit": "2",
    "innodb-buffer-pool-size": "32M",
    "innodb-log-file-size": "16M",
    "max-connections": "40",
    "character-set-server": "latin1",
    "default-time-zone": "+05:00",
    "sql-mode": "NO_BACKSLASH_ESCAPES",
    "default-storage-engine": "MyISAM",
}
"""Character set, time zone, mode and engine are others than those that connectors need."""


def program() -> str | None:
    """Return the server program."""
    return shutil.which("mariadbd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


def scripts() -> list[Path]:
    """Return the scripts that make the system's tables; none where they are not known."""
    for share in _SHARES:
        found = [*share.glob(f"*_{_SYSTEM_TABLES[0]}.sql")]
        if found:
            kind = found[0].name.partition("_")[0]
            return [share / f"{kind}_{name}.sql" for name in _SYSTEM_TABLES]
    return []


def missing() -> str | None:
    """Return in one line why MariaDB cannot run here, or None."""
    if program() is None or not scripts():
        return "MariaDB is missing (Debian: apt install mariadb-server-core)"
    if find_spec("pymysql") is None:
        return "PyMySQL is missing: pip install 'barnabas[jdbc]'"
    return None


needed = pytest.mark.skipif(missing() is not None, reason=missing() or "")
"""Skips a test, or the tests of a module, where MariaDB cannot run."""


class MariadbServer(DatabaseProcess):
    """One server process, with the database `shop`."""

    settings: ClassVar[Mapping[str, str]] = _SETTINGS

    title = "MariaDB"
    account = "mysql"
    stop_signal = signal.SIGTERM
    schema = "shop"

    @property
    def jdbc_url(self) -> str:
        return f"jdbc:mariadb://127.0.0.1:{self.port}/shop"

    def command(self) -> list[str]:
        return [
            *self._base(),
            f"--port={self.port}",
            f"--socket={self.directory / 'socket'}",
            f"--pid-file={self.directory / 'pid'}",
            *[f"--{name}={value}" for name, value in self.settings.items()],
        ]

    def create(self) -> None:
        """Make the system's tables, a user, and the database."""
        account = f"'{self.user}'@'127.0.0.1'"
        statements = (
            "FLUSH PRIVILEGES;",
            "CREATE DATABASE shop;",
            f"CREATE USER {account} IDENTIFIED BY '{self.password}';",
            f"GRANT ALL ON *.* TO {account};",
        )
        tables = "\n".join(script.read_text() for script in scripts())
        system = "CREATE DATABASE IF NOT EXISTS mysql;\nUSE mysql;\nSET @auth_root_socket=NULL;\n"
        text = "\n".join([system, tables, *statements, ""])
        self.run_as_server(["mkdir", str(self.data), str(self._temporary)])
        self.run_as_server([*self._base(), "--bootstrap", "--log-warnings=0"], text)

    @property
    def _temporary(self) -> Path:
        """Its own: a server that starts removes the temporary tables of all in a directory."""
        return self.directory / "tmp"

    def _base(self) -> list[str]:
        found = program()
        assert found is not None
        directories = [f"--datadir={self.data}", f"--tmpdir={self._temporary}"]
        return [found, "--no-defaults", *directories, "--skip-name-resolve"]

    def run(self, *statements: str, parameters: Any = None) -> list[tuple[Any, ...]]:
        import pymysql

        rows: list[tuple[Any, ...]] = []
        connection: Any = pymysql.connect(
            host="127.0.0.1",
            port=self.port,
            user=self.user,
            password=self.password,
            database="shop",
            autocommit=True,
            init_command="SET time_zone = '+00:00'",
            ssl_disabled=True,
        )
        with connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement, parameters)
                rows = list(cursor.fetchall())
        return rows

    def clear(self) -> None:
        self.run("DROP DATABASE IF EXISTS other", "DROP DATABASE shop", "CREATE DATABASE shop")

    def disconnect(self) -> None:
        for (number,) in self.connections():
            self.run(f"KILL {number}")

    def connections(self) -> list[tuple[Any, ...]]:
        """Return the numbers of the connections of others."""
        return self.run(
            "SELECT id FROM information_schema.processlist "
            "WHERE id <> CONNECTION_ID() AND user = 'tester'"
        )

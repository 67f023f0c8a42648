"""The directory of an app on this host: checkpoints of queries with state, and scratch files.

One process uses it at a time: two drivers with one checkpoint would damage it.
"""

import contextlib
import fcntl
import os
import re
import shutil
from pathlib import Path
from typing import Final, TextIO

_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,200}")


class StateInUseError(Exception):
    """Another process runs the app with the same directory."""


def default_root() -> Path:
    """Return the directory below which apps keep their state."""
    root = os.environ.get("XDG_STATE_HOME")
    return (Path(root) if root else Path.home() / ".local" / "state") / "barnabas" / "streams"


def check_name(name: str) -> None:
    """Raise ValueError when a name cannot be one of files, groups and transactions."""
    if not _NAME.fullmatch(name) or name in (".", ".."):
        raise ValueError(
            f"'{name}' is not a valid name: use up to 200 letters, digits, '.', '_' and '-'"
        )


class StateDirectory:
    """The directory, locked while the app runs."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock: TextIO | None = None

    def checkpoint(self, query: str) -> str:
        """Return the place of a query's checkpoint."""
        return str(self._path / "checkpoints" / query)

    @property
    def checkpoints(self) -> str:
        """Return the directory of all checkpoints."""
        return str(self._path / "checkpoints")

    @property
    def views(self) -> Path:
        """Return the directory of views."""
        return self._path / "views"

    @property
    def work(self) -> Path:
        """Return the directory of scratch files."""
        return self._path / "work"

    def lock(self) -> None:
        """Take the directory, and remove scratch files of an earlier process.

        Raises StateInUseError.
        """
        if self._lock is not None:
            return
        self._path.mkdir(parents=True, exist_ok=True)
        lock = (self._path / "lock").open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            lock.close()
            raise StateInUseError(
                f"another process runs with the state in {self._path}: stop it, or give this app "
                "another name or state directory"
            ) from error
        self._lock = lock
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir()

    def release(self) -> None:
        """Release the directory."""
        lock, self._lock = self._lock, None
        if lock is not None:
            with contextlib.suppress(OSError):
                lock.close()

"""The state of an app: checkpoints of queries with state, views, and scratch files.

Checkpoints may be in a file system of Hadoop; Spark writes them. Views, scratch files and the lock
are on this host. One process uses the state at a time: two drivers with one checkpoint would damage
it.
"""

import contextlib
import fcntl
import os
import re
import shutil
import urllib.parse
from pathlib import Path
from typing import Final, Self, TextIO

_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,200}")
OTHER_STATE: Final = "give this app another name or state directory"
"""The remedy, which other commands name in their own words."""
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")


class StateUnusableError(Exception):
    """The directory cannot be made, or this user may not write it."""


class StateInUseError(StateUnusableError):
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
    """The directory of an app on this host, locked while the app runs.

    `remote` is the URI of the checkpoints when they are in another file system.
    """

    def __init__(self, path: Path, remote: str | None = None) -> None:
        self._path = path
        self._remote = None if remote is None else remote.rstrip("/")
        self._lock: TextIO | None = None

    @classmethod
    def of(cls, name: str, state: str | Path | None) -> Self:
        """Return the state of an app: a path, a URI, or None for the user's directory."""
        own = default_root() / name
        if state is None or isinstance(state, Path):
            return cls(state or own)
        scheme = _SCHEME.match(state)
        if scheme is None:
            return cls(Path(state))
        if scheme[1].lower() == "file":
            return cls(Path(urllib.parse.unquote(urllib.parse.urlsplit(state).path)))
        return cls(own, state)

    def checkpoint(self, query: str) -> str:
        """Return the place of a query's checkpoint."""
        return f"{self.checkpoints}/{query}"

    @property
    def checkpoints(self) -> str:
        """Return the directory of all checkpoints."""
        return f"{self._path if self._remote is None else self._remote}/checkpoints"

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

        Raises StateInUseError, StateUnusableError.
        """
        if self._lock is not None:
            return
        try:
            self._path.mkdir(parents=True, exist_ok=True)
            lock = (self._path / "lock").open("w")
        except OSError as error:
            raise StateUnusableError(
                f"cannot write the state directory {self._path} ({error.strerror}): let this user "
                f"write it, or {OTHER_STATE}"
            ) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            lock.close()
            raise StateInUseError(
                f"another process runs with the state in {self._path}: stop it, or {OTHER_STATE}"
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

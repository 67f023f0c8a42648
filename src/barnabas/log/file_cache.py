"""Open files of partitions: a bounded cache of descriptors, and slices of files for sending.

A file is opened when it is first used. One cache, shared by all logs, bounds how many files stay
open. A descriptor is closed with the last reference to its `OpenFile`. So a `FileSlice` stays
readable until it is sent, even if the cache, a roll or a deletion has released the file meanwhile.
"""

import errno
import os
from typing import Final, Protocol

from barnabas.log.file_operations import read_at

_FLAGS: Final = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
_FLAGS_READ_ONLY: Final = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0)


class OpenFile:
    """An open descriptor that is closed with its last reference."""

    __slots__ = ("fd", "is_used")

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.is_used = True

    def fileno(self) -> int:
        """Return the descriptor, for system calls."""
        return self.fd

    def __del__(self) -> None:
        os.close(self.fd)


class FileOwner(Protocol):
    """An object that owns one file: it holds the open file until the cache takes it away."""

    file: OpenFile | None

    @property
    def path(self) -> str:
        """The path of the file."""
        ...


class FileCache:
    """At most `limit` open files over all logs; the file unused for longest is closed first.

    Without `create`, files are opened for reading only and a missing file raises
    FileNotFoundError: for a process that reads the log of another process.

    An owner marks its file as used (`is_used`), which costs the hot path one attribute. Eviction
    skips a marked file once (the "second chance" algorithm).
    """

    __slots__ = ("_flags", "_limit", "_owners")

    def __init__(self, limit: int, *, create: bool = True) -> None:
        self._limit = max(limit, 1)
        self._flags = _FLAGS if create else _FLAGS_READ_ONLY
        self._owners: dict[FileOwner, None] = {}

    def __len__(self) -> int:
        return len(self._owners)

    def open(self, owner: FileOwner) -> OpenFile:
        """Open the owner's file. Raises OSError when the system refuses it."""
        if len(self._owners) >= self._limit:
            self._evict()
        try:
            fd = os.open(owner.path, self._flags, 0o644)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE) or not self._owners:
                raise
            # Connections use up the process's descriptors: close all cached files and try again.
            for other in list(self._owners):
                self.close(other)
            fd = os.open(owner.path, self._flags, 0o644)
        file = owner.file = OpenFile(fd)
        self._owners[owner] = None
        return file

    def close(self, owner: FileOwner) -> None:
        """Release the owner's file."""
        self._owners.pop(owner, None)  # first, because another thread may open it again at once
        owner.file = None

    def _evict(self) -> None:
        # Close several at once, so that a full cache is not searched for every new file.
        room = max(self._limit // 16, 1)
        for owner in list(self._owners):
            if len(self._owners) <= self._limit - room:
                return
            file = owner.file
            if file is not None and file.is_used:
                file.is_used = False
                continue
            self.close(owner)
        for owner in list(self._owners)[:room]:
            self.close(owner)


class FileSlice:
    """A byte range of a log segment, which a fetch sends with `sendfile`."""

    __slots__ = ("file", "position", "size")

    def __init__(self, file: OpenFile | None, position: int, size: int) -> None:
        self.file = file
        self.position = position
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __repr__(self) -> str:
        return f"<FileSlice {self.size} bytes at {self.position}>"

    def read(self) -> bytes:
        """Return the bytes; fewer if the file was truncated meanwhile."""
        return b"" if self.file is None else read_at(self.file.fd, self.size, self.position)


EMPTY_SLICE: Final = FileSlice(None, 0, 0)

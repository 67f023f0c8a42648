"""Descriptors and durable writes: the only module that opens files of a partition.

Files are opened when they are used, and a cache shared by all logs bounds how many stay open. A
descriptor closes when the last reference to its `OpenFile` goes, so a `FileSlice` on its way to a
socket can be sent though the cache, a roll or a deletion has let go of the file.
"""

import errno
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Protocol

READ_CHUNK: Final = 1 << 20
"""Bytes read at a time where a whole file is walked through."""

_FLAGS: Final = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
_FLAGS_AS_IT_IS: Final = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0)


class OpenFile:
    """An open descriptor, closed with its last reference."""

    __slots__ = ("fd", "is_used")

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.is_used = True

    def fileno(self) -> int:
        """The descriptor, for the system's calls."""
        return self.fd

    def __del__(self) -> None:
        os.close(self.fd)


class FileOwner(Protocol):
    """What has one file: it keeps the open one, and loses it when the cache is full."""

    file: OpenFile | None

    @property
    def path(self) -> str:
        """Where the file is."""
        ...


class FileCache:
    """At most `limit` open files, over all logs; the longest unused is closed first.

    Without `create` files are only read, and one that is not there is FileNotFoundError: for who
    looks at a log that is another process's.

    Owners mark their file as used (`is_used`), which costs the hot path one attribute; eviction
    passes over those once (the "second chance" algorithm).
    """

    __slots__ = ("_flags", "_limit", "_owners")

    def __init__(self, limit: int, *, create: bool = True) -> None:
        self._limit = max(limit, 1)
        self._flags = _FLAGS if create else _FLAGS_AS_IT_IS
        self._owners: dict[FileOwner, None] = {}

    def __len__(self) -> int:
        return len(self._owners)

    def open(self, owner: FileOwner) -> OpenFile:
        """Open the owner's file; OSError."""
        if len(self._owners) >= self._limit:
            self._evict()
        try:
            fd = os.open(owner.path, self._flags, 0o644)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE) or not self._owners:
                raise
            # Connections took what was left: logs make do with what they can give back.
            for other in list(self._owners):
                self.close(other)
            fd = os.open(owner.path, self._flags, 0o644)
        file = owner.file = OpenFile(fd)
        self._owners[owner] = None
        return file

    def close(self, owner: FileOwner) -> None:
        """Let go of the owner's file."""
        self._owners.pop(owner, None)  # first: another thread may open it again at once
        owner.file = None

    def _evict(self) -> None:
        # Room for a few at once, so that a full cache is not walked for every new file.
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
    """A range of bytes of a log segment: what a fetch sends by `sendfile`, unseen by Python."""

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
        """The bytes themselves; fewer if the file was truncated meanwhile."""
        return b"" if self.file is None else read_at(self.file.fd, self.size, self.position)


EMPTY_SLICE: Final = FileSlice(None, 0, 0)


def read_at(fd: int, size: int, position: int) -> bytes:
    """`size` bytes from `position`, fewer only at the end of the file; OSError."""
    data = os.pread(fd, size, position)
    if len(data) == size or not data:
        return data
    parts = [data]
    got = len(data)
    while got < size:
        data = os.pread(fd, size - got, position + got)
        if not data:
            break
        parts.append(data)
        got += len(data)
    return b"".join(parts)


def write_at(fd: int, data: bytes | bytearray | memoryview, position: int) -> None:
    """Write all of `data`; OSError, with part of it written perhaps."""
    written = os.pwrite(fd, data, position)
    size = len(data)
    while written < size:
        written += os.pwrite(fd, memoryview(data)[written:], position + written)


def sync_path(path: str | Path) -> None:
    """fsync a file or a directory by its name; nothing if it is not there. OSError."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def replace_file(path: str | Path, content: bytes, *, sync: bool = True) -> None:
    """Make `content` the file's, in one step that a kill does not tear.

    With `sync` it also survives a power loss once this returns. OSError.
    """
    aside = f"{path}.tmp"
    fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        write_at(fd, content, 0)
        if sync:
            os.fsync(fd)
    finally:
        os.close(fd)
    os.replace(aside, path)
    if sync:
        sync_path(os.path.dirname(path) or ".")


def remove_files(paths: Iterable[str]) -> None:
    """Remove what is there of them; OSError."""
    for path in paths:
        try:
            os.unlink(path)
        except FileNotFoundError:
            continue

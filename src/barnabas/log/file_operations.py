"""Reading and writing files whole, and durable replacement of small files."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

READ_CHUNK: Final = 1 << 20
"""Bytes read at a time when a whole file is read."""


def read_at(fd: int, size: int, position: int) -> bytes:
    """Return `size` bytes from `position`; fewer only at the end of the file. Raises OSError."""
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
    """Write all of `data`. Raises OSError, when part of it may have been written."""
    written = os.pwrite(fd, data, position)
    size = len(data)
    while written < size:
        written += os.pwrite(fd, memoryview(data)[written:], position + written)


def sync_path(path: str | Path) -> None:
    """fsync a file or a directory by its path, if it exists. Raises OSError."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def replace_file(path: str | Path, content: bytes, *, sync: bool = True) -> None:
    """Replace a file's content in one step: after a kill it has the old content or the new.

    With `sync` the new content also survives a power loss after this call. Raises OSError.
    """
    temporary = f"{path}.tmp"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        write_at(fd, content, 0)
        if sync:
            os.fsync(fd)
    finally:
        os.close(fd)
    os.replace(temporary, path)
    if sync:
        sync_path(os.path.dirname(path) or ".")


def remove_files(paths: Iterable[str]) -> None:
    """Remove those of the files that exist. Raises OSError."""
    for path in paths:
        try:
            os.unlink(path)
        except FileNotFoundError:
            continue

"""Ranges of files that are parts of what is sent, and whether the page cache has them."""

import os
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import trio

# The number of bytes per sendfile call: a fast peer must not occupy the loop.
SLICE_BYTES = 256 * 1024
# Up to this size a slice is read and sent with the parts around it: one call instead of two.
INLINE_BYTES_MAX = 16 * 1024
Part: TypeAlias = Any
"""What is sent: bytes-like, or a range of a file with `file`, `position` and `size`."""
BYTES_TYPES = (bytes, bytearray, memoryview)
"""The parts that are not ranges of files."""

_RWF_NOWAIT: int | None = getattr(os, "RWF_NOWAIT", None)

ReadAhead = Callable[[int, int, int], Awaitable[object]]
"""Reads a range of a file (descriptor, position, size) into the page cache, in a thread."""


def read_ahead(fd: int, position: int, size: int) -> None:
    """Read a range of a file into the page cache; runs in a thread."""
    end = position + size
    while position < end:
        count = len(os.pread(fd, min(SLICE_BYTES, end - position), position))
        if not count:
            return
        position += count


async def read_ahead_in_thread(fd: int, position: int, size: int) -> None:
    """Read a range of a file into the page cache in one of trio's threads."""
    await trio.to_thread.run_sync(read_ahead, fd, position, size)


def is_cached(fd: int, position: int, size: int) -> bool:
    """Return True when both ends of a range are in the page cache (read-ahead makes ranges
    contiguous).

    Also True where the system cannot report it.
    """
    if _RWF_NOWAIT is None:
        return True
    probe = bytearray(1)
    for at in (position, position + size - 1):
        try:
            os.preadv(fd, [probe], at, _RWF_NOWAIT)
        except BlockingIOError:
            return False
        except OSError:  # this file system does not support RWF_NOWAIT
            return True
    return True


def read_if_cached(fd: int, position: int, size: int) -> bytearray | None:
    """Return a small slice's bytes when no disk access is needed, otherwise None."""
    if _RWF_NOWAIT is None:
        return None
    data = bytearray(size)
    try:
        return data if os.preadv(fd, [data], position, _RWF_NOWAIT) == size else None
    except OSError:
        return None


def inlined(parts: list[Part]) -> list[Part]:
    """Return the parts with small slices replaced by their bytes, where the page cache has them."""
    for index, part in enumerate(parts):
        if type(part) not in BYTES_TYPES and part.size <= INLINE_BYTES_MAX:
            data = read_if_cached(part.file.fileno(), part.position, part.size)
            if data is not None:
                parts[index] = data
    return parts

"""The sending half of a connection: gathered bytes by sendmsg, log slices by sendfile.

Parts are bytes-like, or file slices (`fileno()`'s file, position, size) that never enter Python's
memory. Slices are sent in bounded steps. A step whose pages are not in the page cache is first read
in a thread, so that the loop never waits for a disk.
"""

import os
import socket
from collections.abc import Awaitable, Callable
from typing import Any

from trio.lowlevel import wait_writable

# The number of bytes per sendfile call: a fast peer must not occupy the loop.
SLICE_BYTES = 256 * 1024
# Up to this size a slice is read and sent with the parts around it: one call instead of two.
INLINE_BYTES_MAX = 16 * 1024
# The kernel accepts at most 1,024 parts in one sendmsg.
_PARTS_MAX = 1000
_BYTES_TYPES = (bytes, bytearray, memoryview)

_MSG_MORE: int = getattr(socket, "MSG_MORE", 0)
_RWF_NOWAIT: int | None = getattr(os, "RWF_NOWAIT", None)

ReadAhead = Callable[[int, int, int], Awaitable[object]]


def read_ahead(fd: int, position: int, size: int) -> None:
    """Read a range of a file into the page cache; runs in a thread."""
    end = position + size
    while position < end:
        count = len(os.pread(fd, min(SLICE_BYTES, end - position), position))
        if not count:
            return
        position += count


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


def inlined(parts: list[Any]) -> list[Any]:
    """Return the parts with small slices replaced by their bytes, where the page cache has them."""
    for index, part in enumerate(parts):
        if type(part) not in _BYTES_TYPES and part.size <= INLINE_BYTES_MAX:
            data = read_if_cached(part.file.fileno(), part.position, part.size)
            if data is not None:
                parts[index] = data
    return parts


def send_now(sock: socket.socket, parts: list[Any]) -> list[Any]:
    """Send as much as the socket accepts at once; return the unsent parts (the first may be cut).

    Stops at a file slice. Raises OSError when the connection broke.
    """
    while parts:
        lead = _leading_bytes(parts)
        if not lead:
            return parts
        flags = _MSG_MORE if len(lead) < len(parts) else 0
        try:
            sent = sock.sendmsg(lead, (), flags)
        except BlockingIOError:
            return parts
        parts = _without(parts, sent)
    return parts


async def send(sock: socket.socket, parts: list[Any], in_thread: ReadAhead) -> None:
    """Send all parts, and wait for the peer without limit.

    `in_thread(fd, position, size)` is awaited to read a cold range.
    """
    fd = sock.fileno()
    while parts:
        if type(parts[0]) in _BYTES_TYPES:
            left = send_now(sock, parts)
            if left and type(left[0]) in _BYTES_TYPES:
                await wait_writable(fd)
            parts = left
        else:
            await _send_slice(sock, fd, parts[0], in_thread)
            del parts[0]


async def _send_slice(sock: socket.socket, fd: int, part: Any, in_thread: ReadAhead) -> None:
    file = part.file.fileno()
    position: int = part.position
    end = position + part.size
    checked = position  # the pages before it are in the page cache
    while position < end:
        size = min(SLICE_BYTES, end - position)
        if position + size > checked:
            if not is_cached(file, position, size):
                await in_thread(file, position, size)
            checked = position + size
        try:
            sent = os.sendfile(fd, file, position, size)
        except BlockingIOError:
            await wait_writable(fd)
            continue
        if not sent:
            # The response declares these bytes: nothing valid can follow.
            raise ConnectionAbortedError(f"a log segment ends {end - position} bytes too early")
        position += sent


def _leading_bytes(parts: list[Any]) -> list[Any]:
    lead: list[Any] = []
    for part in parts[:_PARTS_MAX]:
        if type(part) not in _BYTES_TYPES:
            break
        lead.append(part)
    return lead


def _without(parts: list[Any], sent: int) -> list[Any]:
    """Return the rest of `parts` after their first `sent` bytes."""
    for index, part in enumerate(parts):
        size = part.size if type(part) not in _BYTES_TYPES else len(part)
        if sent < size:
            rest = parts[index:]
            if sent:
                rest[0] = memoryview(part)[sent:]
            return rest
        sent -= size
    return []

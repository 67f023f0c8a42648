"""A plain socket as a byte stream: gathered bytes by sendmsg, ranges of files by sendfile.

Ranges of files never enter Python's memory. They are sent in bounded steps. A step whose pages are
not in the page cache is first read in a thread, so that the loop never waits for a disk.
"""

import os
import socket
from functools import partial

from trio.lowlevel import notify_closing, wait_readable, wait_writable

from barnabas.sockets.byte_stream import ReceiveInto, WaitReadable
from barnabas.sockets.file_ranges import BYTES_TYPES, SLICE_BYTES, Part, ReadAhead, is_cached

# The kernel accepts at most 1,024 parts in one sendmsg.
_PARTS_MAX = 1000

_MSG_MORE: int = getattr(socket, "MSG_MORE", 0)


class SocketStream:
    """A non-blocking socket without encryption (`ByteStream`)."""

    __slots__ = ("_read_ahead", "_sock", "receive_into", "wait_readable")

    def __init__(self, sock: socket.socket, read_ahead: ReadAhead) -> None:
        self._sock = sock
        self._read_ahead = read_ahead
        self.receive_into: ReceiveInto = sock.recv_into
        self.wait_readable: WaitReadable = partial(wait_readable, sock.fileno())

    def fileno(self) -> int:
        """Return the socket's descriptor."""
        return self._sock.fileno()

    def close(self) -> None:
        """Close the socket; tasks that wait for it get trio.ClosedResourceError."""
        notify_closing(self._sock)
        self._sock.close()

    def send_now(self, parts: list[Part]) -> list[Part]:
        """Send as much as the socket accepts at once; return the unsent parts (the first may be
        cut).

        Stops at a range of a file. Raises OSError when the connection broke.
        """
        while parts:
            lead = _leading_bytes(parts)
            if not lead:
                return parts
            flags = _MSG_MORE if len(lead) < len(parts) else 0
            try:
                sent = self._sock.sendmsg(lead, (), flags)
            except BlockingIOError:
                return parts
            parts = _without(parts, sent)
        return parts

    async def send(self, parts: list[Part]) -> None:
        """Send all parts, and wait for the peer without limit."""
        while parts:
            if type(parts[0]) in BYTES_TYPES:
                left = self.send_now(parts)
                if left and type(left[0]) in BYTES_TYPES:
                    await wait_writable(self._sock.fileno())
                parts = left
            else:
                await self._send_range(parts[0])
                del parts[0]

    async def _send_range(self, part: Part) -> None:
        fd, file = self._sock.fileno(), part.file.fileno()
        position: int = part.position
        end = position + part.size
        checked = position  # the pages before it are in the page cache
        while position < end:
            size = min(SLICE_BYTES, end - position)
            if position + size > checked:
                if not is_cached(file, position, size):
                    await self._read_ahead(file, position, size)
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


def _leading_bytes(parts: list[Part]) -> list[Part]:
    lead: list[Part] = []
    for part in parts[:_PARTS_MAX]:
        if type(part) not in BYTES_TYPES:
            break
        lead.append(part)
    return lead


def _without(parts: list[Part], sent: int) -> list[Part]:
    """Return the rest of `parts` after their first `sent` bytes."""
    for index, part in enumerate(parts):
        size = part.size if type(part) not in BYTES_TYPES else len(part)
        if sent < size:
            rest = parts[index:]
            if sent:
                rest[0] = memoryview(part)[sent:]
            return rest
        sent -= size
    return []

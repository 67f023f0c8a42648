"""A connection with TLS: records are made and read in memory, and a plain socket carries them.

One receive takes what has arrived, and OpenSSL reads its records from memory; one call encrypts up
to 256 KiB. `ssl` has no lock around a connection's state, so both happen in the event loop only.
"""

import contextlib
import os
import socket
import ssl
from typing import Final, cast

import trio
from trio.lowlevel import checkpoint, notify_closing, wait_readable, wait_writable

from barnabas.sockets.file_ranges import BYTES_TYPES, SLICE_BYTES, Part, ReadAhead, is_cached

_RECORD_BYTES_MAX: Final = 16 * 1024
RECEIVE_BYTES: Final = 256 * 1024


class TlsStream:
    """A non-blocking socket with TLS (`ByteStream`); `handshake` comes first.

    `scratch` is the memory for received bytes, which the streams of a loop share. `server_name` is
    the server's name as this client knows it, which its certificate must have where the context
    checks names; None where this end is the server.
    """

    __slots__ = ("_ended", "_incoming", "_is_full", "_outgoing", "_read_ahead", "_scratch",
                 "_sock", "_ssl", "_unsent")  # fmt: skip

    def __init__(
        self,
        sock: socket.socket,
        context: ssl.SSLContext,
        read_ahead: ReadAhead,
        scratch: memoryview,
        *,
        server_name: str | None = None,
    ) -> None:
        self._sock = sock
        self._read_ahead = read_ahead
        self._scratch = scratch
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._ssl = context.wrap_bio(
            self._incoming,
            self._outgoing,
            server_side=server_name is None,
            server_hostname=server_name,
        )
        self._unsent = b""  # encrypted bytes that the socket did not accept
        self._is_full = False  # more decrypted bytes or records may be here already
        self._ended = False

    @property
    def peer_certificate(self) -> bytes | None:
        """The certificate that the peer showed, in DER."""
        return self._ssl.getpeercert(binary_form=True)

    async def handshake(self, turns: trio.CapacityLimiter | None = None) -> None:
        """Agree on keys with the peer; `turns` limits the handshakes that compute in one turn.

        Raises ssl.SSLError when that fails, and OSError when the connection ends.
        """
        while True:
            try:
                if turns is None:
                    self._ssl.do_handshake()
                else:
                    async with turns:
                        self._ssl.do_handshake()
            except ssl.SSLWantReadError:
                await self._flush()
                await self._receive_records()
            except ssl.SSLError:
                with contextlib.suppress(OSError):
                    self._send_records()  # the alert that says why
                raise
            else:
                self._is_full = True  # the first requests may have come with the last record
                return await self._flush()

    async def _receive_records(self) -> None:
        """Wait for more records. Raises ConnectionResetError at the end."""
        while True:
            await wait_readable(self._sock.fileno())
            with contextlib.suppress(BlockingIOError):
                count = self._sock.recv_into(self._scratch)
                if not count:
                    raise ConnectionResetError("the peer closed within the TLS handshake")
                self._incoming.write(self._scratch[:count])
                return

    def receive_into(self, buffer: memoryview) -> int:
        """Receive what has arrived, decrypted; return the number of bytes, 0 at the end.

        Raises BlockingIOError when no whole record has arrived, OSError when the connection broke.
        """
        while True:
            count = self._read(buffer)
            self._is_full = count == len(buffer)
            if self._outgoing.pending:  # the answer to an update of keys, say
                self._send_records()
            if count or self._ended:
                return count
            received = self._sock.recv_into(self._scratch)
            if received:
                self._incoming.write(self._scratch[:received])
            else:
                self._incoming.write_eof()

    def _read(self, buffer: memoryview) -> int:
        """Decrypt records that are in memory, until the buffer is full."""
        filled = 0
        while filled < len(buffer):
            try:
                with buffer[filled:] as room:
                    # With a buffer, `read` returns a count; its stub knows only the other form.
                    count = cast("int", self._ssl.read(_RECORD_BYTES_MAX, room))
            except ssl.SSLWantReadError:
                break
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                # Without the peer's closing record it is an end as well: frames show what is cut.
                self._ended = True
                break
            if not count:
                self._ended = True
                break
            filled += count
        return filled

    async def wait_readable(self) -> None:
        """Wait until `receive_into` may have something. Raises trio.ClosedResourceError."""
        if self._is_full:
            await checkpoint()
        else:
            await wait_readable(self._sock.fileno())

    def send_now(self, parts: list[Part]) -> list[Part]:
        """Send as much as the socket accepts at once; return the parts that are left.

        Stops at a range of a file. While encrypted bytes wait, an empty part is in front.
        """
        parts = [part for part in parts if type(part) not in BYTES_TYPES or len(part)]
        while self._send_records():
            size, count = 0, 0
            while count < len(parts) and type(parts[count]) in BYTES_TYPES and size < SLICE_BYTES:
                size += len(parts[count])
                count += 1
            if not count:
                return parts
            data = b"".join(parts[:count])
            self._ssl.write(memoryview(data)[:SLICE_BYTES])
            parts = parts[count:]
            if size > SLICE_BYTES:
                parts.insert(0, memoryview(data)[SLICE_BYTES:])
        return [b"", *parts]

    def _send_records(self) -> bool:
        """Send encrypted bytes; return True when none are left."""
        data = self._unsent
        if self._outgoing.pending:
            data += self._outgoing.read()
        if not data:
            return True
        try:
            sent = self._sock.send(data)
        except BlockingIOError:
            sent = 0
        self._unsent = data[sent:]
        return not self._unsent

    async def _flush(self) -> None:
        while not self._send_records():
            await wait_writable(self._sock.fileno())

    async def send(self, parts: list[Part]) -> None:
        """Send all parts, and wait for the peer without limit."""
        while parts:
            parts = self.send_now(parts)
            await self._flush()
            if parts and type(parts[0]) not in BYTES_TYPES:
                await self._send_range(parts[0])
                parts = parts[1:]

    async def _send_range(self, part: Part) -> None:
        file, position = part.file.fileno(), part.position
        end = position + part.size
        while position < end:
            size = min(SLICE_BYTES, end - position)
            if not is_cached(file, position, size):
                await self._read_ahead(file, position, size)
            data = os.pread(file, size, position)
            if not data:
                # The response declares these bytes: nothing valid can follow.
                raise ConnectionAbortedError(f"a log segment ends {end - position} bytes too early")
            self._ssl.write(data)
            position += len(data)
            await self._flush()
            await checkpoint()

    def close(self) -> None:
        """Close the socket, after the closing record where it fits."""
        with contextlib.suppress(OSError, ValueError):
            self._ssl.unwrap()
        with contextlib.suppress(OSError):
            self._send_records()
        notify_closing(self._sock)
        self._sock.close()

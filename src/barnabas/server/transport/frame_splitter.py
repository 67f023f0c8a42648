"""Splits received bytes into request frames; nothing is allocated from a declared size.

Small frames are received through one scratch buffer of the node, as many as it holds, and copied
out, so that no connection sees the bytes of another. The rest of a large frame is received directly
into the frame's buffer, which grows with the received bytes.
"""

from contextlib import suppress
from struct import Struct

from barnabas.protocol.errors import ProtocolError
from barnabas.sockets.byte_stream import ReceiveInto

SCRATCH_BYTES = 128 * 1024
# From this number of missing bytes on, a frame is received into its own buffer instead of the
# scratch buffer, once the same number has arrived. The buffer at most doubles.
_DIRECT_BYTES_MIN = 32 * 1024
_ARRIVED_BYTES_MIN = 16 * 1024

_LENGTH = Struct(">i")
# The first bytes of a TLS connection: a record of type handshake, and its version.
_TLS_HANDSHAKES = frozenset({0x160300, 0x160301, 0x160302, 0x160303})
_TLS_HINT = ": the client speaks TLS (does its security.protocol match the listener?)"
_ZEROS = memoryview(bytes(1024 * 1024))


class FrameReader:
    """The receiving half of one connection: call `receive`, then take `frames`.

    Each frame is a separate `bytearray` without its length prefix. Handlers may keep it and write
    to it (offsets are assigned in place).
    """

    __slots__ = ("_filled", "_frame", "_head", "_missing", "error", "frames", "size_max")

    def __init__(self, size_max: int) -> None:
        self.size_max = size_max
        self.frames: list[bytearray] = []
        # The error after the frames received so far, which are answered first.
        self.error: ProtocolError | None = None
        self._head = b""  # a length prefix that has only partly arrived
        self._frame: bytearray | None = None  # a frame that has only partly arrived
        self._filled = 0  # its received bytes
        self._missing = 0  # its missing bytes

    @property
    def within_frame(self) -> bool:
        """True when a frame is partly received."""
        return self._frame is not None or bool(self._head)

    def receive(self, receive_into: ReceiveInto, scratch: memoryview) -> int:
        """Receive once, into `frames` and the frame in progress; return the number of bytes, 0 at
        the end.

        Raises BlockingIOError when no bytes are available, OSError when the connection broke.
        """
        if self._missing >= _DIRECT_BYTES_MIN and self._filled >= _ARRIVED_BYTES_MIN:
            return self._receive_into_frame(receive_into)
        count = receive_into(scratch)
        if count:
            self._cut(scratch, count)
        return count

    def receive_rest(self, receive_into: ReceiveInto, scratch: memoryview) -> bool:
        """Receive what a peer sent before it closed; return True for whole frames.

        The buffer of the socket bounds the number of bytes.
        """
        with suppress(OSError):
            while self.receive(receive_into, scratch):
                pass
        return bool(self.frames)

    def _receive_into_frame(self, receive_into: ReceiveInto) -> int:
        frame = self._frame
        if frame is None:
            raise RuntimeError("no frame is partly received")
        filled = self._filled
        if len(frame) == filled:
            room = min(self._missing, filled, len(_ZEROS))
            frame += _ZEROS[:room]
        with memoryview(frame) as whole, whole[filled:] as room_left:
            count = receive_into(room_left)
        self._filled = filled + count
        self._missing -= count
        if not self._missing:
            self._complete(frame)
        return count

    def _complete(self, frame: bytearray) -> None:
        self.frames.append(frame)
        self._frame = None
        self._filled = self._missing = 0

    def _cut(self, scratch: memoryview, count: int) -> None:
        position = 0
        frame = self._frame
        if frame is not None:
            position = min(self._missing, count)
            # Unfilled space exists only while receiving directly.
            frame[self._filled :] = scratch[:position]
            self._filled += position
            self._missing -= position
            if self._missing:
                return
            self._complete(frame)
        elif self._head:
            position = 4 - len(self._head)
            self._head += bytes(scratch[: min(position, count)])
            if count < position:
                return
            head, self._head = self._head, b""
            position = self._cut_one(scratch, position, count, _LENGTH.unpack(head)[0])
        frames, size_max = self.frames, self.size_max
        while not self._missing and self.error is None:
            start = position + 4
            if start > count:
                self._head = bytes(scratch[position:count])
                return
            size = _LENGTH.unpack_from(scratch, position)[0]
            end = start + size
            if 0 < size <= size_max and end <= count:
                frames.append(bytearray(scratch[start:end]))
                position = end
            else:
                position = self._cut_one(scratch, start, count, size)

    def _cut_one(self, scratch: memoryview, start: int, count: int, size: int) -> int:
        """Take a whole or partial frame of `size` bytes; return the position after it."""
        if not 0 < size <= self.size_max:
            limit = f"1 to {self.size_max} bytes (socket.request.max.bytes)"
            hint = _TLS_HINT if size >> 8 in _TLS_HANDSHAKES else ""
            self.error = ProtocolError(f"a frame of {size} bytes where {limit} are allowed{hint}")
            return count
        end = min(start + size, count)
        frame = bytearray(scratch[start:end])
        if end == start + size:
            self.frames.append(frame)
        else:
            self._frame = frame
            self._filled = end - start
            self._missing = size - self._filled
        return end

"""The interface of a connection's bytes: plain sockets, TLS and simulated connections have it."""

from collections.abc import Awaitable
from typing import Protocol

from barnabas.sockets.file_ranges import Part


class ReceiveInto(Protocol):
    """The type of `ByteStream.receive_into`."""

    def __call__(self, buffer: memoryview, /) -> int:
        """Receive at once into a buffer; return the number of bytes, 0 at the end.

        Raises BlockingIOError when nothing has arrived.
        """
        ...


class WaitReadable(Protocol):
    """The type of `ByteStream.wait_readable`."""

    def __call__(self) -> Awaitable[None]:
        """Wait until `receive_into` may have something.

        Raises trio.ClosedResourceError when the stream is closed meanwhile.
        """
        ...


class ByteStream(Protocol):
    """The two directions of a connection. Errors of the connection are OSErrors.

    `receive_into` and `wait_readable` are attributes that hold functions, so that a plain socket's
    own function is called without a layer above it.
    """

    @property
    def receive_into(self) -> ReceiveInto:
        """Receives what has arrived."""
        ...

    @property
    def wait_readable(self) -> WaitReadable:
        """Waits for more."""
        ...

    def send_now(self, parts: list[Part]) -> list[Part]:
        """Send as much as is accepted at once; return the parts that are left."""
        ...

    async def send(self, parts: list[Part]) -> None:
        """Send all parts, bytes-like or ranges of files, and wait for the peer without limit."""
        ...

    def close(self) -> None:
        """Close the connection at once."""
        ...

"""Sending a request to the leader: one HTTP/1.1 exchange on a connection that is kept for the next.

The connection is given up on any fault; what the leader did is unknown then, unless the request
was never sent.
"""

import ssl
from collections.abc import Mapping

import attrs
import h11
import trio

from barnabas.registry.service.election_protocol import InstanceAddress

_CONNECT_TIMEOUT_S = 2.0
_ANSWER_TIMEOUT_S = 30.0
_READ_BYTES = 64 * 1024
_IDLE_MAX = 8


class ForwardError(Exception):
    """The leader did not answer. ``is_sent`` is False when it did not get the request."""

    def __init__(self, reason: str, *, is_sent: bool) -> None:
        super().__init__(reason)
        self.is_sent = is_sent


@attrs.frozen
class LeaderAnswer:
    """Status and body of an answer."""

    status: int
    body: bytes


class LeaderConnections:
    """Connections to one instance."""

    def __init__(self, address: InstanceAddress, tls: ssl.SSLContext | None = None) -> None:
        self.address = address
        self._tls = tls
        self._idle: list[_LeaderConnection] = []

    async def ask(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes
    ) -> LeaderAnswer:
        """Send a request and return the answer.

        Raises ForwardError when there is none.
        """
        while self._idle:
            connection = self._idle.pop()
            try:
                return await self._ask_on(connection, method, target, headers, body)
            except ForwardError as error:
                # The instance may have closed an idle connection.
                if error.is_sent and not connection.was_closed:
                    raise
        return await self._ask_on(await self._connect(), method, target, headers, body)

    async def _ask_on(
        self,
        connection: "_LeaderConnection",
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes,
    ) -> LeaderAnswer:
        try:
            with trio.fail_after(_ANSWER_TIMEOUT_S):
                answer = await connection.exchange(method, target, headers, body)
        except (trio.TooSlowError, OSError, trio.BrokenResourceError, h11.ProtocolError) as error:
            await connection.close()
            raise ForwardError(f"{self.address.url}: {error!r}", is_sent=True) from None
        except trio.Cancelled:
            await connection.close()
            raise
        if connection.is_reusable and len(self._idle) < _IDLE_MAX:
            self._idle.append(connection)
        else:
            await connection.close()
        return answer

    async def _connect(self) -> "_LeaderConnection":
        try:
            with trio.fail_after(_CONNECT_TIMEOUT_S):
                stream = await connected_stream(self.address, self._tls)
        except (trio.TooSlowError, OSError, trio.BrokenResourceError) as error:
            reason = f"cannot connect to {self.address.url}: {error!r}"
            raise ForwardError(reason, is_sent=False) from None
        return _LeaderConnection(stream, self.address)

    async def close(self) -> None:
        """Close all connections."""
        for connection in self._idle:
            await connection.close()
        self._idle.clear()


async def connected_stream(address: InstanceAddress, tls: ssl.SSLContext | None) -> trio.abc.Stream:
    """Return a connection to an instance. Raises OSError when it cannot be reached."""
    if address.scheme == "https":
        return await trio.open_ssl_over_tcp_stream(address.host, address.port, ssl_context=tls)
    return await trio.open_tcp_stream(address.host, address.port)


class _LeaderConnection:
    """One connection and the state of its protocol."""

    def __init__(self, stream: trio.abc.Stream, address: InstanceAddress) -> None:
        self._stream = stream
        self._host = f"{address.host}:{address.port}"
        self._protocol = h11.Connection(h11.CLIENT)
        self.was_closed = False

    @property
    def is_reusable(self) -> bool:
        """True when another request may be sent."""
        if self._protocol.our_state is h11.DONE and self._protocol.their_state is h11.DONE:
            self._protocol.start_next_cycle()
        return self._protocol.our_state is h11.IDLE

    async def exchange(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes
    ) -> LeaderAnswer:
        """Send a request and read the answer."""
        named = [("host", self._host), ("content-length", str(len(body))), *headers.items()]
        request = h11.Request(method=method, target=target, headers=named)
        data = self._protocol.send(request) or b""
        data += self._protocol.send(h11.Data(data=body)) or b""
        data += self._protocol.send(h11.EndOfMessage()) or b""
        await self._stream.send_all(data)
        return await self._answer()

    async def _answer(self) -> LeaderAnswer:
        status, chunks = 0, list[bytes]()
        while True:
            event = self._protocol.next_event()
            if event is h11.NEED_DATA:
                received = await self._stream.receive_some(_READ_BYTES)
                self.was_closed = not received and not status
                self._protocol.receive_data(bytes(received))
            elif isinstance(event, h11.Response):
                status = event.status_code
            elif isinstance(event, h11.Data):
                chunks.append(bytes(event.data))
            elif isinstance(event, h11.EndOfMessage):
                return LeaderAnswer(status, b"".join(chunks))
            elif isinstance(event, h11.ConnectionClosed):
                raise h11.RemoteProtocolError("connection closed")

    async def close(self) -> None:
        """Close the connection without waiting for the peer."""
        await trio.aclose_forcefully(self._stream)

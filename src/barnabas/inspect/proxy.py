"""A proxy in front of a Kafka server that decodes every frame.

Bytes pass unchanged, except for broker addresses in responses: they become addresses of the proxy
(`addresses`), so that clients do not leave it. Each new broker gets its own listener. Bytes that
cannot be decoded (TLS, another protocol) pass too.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

import trio

from barnabas.inspect.addresses import Address, names_brokers, with_local_addresses
from barnabas.inspect.conversation import Conversation, Frame
from barnabas.inspect.rendering import Heading

_RECEIVE_MAX: Final = 1 << 16
_CONNECT_TIMEOUT_S: Final = 10.0


class Proxy:
    """Listens on `listen` and relays connections to the server at `target`.

    `show` is called with every frame and its source, `report` with lines for the user. With
    `rewrite` off no byte changes, and `report` says when clients are sent to another address.
    """

    def __init__(
        self,
        listen: Address,
        target: Address,
        *,
        show: Callable[[Frame, Heading], None],
        report: Callable[[str], None],
        rewrite: bool = True,
    ) -> None:
        self.listen = listen
        self.target = target
        self.show = show
        self.report = report
        self.rewrite = rewrite
        self._nursery: trio.Nursery | None = None
        self._ports: dict[Address, int] = {}
        self._locks: dict[Address, trio.Lock] = {}
        self._numbers = 0
        self._reported: set[Address] = set()

    async def run(self, *, task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled; report the port.

        Raises OSError when it cannot listen.
        """
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            port = await self._listen_for(self.target, self.listen[1])
            task_status.started(port)
            await trio.sleep_forever()

    async def _listen_for(self, target: Address, port: int) -> int:
        if self._nursery is None:
            raise RuntimeError("the proxy is not running")
        listeners = await trio.open_tcp_listeners(port, host=self.listen[0])
        if port == 0:  # each address would get its own port
            for other in listeners[1:]:
                await other.aclose()
            del listeners[1:]
        taken: int = listeners[0].socket.getsockname()[1]
        self._nursery.start_soon(
            partial(trio.serve_listeners, partial(self._serve, target), listeners)
        )
        self._ports[target] = taken
        return taken

    async def _local(self, connection: _RelayedConnection, broker: Address, only: bool) -> Address:
        """Return the proxy's address for a broker."""
        host = connection.local[0]
        if only and broker not in self._ports:
            # The only broker is the target, with any advertised address.
            self._ports[broker] = self._ports[self.target]
        async with self._locks.setdefault(broker, trio.Lock()):
            if broker not in self._ports:
                port = await self._listen_for(broker, 0)
                self.report(f"{_text(broker)} is reached at {_text((host, port))}")
        return host, self._ports[broker]

    async def _serve(self, target: Address, client: trio.SocketStream) -> None:
        self._numbers += 1
        name = f"connection {self._numbers}"
        try:
            with trio.fail_after(_CONNECT_TIMEOUT_S):
                server = await trio.open_tcp_stream(*target)
        except (OSError, trio.TooSlowError) as error:
            self.report(f"{name}: {_text(target)} cannot be reached: {error or 'no answer'}")
            return
        local: Address = client.socket.getsockname()[:2]
        relayed = _RelayedConnection(name, client, server, local, Conversation())
        async with server:
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._from_client, relayed)
                    nursery.start_soon(self._from_server, relayed, nursery.cancel_scope)
            except* (trio.BrokenResourceError, trio.ClosedResourceError):
                pass

    async def _from_client(self, relayed: _RelayedConnection) -> None:
        while data := await relayed.client.receive_some(_RECEIVE_MAX):
            for frame in self._completed(relayed, bytes(data), from_client=True):
                self.show(frame, Heading(time.time(), relayed.name))
            if relayed.conversation.lost:
                relayed.conversation.take_rest(from_client=True)
            await relayed.server.send_all(data)
        await relayed.server.send_eof()

    async def _from_server(self, relayed: _RelayedConnection, scope: trio.CancelScope) -> None:
        """Relay complete frames, so that they can be changed; relay other bytes as they come."""
        while data := await relayed.server.receive_some(_RECEIVE_MAX):
            for frame in self._completed(relayed, bytes(data), from_client=False):
                self.show(frame, Heading(time.time(), relayed.name))
                await relayed.client.send_all(await self._passed(relayed, frame))
            if relayed.conversation.lost:
                await relayed.client.send_all(relayed.conversation.take_rest(from_client=False))
        await relayed.client.send_all(relayed.conversation.take_rest(from_client=False))
        scope.cancel()

    def _completed(
        self, relayed: _RelayedConnection, data: bytes, *, from_client: bool
    ) -> list[Frame]:
        """Return the frames that the bytes complete; report once when decoding ends."""
        was_lost = relayed.conversation.lost
        frames = relayed.conversation.receive(data, from_client=from_client)
        if relayed.conversation.lost and not was_lost:
            self.report(f"{relayed.name} is relayed without decoding: {relayed.conversation.lost}")
        return frames

    async def _passed(self, relayed: _RelayedConnection, frame: Frame) -> bytes:
        if not names_brokers(frame):
            return frame.data
        if self.rewrite:
            return await with_local_addresses(frame, partial(self._local, relayed))
        await with_local_addresses(frame, self._leaves)
        return frame.data

    async def _leaves(self, broker: Address, only: bool) -> Address:
        del only
        if broker not in self._reported and broker[1] not in self._ports.values():
            self._reported.add(broker)
            self.report(f"clients are sent to {_text(broker)}, past this proxy (--no-rewrite)")
        return broker


class _RelayedConnection(NamedTuple):
    """A client's connection and its connection to the server."""

    name: str
    client: trio.SocketStream
    server: trio.SocketStream
    local: Address
    conversation: Conversation


def _text(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

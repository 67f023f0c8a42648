"""The connections of a simulated node: frames from streams to the server's dispatchers, and back.

It replaces `server.transport`, whose sockets the simulation does not have. Requests
of a connection are handled one at a time; only Produce may start while earlier ones wait.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from inspect import iscoroutine
from ipaddress import IPv4Address
from struct import Struct
from time import monotonic
from typing import Any, Final

import trio

from barnabas import tasks
from barnabas.client.failures import Address
from barnabas.client.outgoing_sockets import Scratch
from barnabas.cluster.metadata.client_quotas import QuotaKey
from barnabas.protocol.errors import KafkaError, ProtocolError
from barnabas.protocol.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from barnabas.security.principals import ANONYMOUS
from barnabas.server.api.context import AnyContext, Deferred
from barnabas.server.api.dispatch import API_VERSIONS, Dispatcher
from barnabas.server.api.registry import ListenerKind
from barnabas.server.transport.acceptor import Limits
from barnabas.testing.simulation.sim_streams import SimStream, SimStreams
from barnabas.testing.simulation.world import Process

_LENGTH: Final = Struct(">i")
_PRODUCE: Final = 0
_FIRST_HOST: Final = 10 << 24


class SimListener:
    """A listener of a simulated node (`acceptor.Listener`)."""

    def __init__(self, name: str, address: Address, kind: ListenerKind) -> None:
        self.name = name
        self.host = address.host
        self.port = address.port
        self.kind: ListenerKind = kind
        self.tls = None  # nothing on a simulated connection needs to be hidden


class SimTransport:
    """All connections of one life of a node (`acceptor.Transport`)."""

    def __init__(self, process: Process, streams: SimStreams, limits: Limits) -> None:
        self.limits = limits
        self.connections: dict[SimConnection, None] = {}
        self.dispatchers: Mapping[ListenerKind, Dispatcher] = {}
        self._process = process
        self._streams = streams
        self._nursery: tasks.Nursery | None = None
        self._backlog: dict[str, list[SimStream]] = {}
        self._all_closed = tasks.event()

    def update_limits(self, limits: Limits) -> None:
        """Note changed limits, which have no effect: there are few connections."""
        self.limits = limits

    def limit_addresses(self, quotas: Mapping[QuotaKey, float]) -> None:
        """Ignore the quotas of addresses, which limit how fast connections are made."""

    async def run(
        self,
        listeners: Sequence[SimListener],
        dispatchers: Mapping[ListenerKind, Dispatcher],
        task_status: tasks.TaskStatus = tasks.IGNORED,
    ) -> None:
        """Serve the listeners until cancelled; `accept` adds more of them."""
        self.dispatchers = dispatchers
        async with tasks.open_nursery() as nursery:
            self._nursery = nursery
            self.accept(listeners)
            task_status.started()
            await tasks.sleep_forever()

    def listen(self, listeners: Sequence[SimListener]) -> None:
        """Let connections wait until `accept`."""
        for listener in listeners:
            waiting = self._backlog.setdefault(listener.name, [])
            address = Address(listener.host, listener.port)
            self._streams.listen(self._process, address, waiting.append)

    def accept(self, listeners: Sequence[SimListener]) -> None:
        """Accept the connections of listeners, and those that wait."""
        for listener in listeners:

            def begin(stream: SimStream, listener: SimListener = listener) -> None:
                if self._nursery is not None:
                    connection = SimConnection(self, listener, stream)
                    self.connections[connection] = None
                    self._nursery.start_soon(connection.run)

            address = Address(listener.host, listener.port)
            self._streams.listen(self._process, address, begin)
            for stream in self._backlog.pop(listener.name, ()):
                begin(stream)

    async def stop(self, grace_s: float) -> None:
        """Refuse connections, answer requests in flight for a time, and close all connections."""
        self._streams.close_listeners(self._process)
        self._all_closed = tasks.event()
        for connection in list(self.connections):
            connection.finish()
        with tasks.move_on_after(grace_s):
            if self.connections:
                await self._all_closed.wait()
        for connection in list(self.connections):
            connection.scope.cancel()

    def forget(self, connection: "SimConnection") -> None:
        """Forget a closed connection."""
        self.connections.pop(connection, None)
        if not self.connections:
            self._all_closed.set()


class SimConnection:
    """One connection of a client or of another node (`context.Peer`)."""

    def __init__(self, transport: SimTransport, listener: SimListener, stream: SimStream) -> None:
        self.principal = ANONYMOUS
        self.client_host = str(IPv4Address(_FIRST_HOST + stream.peer.process.node_id))
        self.listener_name = listener.name
        self.scope = tasks.cancel_scope()
        self._transport = transport
        self._dispatcher = transport.dispatchers[listener.kind]
        self._stream = stream
        self._received = bytearray()
        self._queue: deque[tuple[AnyContext, Any]] = deque()
        self._drained = tasks.event()
        self._is_closing = False
        self._is_discarding = False
        self._handled: AnyContext | None = None
        self._on_close: tuple[Callable[[], object], ...] = ()

    def on_close(self, callback: Callable[[], object]) -> None:
        """Call back once, when the connection has ended."""
        self._on_close += (callback,)

    def close(self) -> None:
        """Close once earlier responses are sent, without a response to this request."""
        self._is_closing = self._is_discarding = True

    def finish(self) -> None:
        """Close once the requests in progress are answered, unless they wait for an event."""
        self._is_closing = True
        handled = self._handled
        if not self._queue and (handled is None or handled.route.waits):
            self.scope.cancel()

    async def run(self) -> None:
        """Serve until either side closes."""
        try:
            with self.scope:
                await self._serve()
        except (OSError, trio.ClosedResourceError, ProtocolError):
            pass
        finally:
            self._forget_queue()
            self._transport.forget(self)
            self._stream.close()
            for callback in self._on_close:
                callback()

    def _forget_queue(self) -> None:
        for _, response in self._queue:
            if isinstance(response, Deferred):
                response.when_resolved(None)
        self._queue.clear()

    async def _serve(self) -> None:
        scratch = tasks.local(Scratch).plain
        while not self._is_closing:
            frame = self._frame()
            if frame is None:
                await self._stream.wait_readable()
                count = self._stream.receive_into(scratch)
                if not count:
                    return
                self._received += scratch[:count]
                continue
            await self._handle(self._dispatcher.decode(self, frame))
        await self._drain()

    def _frame(self) -> bytearray | None:
        """Take a whole frame from the front, without its length; None when there is none."""
        received = self._received
        if len(received) < _LENGTH.size:
            return None
        end = _LENGTH.size + _LENGTH.unpack_from(received)[0]
        if len(received) < end:
            return None
        frame = received[_LENGTH.size : end]
        del received[:end]
        return frame

    async def _handle(self, context: AnyContext) -> None:
        if context.api_key != _PRODUCE:
            await self._drain()
        if isinstance(context.request, WriteTxnMarkersRequest):
            process = self._stream.process
            process.world.rare.markers_sent(process.node_id, context.request)
        context.started_at = monotonic()
        self._handled = context
        try:
            response: Any = context.route.handler(context, context.request)
            if iscoroutine(response):
                response = await response
        except KafkaError as error:
            response = error
        finally:
            self._handled = None
        if response is None or self._is_discarding:
            return
        if context.api_key == API_VERSIONS:
            self._stream.limit_versions(response)
        if isinstance(response, Deferred) and not response.resolved:
            response.when_resolved(self._send_resolved)
        self._queue.append((context, response))
        self._send_resolved()

    def _send_resolved(self) -> None:
        """Send the responses up to the first that is not resolved."""
        try:
            while self._queue:
                context, response = self._queue[0]
                if isinstance(response, Deferred):
                    if not response.resolved:
                        return
                    response = response.response
                self._queue.popleft()
                self._count(context, response)
                parts = self._dispatcher.encode(context, response)
                self._stream.send_now(parts)
        except (OSError, ProtocolError):
            self.scope.cancel()
        self._drained.set()

    def _count(self, context: AnyContext, response: Any) -> None:
        """Count the rare states that a response shows."""
        process = self._stream.process
        process.world.rare.answered(response)
        if isinstance(response, WriteTxnMarkersResponse):
            process.world.rare.markers_written(response)

    async def _drain(self) -> None:
        """Wait until every response is sent, deferred ones too."""
        while self._queue:
            self._drained = tasks.event()
            await self._drained.wait()

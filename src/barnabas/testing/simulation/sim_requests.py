"""Requests of simulated clients: Kafka's frames over the simulation's connections, with callbacks.

A client of the simulation is a state machine without tasks. It asks with a message and gets
one callback, with the response or with the reason why there is none. In between is the program's
own client connection, which negotiates the versions and matches the responses.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Final

import attrs

from barnabas import tasks
from barnabas.client.broker_connection import BrokerConnection
from barnabas.client.client_config import ClientConfig
from barnabas.client.failures import (
    Address,
    BrokerGoneError,
    BrokerRefusedError,
    ConnectionFailureError,
    UnsupportedVersionError,
)
from barnabas.protocol.apis import API
from barnabas.protocol.errors import EncodingError, ErrorCode, error_code
from barnabas.protocol.messages_base import Message
from barnabas.sockets.byte_stream import ByteStream
from barnabas.sockets.file_ranges import Part
from barnabas.testing.simulation.fatal_errors import UNEXPLAINED, error_codes
from barnabas.testing.simulation.network import Failure, OnFailure, OnResponse
from barnabas.testing.simulation.quorum_invariants import InvariantError
from barnabas.testing.simulation.sim_streams import SimStreams
from barnabas.testing.simulation.world import Process

_BROKER_PORT: Final = 9092
_CONTROLLER_PORT: Final = 9093
_NEVER_S: Final = float("inf")

Key = tuple[int, str, str]


class SimRequests:
    """The requests of all clients of a simulated cluster."""

    def __init__(self, streams: SimStreams) -> None:
        self._streams = streams
        self._opening: dict[_Connection, None] = {}

    def ask(
        self,
        sender: Process,
        to: int,
        listener: str,
        request: Message,
        on_response: OnResponse,
        on_failure: OnFailure,
        *,
        purpose: str = "",
        timeout_ms: int = 30_000,
        version_max: int | None = None,
    ) -> None:
        """Send a request to a listener of a node; exactly one of the callbacks follows.

        A callback of a sender that dies does not follow. The requests of one life of a sender to
        one listener and with one purpose share a connection, and keep their order.
        """
        exchange = _Exchange(request, on_response, on_failure, version_max)
        begin = (sender, (to, listener, purpose), exchange, timeout_ms)
        sender.world.after(0, sender.call, sender.life, self._begin, begin)

    def expect(self, sender: Process, code: ErrorCode) -> None:
        """Let a sender get an error that C2 forbids to others."""
        sender.tasks.local(_Connections).expected.add(code)

    def _begin(self, sender: Process, key: Key, exchange: "_Exchange", timeout_ms: int) -> None:
        connections = sender.tasks.local(_Connections).by_key
        connection = connections.get(key)
        if connection is None or not connection.is_usable:
            connection = connections[key] = _Connection(sender, self._streams, self._opening, key)
        connection.add(exchange)
        sender.after_ms(timeout_ms, connection.time_out, exchange)

    def reset_damaged(self) -> None:
        """End the attempts to connect: those through a cut would wait for their time-outs."""
        for connection in list(self._opening):
            connection.end(Failure.SILENT)


class _Connections:
    """The connections of one life of a process."""

    def __init__(self) -> None:
        self.by_key: dict[Key, _Connection] = {}
        self.expected: set[ErrorCode] = set()


@attrs.define(slots=True, eq=False)
class _Exchange:
    """One request that waits for its outcome."""

    request: Message
    on_response: OnResponse
    on_failure: OnFailure
    version_max: int | None


class _Connection:
    """One connection, from the attempt to open it to its end, with the requests on it."""

    def __init__(
        self, sender: Process, streams: SimStreams, opening: "dict[_Connection, None]", key: Key
    ) -> None:
        to, listener, _ = key
        self._address = _address(streams, to, listener)
        self._sender = sender
        self._life = sender.life
        self._streams = streams
        self._opening = opening
        self._queue: deque[_Exchange] = deque()
        self._exchanges: dict[_Exchange, None] = {}
        self._added = sender.tasks.event()
        self._turn_is_over = sender.tasks.event()
        self._opened: BrokerConnection | None = None
        self._scope: tasks.CancelScope | None = None
        self._is_over = False
        opening[self] = None
        sender.tasks.spawn_system_task(self._run)

    @property
    def is_usable(self) -> bool:
        """True when requests may be added: it is open, or not open yet."""
        return not self._is_over and (self._opened is None or self._opened.is_usable)

    def add(self, exchange: _Exchange) -> None:
        """Send a request after those that were added before."""
        self._exchanges[exchange] = None
        self._queue.append(exchange)
        self._added.set()

    def time_out(self, exchange: _Exchange) -> None:
        """Close the connection of a request without a response, as clients do."""
        if exchange in self._exchanges:
            self.end(Failure.SILENT)

    def end(self, failure: Failure) -> None:
        """Close the connection; its requests have failed."""
        self._is_over = True
        self._opening.pop(self, None)
        for exchange in list(self._exchanges):
            self._settle(exchange, exchange.on_failure, failure)
        if self._scope is not None:
            self._scope.cancel()

    def _settle(self, exchange: _Exchange, callback: Any, outcome: Any) -> None:
        """Call back outside of the tasks, so that an error of the callback ends the run as is."""
        if exchange in self._exchanges:
            del self._exchanges[exchange]
            sender = self._sender
            sender.world.after(0, sender.call, self._life, callback, (outcome,))

    # Tasks

    async def _run(self) -> None:
        async with tasks.open_nursery() as nursery:
            self._scope = nursery.cancel_scope
            if self._is_over:
                return
            try:
                await self._open(nursery)
                await self._send(nursery)
            except ConnectionFailureError as error:
                self._failed(error)

    async def _open(self, nursery: tasks.Nursery) -> None:
        stream = await self._streams.connect(self._sender, self._address)
        config = ClientConfig(
            (self._address,),
            client_id=f"client-{self._sender.node_id}",
            request_timeout_s=_NEVER_S,
            max_response_bytes=1 << 30,
        )
        connection = BrokerConnection(
            self._address, config, _TurnStream(stream, lambda: self._turn_is_over.set())
        )
        await nursery.start(connection.read_responses)
        await connection.prepare()
        self._opened = connection
        self._opening.pop(self, None)

    async def _send(self, nursery: tasks.Nursery) -> None:
        """Send the requests in their order; each waits for its response in a separate task."""
        while True:
            while self._queue:
                self._turn_is_over = tasks.event()
                nursery.start_soon(self._ask, self._queue.popleft())
                await self._turn_is_over.wait()
            self._added = tasks.event()
            await self._added.wait()

    async def _ask(self, exchange: _Exchange) -> None:
        connection, request = self._opened, exchange.request
        if connection is None:
            raise RuntimeError("a request on a connection that is not open")
        answer: type[Message] = API[request.API_KEY].response_type
        try:
            response = await connection.ask(request, answer, max_version=exchange.version_max)
        except (UnsupportedVersionError, EncodingError):
            self._turn_is_over.set()
            self._settle(exchange, exchange.on_failure, Failure.TOO_OLD)
        except ConnectionFailureError as error:
            self._failed(error)
        else:
            self._check(request, response)
            self._settle(exchange, exchange.on_response, response)

    def _check(self, request: Message, response: Message) -> None:
        """Check C2: no client gets an error that no fault explains."""
        found = UNEXPLAINED.intersection(error_codes(response))
        found -= self._sender.tasks.local(_Connections).expected
        if found:
            names = [error_code(code).name for code in sorted(found)]
            what = f"{self._address} answers {names} to {request}"
            self._sender.world.fail(InvariantError(f"C2: {what}"))

    def _failed(self, error: ConnectionFailureError) -> None:
        match error:
            case BrokerRefusedError():
                self.end(Failure.REFUSED)
            case BrokerGoneError():
                self.end(Failure.RESET)
            case _:  # the simulation changes no bytes
                self._sender.world.fail(error)


def _address(streams: SimStreams, node_id: int, listener: str) -> Address:
    """Return where a node listens; a controller may have another port in each life."""
    is_broker = listener == "broker"
    for address in streams.addresses_of(node_id):
        if (address.port == _BROKER_PORT) == is_broker:
            return address
    return Address(f"node-{node_id}", _BROKER_PORT if is_broker else _CONTROLLER_PORT)


class _TurnStream:
    """A stream that reports each time that something was sent."""

    def __init__(self, stream: ByteStream, sent: Callable[[], object]) -> None:
        self._stream = stream
        self._sent = sent
        self.receive_into = stream.receive_into
        self.wait_readable = stream.wait_readable
        self.send_now = stream.send_now
        self.close = stream.close

    async def send(self, parts: list[Part]) -> None:
        """Send all parts. Raises OSError when the connection was reset."""
        try:
            await self._stream.send(parts)
        finally:
            self._sent()

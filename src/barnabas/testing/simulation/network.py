"""A simulated network of connections with requests and responses.

A connection belongs to one sender, one receiver and one purpose, and keeps the order of its
messages in each direction. When it ends, the outcome of its requests is unknown to the sender.
Senders distinguish three failures: the receiver's port refuses (its process is dead), the
connection is reset (its process died), or there is silence (a cut, a pause, a loss of power).
"""

import enum
from collections.abc import Callable
from typing import Any

import attrs

from barnabas.protocol.errors import EncodingError
from barnabas.testing.simulation.world import Process, World


class Failure(enum.Enum):
    """Why a request has no response."""

    REFUSED = "refused"
    RESET = "reset"
    SILENT = "silent"
    TOO_OLD = "too old"
    """The receiver's versions cannot carry the request."""
    USELESS = "useless"
    """The response states nothing that the sender can use."""


Respond = Callable[[Any], None]
Handler = Callable[[Any, Respond], None]
OnResponse = Callable[[Any], None]
OnFailure = Callable[[Failure], None]


@attrs.define(slots=True)
class Delays:
    """Delays of messages in µs: `low` to `high`, and with `tail_chance` up to `tail`."""

    low: int = 100
    high: int = 1_000
    tail: int = 30_000
    tail_chance: float = 0.0


@attrs.frozen(slots=True)
class Carried:
    """A request as its receiver reads it; `read` returns a response as the sender reads it.

    A response that is of no use to the sender is None.
    """

    request: Any
    read: Callable[[Any], Any]


Carry = Callable[[int, int, Any], Carried | None]
"""Carries a request from one node to another as bytes; None when it passes as an object.

Raises EncodingError when the versions of the two nodes cannot carry it.
"""


@attrs.define(slots=True, eq=False)
class _Exchange:
    """One request and its outcome."""

    connection: "_Connection"
    on_response: OnResponse
    on_failure: OnFailure
    carried: Carried | None = None
    is_over: bool = False


@attrs.define(slots=True, eq=False)
class _Connection:
    """An open connection between two lives of two processes."""

    sender: Process
    sender_life: int
    receiver: Process
    receiver_life: int
    key: tuple[int, int, str]
    is_open: bool = True
    has_lost: bool = False
    sent_until_us: int = 0
    answered_until_us: int = 0
    exchanges: list[_Exchange] = attrs.field(factory=list[_Exchange])


@attrs.frozen(slots=True, eq=False)
class _Attempt:
    """An attempt to connect through a cut."""

    sender: Process
    life: int
    on_failure: OnFailure


@attrs.frozen(slots=True)
class _Served:
    """A bound listener of one life of a process."""

    process: Process
    life: int
    handler: Handler

    @property
    def is_bound(self) -> bool:
        return self.process.is_running and self.process.life == self.life


class Network:
    """Carries messages between the processes that `serve`."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.delays = Delays()
        self.reset_chance = 0.0
        self.carry: Carry | None = None
        self._cuts: set[tuple[int, int]] = set()
        self._served: dict[tuple[int, str], _Served] = {}
        self._attempts: dict[_Attempt, None] = {}
        self._connections: dict[tuple[int, int, str], _Connection] = {}

    # Faults

    def cut(self, source: int, target: int) -> None:
        """Lose all messages from one node to another, in this direction."""
        self._cuts.add((source, target))

    def heal(self) -> None:
        """End all cuts."""
        self._cuts.clear()

    def reset_damaged(self) -> None:
        """End connections that have lost messages, and attempts to connect through a cut.

        After the faults, no client has to wait for a timeout.
        """
        for connection in list(self._connections.values()):
            if connection.has_lost:
                self._end(connection, Failure.RESET)
        for attempt in list(self._attempts):
            self._give_up(attempt)

    def is_cut(self, source: int, target: int) -> bool:
        """True while messages from `source` to `target` are lost."""
        return (source, target) in self._cuts

    def process_died(self, process: Process, *, silently: bool) -> None:
        """End the connections of a dead process; peers see a reset, or silence."""
        for connection in list(self._connections.values()):
            if connection.sender is process:
                self._end(connection, None)
            elif connection.receiver is process and silently:
                connection.has_lost = True
            elif connection.receiver is process:
                delay_us = self._delay_us()
                if not self.is_cut(process.node_id, connection.sender.node_id):
                    self.world.after(delay_us, self._end, connection, Failure.RESET)

    # Requests

    def serve(self, process: Process, listener: str, handler: Handler) -> None:
        """Let a process answer the requests to one of its listeners, in its current life."""
        self._served[process.node_id, listener] = _Served(process, process.life, handler)

    def ask(
        self,
        sender: Process,
        to: int,
        listener: str,
        request: Any,
        on_response: OnResponse,
        on_failure: OnFailure,
        *,
        purpose: str = "",
        timeout_ms: int = 30_000,
    ) -> None:
        """Send a request to a listener of a node; exactly one of the callbacks follows.

        A callback of a sender that dies does not follow.
        """
        connection = self._connect(sender, to, listener, purpose)
        if connection is None:
            self._fail_to_connect(sender, to, on_failure, timeout_ms)
            return
        carried = None
        if self.carry is not None:
            try:
                carried = self.carry(sender.node_id, to, request)
            except EncodingError:
                sender.after_ms(0, on_failure, Failure.TOO_OLD)
                return
        request = request if carried is None else carried.request
        exchange = _Exchange(connection, on_response, on_failure, carried)
        connection.exchanges.append(exchange)
        sender.after_ms(timeout_ms, self._time_out, exchange)
        if self.is_cut(sender.node_id, to):
            connection.has_lost = True
            return
        at_us = max(self.world.now_us + self._delay_us(), connection.sent_until_us + 1)
        connection.sent_until_us = at_us
        receiver = connection.receiver
        arrive = (exchange, self._served[to, listener].handler, request)
        delay_us = at_us - self.world.now_us
        self.world.after(delay_us, receiver.call, connection.receiver_life, self._arrive, arrive)
        if self.world.chance(self.reset_chance):
            self.world.after(self._delay_us(), self._end, connection, Failure.RESET)

    def _connect(self, sender: Process, to: int, listener: str, purpose: str) -> _Connection | None:
        key = sender.node_id, to, f"{listener}/{purpose}"
        connection = self._connections.get(key)
        if connection is not None and self._is_usable(connection, sender):
            return connection
        served = self._served.get((to, listener))
        if served is None or not served.is_bound or self.is_cut(sender.node_id, to):
            return None
        receiver = served.process
        connection = _Connection(sender, sender.life, receiver, receiver.life, key)
        self._connections[key] = connection
        return connection

    def _is_usable(self, connection: _Connection, sender: Process) -> bool:
        """True until the connection ends; a restarted receiver resets those of its old life."""
        receiver = connection.receiver
        if connection.is_open and receiver.is_running and receiver.life != connection.receiver_life:
            self._end(connection, Failure.RESET)
        return connection.is_open and connection.sender_life == sender.life

    def _fail_to_connect(
        self, sender: Process, to: int, on_failure: OnFailure, timeout_ms: int
    ) -> None:
        is_cut = self.is_cut(sender.node_id, to) or self.is_cut(to, sender.node_id)
        answer_ms = 2 * self._delay_us() / 1000
        if is_cut or answer_ms >= timeout_ms:
            attempt = _Attempt(sender, sender.life, on_failure)
            self._attempts[attempt] = None
            sender.world.after(timeout_ms * 1000, self._give_up, attempt)
        else:
            sender.after_ms(answer_ms, on_failure, Failure.REFUSED)

    def _give_up(self, attempt: "_Attempt") -> None:
        """End an attempt to connect that got no answer."""
        if attempt in self._attempts:
            del self._attempts[attempt]
            attempt.sender.call(attempt.life, attempt.on_failure, (Failure.SILENT,))

    def _arrive(self, exchange: _Exchange, handler: Handler, request: Any) -> None:
        def respond(response: Any) -> None:
            self.world.rare.answered(response)
            if exchange.carried is not None:
                response = exchange.carried.read(response)
            self._respond(exchange, response)

        if exchange.connection.is_open:
            handler(request, respond)

    def _respond(self, exchange: _Exchange, response: Any) -> None:
        connection = exchange.connection
        receiver, sender = connection.receiver, connection.sender
        if not connection.is_open or receiver.life != connection.receiver_life:
            return
        if self.is_cut(receiver.node_id, sender.node_id):
            connection.has_lost = True
            return
        at_us = max(self.world.now_us + self._delay_us(), connection.answered_until_us + 1)
        connection.answered_until_us = at_us
        delay_us = at_us - self.world.now_us
        arrive = (exchange, response)
        self.world.after(delay_us, sender.call, connection.sender_life, self._settle, arrive)

    def _settle(self, exchange: _Exchange, response: Any) -> None:
        if not exchange.is_over:
            exchange.is_over = True
            exchange.connection.exchanges.remove(exchange)
            if response is None and exchange.carried is not None:
                exchange.on_failure(Failure.USELESS)
            else:
                exchange.on_response(response)

    def _time_out(self, exchange: _Exchange) -> None:
        """Close the connection of a request without a response, as clients do."""
        if not exchange.is_over:
            self._end(exchange.connection, Failure.SILENT)

    def _end(self, connection: _Connection, failure: Failure | None) -> None:
        """End a connection; its sender learns the failure, if it lives."""
        if not connection.is_open:
            return
        connection.is_open = False
        if self._connections.get(connection.key) is connection:
            del self._connections[connection.key]
        exchanges, connection.exchanges = connection.exchanges, []
        for exchange in exchanges:
            exchange.is_over = True
            if failure is not None:
                sender = connection.sender
                sender.call(connection.sender_life, exchange.on_failure, (failure,))

    def _delay_us(self) -> int:
        delays, chance = self.delays, self.world.random
        if delays.tail_chance and chance.random() < delays.tail_chance:
            return chance.randrange(delays.high, max(delays.high + 1, delays.tail))
        return chance.randrange(delays.low, delays.high)

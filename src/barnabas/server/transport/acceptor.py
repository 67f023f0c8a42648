"""Listening sockets and the limits for accepting connections.

Addresses are bound before the node opens any file, so that a port in use is found first.
Connections are accepted once the node is ready to serve them.
"""

import errno
import logging
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from sys import maxsize
from time import monotonic
from typing import TYPE_CHECKING

import attrs
import trio
from trio.lowlevel import wait_readable

from barnabas.config import Listener as Endpoint
from barnabas.config import NodeConfig
from barnabas.config.listeners import listener_property
from barnabas.config.properties.vocabulary import INT_MAX
from barnabas.server.api.dispatch import Dispatcher
from barnabas.server.api.registry import ListenerKind
from barnabas.server.node_failures import StartupError
from barnabas.server.open_files import connections_room
from barnabas.server.transport.connection import Connection
from barnabas.server.transport.connection_rates import ConnectionRates
from barnabas.server.transport.connection_slots import ConnectionSlots
from barnabas.server.transport.frame_splitter import SCRATCH_BYTES
from barnabas.server.transport.peer_watch import PeerWatch
from barnabas.sockets.byte_stream import ByteStream
from barnabas.sockets.file_ranges import ReadAhead
from barnabas.sockets.socket_stream import SocketStream

if TYPE_CHECKING:
    from barnabas.cluster.metadata.client_quotas import QuotaKey
    from barnabas.server.transport.login import LoginPolicy
    from barnabas.server.transport.tls_listener import TlsListener

logger = logging.getLogger(__name__)

# The pause in accepting when the process or the system is out of descriptors.
_NO_DESCRIPTORS_PAUSE_S = 0.2
_NO_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
# The number of connections accepted in a row before other tasks run.
_ACCEPTED_MAX = 32
_IDLE_CHECKS_PER_TIMEOUT = 20
# Kafka's default of 50 is for a thread that only accepts. A client that finds the backlog full
# retries after a second.
_BACKLOG_MIN = 1024
# The interval of the warning that connections wait.
_WAIT_WARNING_INTERVAL_S = 10
_CONNECTIONS_MAX = "max.connections"
_CREATION_RATE = "max.connection.creation.rate"
# Connections that are kept for a moment because their address makes too many; more are closed at
# once.
_REFUSED_MAX = 1000


def dynamic_limits(config: NodeConfig) -> tuple[str, ...]:
    """Return the properties of limits whose changes are applied while the node runs."""
    overrides = "max.connections.per.ip.overrides"
    of_listeners = (_CONNECTIONS_MAX, _CREATION_RATE)
    own = (listener_property(each.name, key) for each in config.listeners for key in of_listeners)
    return (*of_listeners, "max.connections.per.ip", overrides, *own)


@attrs.frozen(kw_only=True)
class Limits:
    """Limits of one connection and of all; sizes in bytes, -1 for the system's default."""

    request_bytes_max: int
    idle_ms_max: int
    authentication_ms_max: int
    connections_max: int
    listener_connections_max: Mapping[str, int] = attrs.field(factory=dict[str, int])
    """The separate limits of listeners that have one, by name."""
    creation_rate_max: int = INT_MAX
    """New connections a second of all listeners of a kind."""
    listener_creation_rate_max: Mapping[str, int] = attrs.field(factory=dict[str, int])
    protected_listener: str | None = None
    """The listener of brokers, when there are others: the limits of the node do not concern it."""
    quota_windows: int = 11
    quota_window_ms: int = 1000
    connections_per_ip_max: int
    connections_per_ip_overrides: dict[str, int]
    send_buffer_bytes: int
    receive_buffer_bytes: int
    backlog: int

    @classmethod
    def of(cls, config: NodeConfig) -> "Limits":
        """Return the limits that a node's configuration sets."""
        overrides = config.get("max.connections.per.ip.overrides") or ""
        room = connections_room()
        pairs = (text.rpartition(":") for text in overrides.split(",") if text.strip())
        return cls(
            request_bytes_max=config.get_int("socket.request.max.bytes"),
            idle_ms_max=config.get_int("connections.max.idle.ms"),
            authentication_ms_max=config.get_int("barnabas.authentication.timeout.ms"),
            connections_max=min(config.get_int(_CONNECTIONS_MAX), room or maxsize),
            listener_connections_max=_of_listeners(config, _CONNECTIONS_MAX),
            creation_rate_max=config.get_int(_CREATION_RATE),
            listener_creation_rate_max=_of_listeners(config, _CREATION_RATE),
            protected_listener=_protected_listener(config),
            quota_windows=config.get_int("quota.window.num"),
            quota_window_ms=config.get_int("quota.window.size.seconds") * 1000,
            connections_per_ip_max=config.get_int("max.connections.per.ip"),
            connections_per_ip_overrides={host.strip(): int(count) for host, _, count in pairs},
            send_buffer_bytes=config.get_int("socket.send.buffer.bytes"),
            receive_buffer_bytes=config.get_int("socket.receive.buffer.bytes"),
            backlog=max(config.get_int("socket.listen.backlog.size"), _BACKLOG_MIN),
        )


def _of_listeners(config: NodeConfig, key: str) -> dict[str, int]:
    """Return the values of a property of the listeners that have one, by name."""
    own = {each.name: listener_property(each.name, key) for each in config.listeners}
    return {name: config.get_int(own[name]) for name in own if config.is_set(own[name])}


def _protected_listener(config: NodeConfig) -> str | None:
    controllers = config.controller_listener_names
    names = {each.name for each in config.listeners if each.name not in controllers}
    return config.inter_broker_listener_name if len(names) > 1 else None


Opening = Callable[[Connection], Awaitable[None]]
"""A step before a connection's first request, such as the TLS handshake.

It sets the connection's principal, and raises ProtocolError when the connection must be closed.
"""


class Listener:
    """A bound endpoint; `port` is the port that the system chose where 0 was configured.

    `openings` are the steps before the first request of a connection, in their order.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        sock: socket.socket,
        kind: ListenerKind,
        tls: "TlsListener | None" = None,
    ) -> None:
        self.kind: ListenerKind = kind
        self.tls = tls
        self.name = endpoint.name
        self.host = endpoint.host
        self.sock = sock
        self.port: int = sock.getsockname()[1]
        self.openings: tuple[Opening, ...] = () if tls is None else (tls.open,)

    def stream(self, sock: socket.socket, read_ahead: ReadAhead) -> ByteStream:
        """Return the byte stream of an accepted socket."""
        if self.tls is None:
            return SocketStream(sock, read_ahead)
        return self.tls.stream(sock, read_ahead)


def bind(endpoint: Endpoint, limits: Limits) -> socket.socket:
    """Return a socket bound to the endpoint, not listening yet.

    Raises StartupError when the address is unavailable.
    """
    host = endpoint.host or None
    try:
        found = socket.getaddrinfo(
            host, endpoint.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except OSError as error:
        raise StartupError(f"listeners: {endpoint}: {error.strerror or error}") from error
    # Without a host, prefer the address that accepts both IPv4 and IPv6.
    found.sort(key=lambda info: info[0] == socket.AF_INET6, reverse=host is None)
    problem: OSError | None = None
    for family, kind, protocol, _, address in found:
        try:
            return _bound(family, kind, protocol, address, limits, dual=host is None)
        except OSError as error:
            problem = error
    reason = problem.strerror if problem else "no address"
    raise StartupError(f"listeners: {endpoint} cannot be opened: {reason}") from problem


def _bound(
    family: int, kind: int, protocol: int, address: object, limits: Limits, *, dual: bool
) -> socket.socket:
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if dual else 1)
        # Accepted sockets inherit it; it must be set before listening to size the TCP window.
        if limits.receive_buffer_bytes > 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, limits.receive_buffer_bytes)
        sock.setblocking(False)
        sock.bind(address)  # pyright: ignore[reportArgumentType]
    except BaseException:
        sock.close()
        raise
    return sock


class Transport:
    """All listeners and connections of a node, and what they share."""

    def __init__(
        self,
        limits: Limits,
        read_ahead: Callable[[int, int, int], Awaitable[object]],
        logins: "Mapping[str, LoginPolicy] | None" = None,
    ) -> None:
        self.limits = limits
        self.read_ahead = read_ahead
        self.logins: Mapping[str, LoginPolicy] = logins or {}
        self.scratch = memoryview(bytearray(SCRATCH_BYTES))
        self.dispatchers: Mapping[ListenerKind, Dispatcher] = {}
        self.connections: set[Connection] = set()
        self.accepted = 0
        self.refused = 0
        self.rates = ConnectionRates(
            limits.quota_windows, limits.quota_window_ms, lambda: int(monotonic() * 1000)
        )
        self._refused_now = 0
        self._by_ip: Counter[str] = Counter()
        self._slots = ConnectionSlots()
        self._peers = PeerWatch()
        self._slot_free = trio.Event()
        self._next_wait_warning_s = 0.0
        self._nursery: trio.Nursery | None = None
        self._acceptors: trio.Nursery | None = None
        self._accepting = trio.CancelScope()
        self._all_closed: trio.Event | None = None

    def update_limits(self, limits: Limits) -> None:
        """Apply changed limits to connections that are accepted from now on."""
        self.limits = limits
        self._slot_free.set()

    def limit_addresses(self, quotas: "Mapping[QuotaKey, float]") -> None:
        """Apply the quotas of the metadata to connections that are accepted from now on."""
        self.rates.limit_addresses(quotas)

    def start_soon(self, work: Callable[[], Awaitable[object]]) -> None:
        """Run a task for as long as the transport runs."""
        if self._nursery is not None:
            self._nursery.start_soon(work)

    async def run(
        self,
        listeners: list[Listener],
        dispatchers: Mapping[ListenerKind, Dispatcher],
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Accept and serve until cancelled, or until `stop` has closed all connections.

        It has started once every address accepts connections; `accept` adds more of them.
        """
        self.dispatchers = dispatchers
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            try:
                nursery.start_soon(self._peers.run)
                nursery.start_soon(self._close_idle)
                for login in self.logins.values():
                    for service in login.services:
                        await nursery.start(service)
                await self._accept_all(listeners, task_status)
                await trio.sleep_forever()
            finally:
                self._nursery = None
                self._peers.close()

    async def _accept_all(
        self, listeners: list[Listener], task_status: trio.TaskStatus[None]
    ) -> None:
        with self._accepting:
            async with trio.open_nursery() as nursery:
                self._acceptors = nursery
                self.accept(listeners)
                task_status.started()
                await trio.sleep_forever()

    def listen(self, listeners: Iterable[Listener]) -> None:
        """Let connections wait in the backlog of these addresses until `accept`."""
        for listener in listeners:
            listener.sock.listen(self.limits.backlog)

    def accept(self, listeners: Sequence[Listener]) -> None:
        """Accept connections at more addresses; `run` must have started."""
        if self._acceptors is None:
            raise RuntimeError("the transport does not run")
        self.listen(listeners)
        for listener in listeners:
            self._acceptors.start_soon(self._accept, listener)
            if listener.tls is not None:
                self._acceptors.start_soon(listener.tls.warn_daily)

    async def stop(self, grace_s: float) -> None:
        """Stop accepting, answer requests in flight for at most `grace_s`, and close all
        connections.
        """
        self._accepting.cancel()
        self._all_closed = trio.Event()
        for connection in list(self.connections):
            connection.finish()
        if self.connections:
            with trio.move_on_after(grace_s):
                await self._all_closed.wait()
        for connection in list(self.connections):
            connection.scope.cancel()
        if self.connections:
            await self._all_closed.wait()

    async def _accept(self, listener: Listener) -> None:
        sock = listener.sock
        with sock:
            while True:
                await wait_readable(sock)
                await self._accept_some(listener, sock)

    async def _accept_some(self, listener: Listener, sock: socket.socket) -> None:
        for _ in range(_ACCEPTED_MAX):
            # As in Kafka, the next connection waits in the backlog until another one closes.
            await self._wait_for_slot(listener)
            try:
                client, address = sock.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno not in _NO_DESCRIPTORS:
                    continue  # the client closed before it was accepted
                logger.error(
                    "cannot accept listener=%s connections=%d error=%s hint=%s",
                    listener.name,
                    len(self.connections),
                    error.strerror,
                    "raise the open-files limit (ulimit -n) or lower max.connections",
                )
                await trio.sleep(_NO_DESCRIPTORS_PAUSE_S)
                return
            delay_ms = self.rates.delay_ms(listener, self.limits)
            if delay_ms:
                await self._delay(listener, client, delay_ms)
            self._admit(listener, client, address[0].removeprefix("::ffff:"))

    async def _wait_for_slot(self, listener: Listener) -> None:
        while self._slots.is_full(listener, self.limits):
            self._warn_of_waiting(listener)
            if self._slot_free.is_set():  # otherwise other listeners wait for it
                self._slot_free = trio.Event()
            await self._slot_free.wait()

    async def _delay(self, listener: Listener, client: socket.socket, delay_ms: int) -> None:
        """Accept nothing more for a time, as connections are made too fast."""
        try:
            await trio.sleep(delay_ms / 1000)
            await self._wait_for_slot(listener)
        except BaseException:
            client.close()
            raise

    def _warn_of_waiting(self, listener: Listener) -> None:
        if monotonic() < self._next_wait_warning_s:
            return
        self._next_wait_warning_s = monotonic() + _WAIT_WARNING_INTERVAL_S
        logger.warning(
            "connections are waiting listener=%s connections=%d hint=%s",
            listener.name,
            len(self.connections),
            "raise the open-files limit (ulimit -n) or max.connections",
        )

    def _admit(self, listener: Listener, client: socket.socket, host: str) -> None:
        limits = self.limits
        refusal_ms = self.rates.refusal_ms(listener, limits, host)
        if refusal_ms:
            self._refuse_late(client, refusal_ms / 1000)
            return
        per_ip_max = limits.connections_per_ip_overrides.get(host, limits.connections_per_ip_max)
        if self._by_ip[host] >= per_ip_max or self._nursery is None:
            self.refused += 1
            logger.info("refused connection host=%s reason=max.connections.per.ip", host)
            client.close()
            return
        client.setblocking(False)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if limits.send_buffer_bytes > 0:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, limits.send_buffer_bytes)
        connection = Connection(self, listener, client, host)
        self.connections.add(connection)
        self._by_ip[host] += 1
        self._slots.add(listener)
        self.accepted += 1
        if connection.login is not None:
            connection.login.begin(connection)
        elif listener.tls is not None:
            listener.tls.begin(connection)
        self._nursery.start_soon(connection.run, name=connection.run)
        if listener.name == limits.protected_listener:
            self._make_way(listener)

    def _make_way(self, listener: Listener) -> None:
        """Close the connection that was used longest ago when brokers' connections need room."""
        closed = self._slots.making_way(listener, self.limits, self.connections)
        if closed is not None:
            logger.info(
                "closing connection host=%s listener=%s reason=max.connections: a broker needs it",
                closed.client_host,
                closed.listener_name,
            )
            closed.scope.cancel()

    def _refuse_late(self, client: socket.socket, delay_s: float) -> None:
        """Close a connection after a delay, so that its client waits before the next one."""

        async def close_later() -> None:
            try:
                await trio.sleep(delay_s)
            finally:
                self._refused_now -= 1
                client.close()

        if self._nursery is None or self._refused_now >= _REFUSED_MAX:
            client.close()
            return
        self._refused_now += 1
        self._nursery.start_soon(close_later)

    def forget(self, connection: Connection) -> None:
        """Remove a closed connection and free its slot."""
        self._peers.forget(connection)
        if connection.login is not None:
            connection.login.end(connection)
        self.connections.discard(connection)
        self._slots.remove(connection)
        self._by_ip[connection.client_host] -= 1
        if not self._by_ip[connection.client_host]:
            del self._by_ip[connection.client_host]
        self._slot_free.set()
        if self._all_closed is not None and not self.connections:
            self._all_closed.set()

    def watch(self, connection: Connection) -> None:
        """Notify a connection when its peer closes while a handler works for it."""
        self._peers.watch(connection)

    async def _close_idle(self) -> None:
        """Close connections that are idle for connections.max.idle.ms, checked at intervals."""
        idle_s = self.limits.idle_ms_max / 1000
        if idle_s <= 0:
            return
        while True:
            await trio.sleep(max(idle_s / _IDLE_CHECKS_PER_TIMEOUT, 0.05))
            limit = monotonic() - idle_s
            for connection in list(self.connections):
                if connection.last_active_s < limit and not connection.handling:
                    logger.info("closing idle connection host=%s", connection.client_host)
                    connection.scope.cancel()

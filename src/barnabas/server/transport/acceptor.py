"""The sockets that clients come in through, and the rules for letting them in.

Addresses are bound before anything else of the node is touched, so that a port in use is found
first; connections are accepted once the node is ready to serve them.
"""

import errno
import logging
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from sys import maxsize
from time import monotonic

import attrs
import trio
from trio.lowlevel import wait_readable

from barnabas.config import Listener as Endpoint
from barnabas.config import NodeConfig
from barnabas.server.api.dispatch import Dispatcher
from barnabas.server.api.registry import ListenerKind
from barnabas.server.node.startup_checks import StartupError, connections_room
from barnabas.server.transport.connection import Connection
from barnabas.server.transport.frame_splitter import SCRATCH_BYTES
from barnabas.server.transport.peer_watch import PeerWatch

logger = logging.getLogger(__name__)

# How long accepting rests when the process or the system is out of descriptors.
_EXHAUSTED_PAUSE_S = 0.2
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
# After so many accepted connections in a row other tasks get a turn.
_ACCEPTED_MAX = 32
_SWEEPS_PER_IDLE_TIME = 20
# Kafka's default of 50 is for a thread that does nothing but accept; a client that finds the
# backlog full tries again only after a second.
_BACKLOG_MIN = 1024
# That connections wait is told once in so many seconds.
_TOLD_AGAIN_S = 10


# Properties whose changes are applied while the node runs.
DYNAMIC_LIMITS = ("max.connections", "max.connections.per.ip", "max.connections.per.ip.overrides")


@attrs.frozen(kw_only=True)
class Limits:
    """What one connection and all of them may take; sizes in bytes, -1 leaves it to the system."""

    request_bytes_max: int
    idle_ms_max: int
    connections_max: int
    connections_per_ip_max: int
    connections_per_ip_overrides: dict[str, int]
    send_buffer_bytes: int
    receive_buffer_bytes: int
    backlog: int

    @classmethod
    def of(cls, config: NodeConfig) -> "Limits":
        """The limits that a node's configuration sets."""
        overrides = config.get("max.connections.per.ip.overrides") or ""
        room = connections_room()
        pairs = (text.rpartition(":") for text in overrides.split(",") if text.strip())
        return cls(
            request_bytes_max=config.get_int("socket.request.max.bytes"),
            idle_ms_max=config.get_int("connections.max.idle.ms"),
            connections_max=min(config.get_int("max.connections"), room or maxsize),
            connections_per_ip_max=config.get_int("max.connections.per.ip"),
            connections_per_ip_overrides={host.strip(): int(count) for host, _, count in pairs},
            send_buffer_bytes=config.get_int("socket.send.buffer.bytes"),
            receive_buffer_bytes=config.get_int("socket.receive.buffer.bytes"),
            backlog=max(config.get_int("socket.listen.backlog.size"), _BACKLOG_MIN),
        )


class Listener:
    """A bound endpoint; `port` is the port that the system chose where 0 was configured."""

    def __init__(self, endpoint: Endpoint, sock: socket.socket, kind: ListenerKind) -> None:
        self.kind: ListenerKind = kind
        self.name = endpoint.name
        self.host = endpoint.host
        self.sock = sock
        self.port: int = sock.getsockname()[1]


def bind(endpoint: Endpoint, limits: Limits) -> socket.socket:
    """A socket bound to the endpoint, not listening yet; StartupError when it cannot be had."""
    host = endpoint.host or None
    try:
        found = socket.getaddrinfo(
            host, endpoint.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except OSError as error:
        raise StartupError(f"listeners: {endpoint}: {error.strerror or error}") from error
    # Without a host, the address that takes IPv4 and IPv6 alike, where the system has both.
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
        # Accepted sockets inherit it; set before listening, it sizes the window offered.
        if limits.receive_buffer_bytes > 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, limits.receive_buffer_bytes)
        sock.setblocking(False)
        sock.bind(address)  # pyright: ignore[reportArgumentType]
    except BaseException:
        sock.close()
        raise
    return sock


class Transport:
    """All listeners and connections of a node, with what they share."""

    def __init__(
        self, limits: Limits, read_ahead: Callable[[int, int, int], Awaitable[object]]
    ) -> None:
        self.limits = limits
        self.read_ahead = read_ahead
        self.scratch = memoryview(bytearray(SCRATCH_BYTES))
        self.dispatchers: Mapping[ListenerKind, Dispatcher] = {}
        self.connections: set[Connection] = set()
        self.accepted = 0
        self.refused = 0
        self._by_ip: Counter[str] = Counter()
        self._peers = PeerWatch()
        self._slot_free = trio.Event()
        self._tell_full_again_s = 0.0
        self._nursery: trio.Nursery | None = None
        self._accepting = trio.CancelScope()
        self._all_gone: trio.Event | None = None

    def update_limits(self, limits: Limits) -> None:
        """Apply changed limits to connections that are accepted from now on."""
        self.limits = limits
        self._slot_free.set()

    def start_soon(self, work: Callable[[], Awaitable[object]]) -> None:
        """Run a task as long as the transport runs."""
        if self._nursery is not None:
            self._nursery.start_soon(work)

    async def run(
        self,
        listeners: list[Listener],
        dispatchers: Mapping[ListenerKind, Dispatcher],
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Accept and serve until cancelled, or until `stop` has seen all connections off.

        It has started once every address takes connections.
        """
        self.dispatchers = dispatchers
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            try:
                nursery.start_soon(self._peers.run)
                nursery.start_soon(self._sweep)
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
                for listener in listeners:
                    listener.sock.listen(self.limits.backlog)
                    nursery.start_soon(self._accept, listener)
                task_status.started()

    async def stop(self, grace_s: float) -> None:
        """Accept no more, answer what is in flight for at most `grace_s`, close everything."""
        self._accepting.cancel()
        self._all_gone = trio.Event()
        for connection in list(self.connections):
            connection.finish()
        if self.connections:
            with trio.move_on_after(grace_s):
                await self._all_gone.wait()
        for connection in list(self.connections):
            connection.scope.cancel()
        if self.connections:
            await self._all_gone.wait()

    async def _accept(self, listener: Listener) -> None:
        sock = listener.sock
        with sock:
            while True:
                await wait_readable(sock)
                await self._accept_some(listener, sock)

    async def _accept_some(self, listener: Listener, sock: socket.socket) -> None:
        for _ in range(_ACCEPTED_MAX):
            while len(self.connections) >= self.limits.connections_max:
                # As Kafka: the next one waits in the backlog until another leaves.
                self._tell_full(listener)
                self._slot_free = trio.Event()
                await self._slot_free.wait()
            try:
                client, address = sock.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    continue  # the client went away before it was accepted
                logger.error(
                    "cannot accept listener=%s connections=%d error=%s hint=%s",
                    listener.name,
                    len(self.connections),
                    error.strerror,
                    "raise the open-files limit (ulimit -n) or lower max.connections",
                )
                await trio.sleep(_EXHAUSTED_PAUSE_S)
                return
            self._admit(listener, client, address[0])

    def _tell_full(self, listener: Listener) -> None:
        if monotonic() < self._tell_full_again_s:
            return
        self._tell_full_again_s = monotonic() + _TOLD_AGAIN_S
        logger.warning(
            "connections wait listener=%s connections=%d hint=%s",
            listener.name,
            len(self.connections),
            "raise the open-files limit (ulimit -n) or max.connections",
        )

    def _admit(self, listener: Listener, client: socket.socket, host: str) -> None:
        host = host.removeprefix("::ffff:")
        limits = self.limits
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
        self.accepted += 1
        self._nursery.start_soon(connection.run, name=connection.run)

    def forget(self, connection: Connection) -> None:
        """A connection's end: its slot is free."""
        self._peers.forget(connection)
        self.connections.discard(connection)
        self._by_ip[connection.client_host] -= 1
        if not self._by_ip[connection.client_host]:
            del self._by_ip[connection.client_host]
        self._slot_free.set()
        if self._all_gone is not None and not self.connections:
            self._all_gone.set()

    def watch(self, connection: Connection) -> None:
        """Have a connection told when its peer goes while a handler works for it."""
        self._peers.watch(connection)

    async def _sweep(self) -> None:
        """Close connections that were silent for connections.max.idle.ms, found coarsely."""
        idle_s = self.limits.idle_ms_max / 1000
        if idle_s <= 0:
            return
        while True:
            await trio.sleep(max(idle_s / _SWEEPS_PER_IDLE_TIME, 0.05))
            limit = monotonic() - idle_s
            for connection in list(self.connections):
                if connection.last_active_s < limit and not connection.handling:
                    logger.info("closing idle connection host=%s", connection.client_host)
                    connection.scope.cancel()

"""Connections before they are authenticated: how long they may take, and how many there may be.

A connection is unauthenticated from its accept to the first request whose credentials are right; in
a service without authentication, to its first request. Until then each of its steps has a time: the
TLS handshake with the head of the first request, each request, each wait for the next one. Of too
many such connections the oldest is closed, as by the listeners of a node.
"""

import logging
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

import attrs
import trio

from barnabas.config import ConfigError

logger = logging.getLogger(__name__)

TIMEOUT_PROPERTY: Final = "barnabas.authentication.timeout.ms"
MAX_PROPERTY: Final = "barnabas.unauthenticated.connections.max"
LIMIT_PROPERTIES: Final = (TIMEOUT_PROPERTY, MAX_PROPERTY)
TIMEOUT_MS: Final = 30_000
CONNECTIONS_MAX: Final = 500
_LARGEST: Final = (1 << 31) - 1
_LOG_INTERVAL_S: Final = 1.0


@attrs.frozen
class ConnectionLimits:
    """The time of each step of an unauthenticated connection, and how many there may be."""

    timeout_s: float = TIMEOUT_MS / 1000
    connections_max: int = CONNECTIONS_MAX

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> "ConnectionLimits":
        """Return the limits that properties set. Raises ConfigError."""
        timeout_ms = _positive(properties, TIMEOUT_PROPERTY, TIMEOUT_MS)
        return cls(timeout_ms / 1000, _positive(properties, MAX_PROPERTY, CONNECTIONS_MAX))


def _positive(properties: Mapping[str, str], name: str, default: int) -> int:
    text = properties.get(name, str(default)).strip()
    if not (text.isascii() and text.isdecimal() and 0 < int(text) <= _LARGEST):
        raise ConfigError(f"Invalid value {text} for {name}: it must be from 1 to {_LARGEST}")
    return int(text)


class HttpConnection:
    """One accepted connection."""

    def __init__(self, group: "UnauthenticatedConnections", host: str) -> None:
        self.host = host
        self._group = group
        self._scope = trio.CancelScope()
        self._watching = trio.CancelScope()
        self._overdue_at = self._deadline = trio.current_time() + group.limits.timeout_s
        self._requests = 0
        self._close: Callable[[], None] = lambda: None

    @property
    def is_overdue(self) -> bool:
        """True when the connection had time enough to authenticate, and has not."""
        return self in self._group and trio.current_time() >= self._overdue_at

    @contextmanager
    def request(self) -> Generator[None]:
        """The time of one request."""
        self._requests += 1
        self._extend()
        try:
            yield
        finally:
            self._requests -= 1
            # The next request may have begun: a response is complete before its task ends.
            if not self._requests:
                self._extend()

    def authenticated(self) -> None:
        """Lift the limits: a request had the right credentials, or needs none."""
        self._group.remove(self)
        self._watching.cancel()

    async def serve(self, serve: Callable[[], Awaitable[None]], close: Callable[[], None]) -> None:
        """Serve the connection; `close` closes its socket at once, which ends blocked writes."""
        self._close = close
        with self._scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._watch)
                await serve()
                nursery.cancel_scope.cancel()

    def end(self) -> None:
        """Close the connection at once."""
        self._scope.cancel()
        self._close()

    def _extend(self) -> None:
        self._deadline = trio.current_time() + self._group.limits.timeout_s

    async def _watch(self) -> None:
        with self._watching:
            waited_until = float("-inf")
            while waited_until < self._deadline:
                waited_until = self._deadline
                await trio.sleep_until(waited_until)
            self._group.time_out(self)


class UnauthenticatedConnections:
    """The unauthenticated connections of one listener."""

    def __init__(
        self, limits: ConnectionLimits, on_closed: Callable[[str], None] = lambda reason: None
    ) -> None:
        """`on_closed` gets the name of the property whose limit closes a connection."""
        self.limits = limits
        self._on_closed = on_closed
        self._waiting: dict[HttpConnection, None] = {}  # the oldest first
        self._logged_at_s = float("-inf")

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, connection: HttpConnection) -> bool:
        return connection in self._waiting

    async def serve(
        self, host: str, serve: Callable[[], Awaitable[None]], close: Callable[[], None]
    ) -> None:
        """Serve a new connection of a client's address (see `HttpConnection.serve`)."""
        connection = HttpConnection(self, host)
        if len(self._waiting) >= self.limits.connections_max:
            self._end(next(iter(self._waiting)), MAX_PROPERTY)
        self._waiting[connection] = None
        token = _current.set(connection)
        try:
            await connection.serve(serve, close)
        finally:
            _current.reset(token)
            self.remove(connection)

    def remove(self, connection: HttpConnection) -> None:
        """Forget a connection that is authenticated or closed."""
        self._waiting.pop(connection, None)

    def time_out(self, connection: HttpConnection) -> None:
        """Close a connection whose step took too long."""
        self._end(connection, TIMEOUT_PROPERTY)

    def _end(self, connection: HttpConnection, reason: str) -> None:
        self.remove(connection)
        self._on_closed(reason)
        now = trio.current_time()
        if now - self._logged_at_s >= _LOG_INTERVAL_S:
            self._logged_at_s = now
            logger.info(
                "closing unauthenticated http connection host=%s reason=%s", connection.host, reason
            )
        connection.end()


_current: ContextVar[HttpConnection] = ContextVar("barnabas_http_connection")
# Set in the task of each connection, whose requests' tasks inherit it.


def current_connection() -> HttpConnection:
    """Return the connection of the request that this task serves.

    An application that is called without a host gets one without limits.
    """
    found = _current.get(None)
    return (
        HttpConnection(UnauthenticatedConnections(ConnectionLimits()), "")
        if found is None
        else found
    )

"""Clients before they are authenticated: how many a listener keeps, and how often they are logged.

A client that has not authenticated (or shaken hands, where TLS alone is needed) costs the node a
connection. A listener keeps a limited number of them, and one more closes the oldest.
"""

import logging
from collections import OrderedDict
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from barnabas.server.transport.connection import Connection

logger = logging.getLogger(__name__)

_LOG_INTERVAL_S: Final = 1.0
_HOSTS_MAX: Final = 1024
_CHARACTERS_MAX: Final = 256


class WaitingClients:
    """The connections of one listener whose clients have not authenticated yet."""

    def __init__(self, connections_max: int) -> None:
        self._connections_max = connections_max
        self._waiting: dict[Connection, None] = {}  # the oldest first

    def add(self, connection: "Connection") -> None:
        """Add a connection; close the oldest one when there are too many."""
        if len(self._waiting) >= self._connections_max:
            oldest = next(iter(self._waiting))
            del self._waiting[oldest]
            log_limit(oldest, "barnabas.unauthenticated.connections.max")
            oldest.scope.cancel()
        self._waiting[connection] = None

    def remove(self, connection: "Connection") -> bool:
        """Remove a connection that is authenticated or closed; return True when it was waiting."""
        if connection not in self._waiting:
            return False
        del self._waiting[connection]
        return True


def log_limit(connection: "Connection", name: str) -> None:
    """Log that a limit closes a connection."""
    logger.info(
        "closing unauthenticated connection host=%s listener=%s reason=%s",
        connection.client_host,
        connection.listener_name,
        name,
    )


class FailureLog:
    """Logs clients that could not authenticate: at most one line a second for each address."""

    def __init__(self) -> None:
        self._logged_at_s: OrderedDict[str, float] = OrderedDict()
        self.count = 0

    def failed(self, host: str, listener: str, reason: str) -> None:
        """Count a failed authentication and log it; the reason may contain texts of the client."""
        if self._counts(host):
            logger.info(
                "authentication failed host=%s listener=%s reason=%s",
                host,
                listener,
                printable(reason),
            )

    def refused(self, host: str, listener: str, reason: str) -> None:
        """Count a connection that was closed before its first request, and log it."""
        if self._counts(host):
            logger.info("closing connection host=%s listener=%s reason=%s", host, listener, reason)

    def _counts(self, host: str) -> bool:
        """Count a failure of an address; return True when it is logged."""
        self.count += 1
        now_s = monotonic()
        if now_s - self._logged_at_s.get(host, -inf) < _LOG_INTERVAL_S:
            return False
        self._logged_at_s.pop(host, None)
        self._logged_at_s[host] = now_s
        while len(self._logged_at_s) > _HOSTS_MAX:
            self._logged_at_s.popitem(last=False)
        return True


def printable(text: str) -> str:
    """Return a client's text on one line of bounded length, without control characters."""
    return ascii(text)[1:-1][:_CHARACTERS_MAX]

"""Room for connections: which listener may accept the next one, and which connection makes way.

The rules are those of Kafka's `ConnectionQuotas`. A listener at its own limit, or at that of the
node, leaves the next connection in the backlog. The listener of brokers, when there are others, has
only its own limit: a connection of it above the limit of the node closes the one of another
listener that was used longest ago. Brokers and controllers count apart, as in Kafka.
"""

from collections import Counter
from collections.abc import Iterable
from sys import maxsize
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.server.transport.acceptor import Limits, Listener
    from barnabas.server.transport.connection import Connection


class ConnectionSlots:
    """The connections of each listener, counted."""

    def __init__(self) -> None:
        self._by_listener: Counter[str] = Counter()
        self._by_kind: Counter[str] = Counter()
        self._kinds: dict[str, str] = {}

    def add(self, listener: "Listener") -> None:
        """Count a connection that was accepted."""
        self._kinds[listener.name] = listener.kind
        self._by_listener[listener.name] += 1
        self._by_kind[listener.kind] += 1

    def remove(self, connection: "Connection") -> None:
        """Count a connection that has ended."""
        self._by_listener[connection.listener_name] -= 1
        self._by_kind[self._kinds[connection.listener_name]] -= 1

    def is_full(self, listener: "Listener", limits: "Limits") -> bool:
        """Return True when the next connection of a listener has to wait."""
        own_max = limits.listener_connections_max.get(listener.name, maxsize)
        if self._by_listener[listener.name] >= own_max:
            return True
        if listener.name == limits.protected_listener:
            return False
        return self._by_kind[listener.kind] >= limits.connections_max

    def making_way(
        self, listener: "Listener", limits: "Limits", connections: Iterable["Connection"]
    ) -> "Connection | None":
        """Return the connection to close after one of this listener was added, or None."""
        if self._by_kind[listener.kind] <= limits.connections_max:
            return None
        others = (
            each
            for each in connections
            if each.listener_name != listener.name
            and self._kinds[each.listener_name] == listener.kind
            and not each.scope.cancel_called
        )
        return min(others, key=lambda each: each.last_active_s, default=None)

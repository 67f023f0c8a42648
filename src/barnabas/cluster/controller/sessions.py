"""The sessions of brokers at the active controller (Kafka's `BrokerHeartbeatTracker`).

A session belongs to one registration, known by the broker's id and epoch. A heartbeat of an earlier
registration does not keep the session of a later one alive. Sessions are soft state: they are not
in the log, and a new active controller gives every unfenced broker a new one.
"""

from typing import Final, NamedTuple

DEFAULT_TIMEOUT_MS: Final = 9000


class SessionKey(NamedTuple):
    """The registration to which a session belongs."""

    broker_id: int
    epoch: int


class BrokerSessions:
    """When the controller last received a heartbeat of each registration.

    A session without a heartbeat for `timeout_ms` has expired. `now_ms` never decreases.
    """

    def __init__(self, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> None:
        self._timeout_ms = timeout_ms
        self._contacts: dict[SessionKey, int] = {}  # the oldest contact first
        self._ended: dict[SessionKey, None] = {}
        self._assumed: set[SessionKey] = set()

    def touch(self, key: SessionKey, now_ms: int) -> None:
        """Start or prolong the session of a broker."""
        self.remove(key)
        self._contacts[key] = now_ms

    def assume(self, key: SessionKey, now_ms: int) -> None:
        """Start the session of a broker before its first heartbeat to this controller."""
        self.touch(key, now_ms)
        self._assumed.add(key)

    def is_assumed(self, key: SessionKey) -> bool:
        """True when no heartbeat has confirmed the session."""
        return key in self._assumed

    def is_valid(self, key: SessionKey, now_ms: int) -> bool:
        """True when the session has neither expired nor been ended."""
        contact_ms = self._contacts.get(key)
        return contact_ms is not None and now_ms - contact_ms < self._timeout_ms

    def end(self, key: SessionKey) -> bool:
        """End a session before its timeout; return False when there is none."""
        if self._contacts.pop(key, None) is None:
            return False
        self._ended[key] = None
        return True

    def remove(self, key: SessionKey) -> None:
        """Remove the session of a registration that was replaced or fenced."""
        self._ended.pop(key, None)
        self._contacts.pop(key, None)
        self._assumed.discard(key)

    def take_expired(self, now_ms: int) -> SessionKey | None:
        """Remove and return one session that was ended or has expired, the oldest first."""
        key = self.take_ended() or next(iter(self._contacts), None)
        if key is None or self.is_valid(key, now_ms):
            return None
        self.remove(key)
        return key

    def take_ended(self) -> SessionKey | None:
        """Remove and return one session that was ended."""
        key = next(iter(self._ended), None)
        if key is not None:
            self.remove(key)
        return key

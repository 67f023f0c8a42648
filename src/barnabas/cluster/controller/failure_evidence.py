"""Decide from its connections that the process of a broker has ended, before its session expires.

Every controller keeps one idle connection to the advertised address of each broker that is unfenced
or has just registered. When a process ends, its operating system closes the connections and refuses
new ones, within a millisecond. Evidence is a connection that was closed, and the next two attempts
were refused. A timeout, an unreachable host, a reset alone, or an address that was never reached
does not count: such a broker keeps its session, as in Apache Kafka. Only the order counts, not the
time between: this process may have been paused meanwhile, and then nothing else would show it.

Limits of a listener close connections of clients that have not authenticated. Where connections
authenticate, one that is closed before the broker has admitted it hides no broker, and only the
refusals after it count.

Evidence hides a broker from the clients of this node for 3 s. A controller that has the same
evidence fences the broker by then; one that reaches the broker does not.

To fence a live broker is safe, but it costs availability. After evidence against a broker, the next
evidence against the same broker counts only 3 s later.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

import attrs

from barnabas.cluster.controller.sessions import SessionKey

_BETWEEN_ATTEMPTS_MS: Final = 30
_EARLY_ATTEMPTS: Final = 4
_CLOSED_MS: Final = 100
_HOLD_OFF_MS: Final = 3000
_STARTING_RETRY_MS: Final = 10
_STARTING_ATTEMPTS: Final = 300
_RETRY_MIN_MS: Final = 200
_RETRY_MAX_MS: Final = 30_000
_STABLE_MS: Final = 10_000
SETTLE_MS: Final = 500
_LISTED_MS: Final = 3000
_UNCONFIRMED_MS: Final = 3000


class BrokerAddress(NamedTuple):
    """The address of the listener that other nodes connect to."""

    host: str
    port: int


@attrs.define(slots=True)
class _Watch:
    """The connection to one registration of a broker.

    `closed_ms` is when a connection was closed, None when an attempt after it ended in another way
    than by a refusal. `is_refused` is true when one attempt after it was refused. `is_admitted` is
    true when the end of the last connection hides the broker.
    """

    address: BrokerAddress
    next_ms: int | None
    connected_ms: int | None = None
    closed_ms: int | None = None
    is_refused: bool = False
    failures: int = 0
    is_reached: bool = False
    refusals_at_start: int = 0
    is_admitted: bool = True


class FailureEvidence:
    """The connections to the unfenced brokers, and the brokers that are known to have ended."""

    def __init__(self) -> None:
        self._watches: dict[SessionKey, _Watch] = {}
        self._gone: dict[SessionKey, int] = {}  # and when that was concluded first
        self._held_until_ms: dict[int, int] = {}
        self._ended_ms: dict[SessionKey, int] = {}

    # Events

    def follow(self, brokers: Mapping[SessionKey, BrokerAddress], now_ms: int) -> set[SessionKey]:
        """Watch these brokers from now on; return those whose connections must be closed."""
        ended = self._watches.keys() - brokers.keys()
        for key, address in brokers.items():
            watch = self._watches.get(key)
            if watch is not None and watch.address != address:
                ended.add(key)
                watch = None
            if watch is None:
                self._watches[key] = _Watch(address, now_ms)
        for key in ended - brokers.keys():
            del self._watches[key]
        for key in ended:
            self._gone.pop(key, None)
        self._ended_ms = {
            key: at_ms for key, at_ms in self._ended_ms.items() if now_ms - at_ms <= _LISTED_MS
        }
        return ended

    def on_connected(self, key: SessionKey, now_ms: int, *, is_admitted: bool = True) -> None:
        """An attempt to connect has succeeded: the broker is alive.

        A connection that must authenticate is not admitted yet.
        """
        watch = self._watches.get(key)
        if watch is not None:
            watch.is_admitted = is_admitted
            watch.connected_ms, watch.closed_ms, watch.is_refused = now_ms, None, False
            watch.is_reached = True
            self._gone.pop(key, None)
            self._ended_ms.pop(key, None)

    def on_admitted(self, key: SessionKey) -> None:
        """The broker has authenticated the connection."""
        watch = self._watches.get(key)
        if watch is not None and watch.connected_ms is not None:
            watch.is_admitted = True

    def on_left(self, key: SessionKey, now_ms: int) -> None:
        """This side has closed the connection, and connects again at once."""
        watch = self._watches.get(key)
        if watch is not None and watch.connected_ms is not None:
            watch.connected_ms, watch.closed_ms, watch.is_refused = None, now_ms, False
            watch.is_admitted = False
            watch.next_ms = now_ms

    def on_closed(self, key: SessionKey, now_ms: int) -> None:
        """The broker has closed the connection, or its host has reset it."""
        watch = self._watches.get(key)
        if watch is None or watch.connected_ms is None:
            return
        if now_ms - watch.connected_ms >= _STABLE_MS:
            watch.failures = 0
        watch.connected_ms, watch.closed_ms, watch.is_refused = None, now_ms, False
        if watch.is_admitted:
            self._ended_ms[key] = now_ms
        # A process that ends may accept a connection and close it at once. A proxy does so forever.
        is_early = watch.failures < _EARLY_ATTEMPTS
        delay_ms = _BETWEEN_ATTEMPTS_MS if watch.failures else 0
        watch.next_ms = now_ms + delay_ms if is_early else self._retry_ms(watch, now_ms)
        watch.failures += 1

    def on_ready(self, key: SessionKey, now_ms: int) -> None:
        """The broker is unfenced, so it listens: connect at once, and often, if it is not reached.

        The start of a broker with many logs may take longer than the attempts at its registration.
        """
        watch = self._watches.get(key)
        if watch is not None and not watch.is_reached:
            watch.failures = watch.refusals_at_start = 0
            if watch.next_ms is not None:
                watch.next_ms = now_ms

    def on_refused(self, key: SessionKey, now_ms: int) -> bool:
        """The host has refused a connection; return True when the process has ended.

        True also for each later attempt: the active controller may have received the first report
        before the last heartbeat.
        """
        watch = self._watches.get(key)
        if watch is None:
            return False
        if not watch.is_reached and watch.refusals_at_start < _STARTING_ATTEMPTS:
            # A broker that has just registered is about to listen.
            watch.refusals_at_start += 1
            watch.next_ms = now_ms + _STARTING_RETRY_MS
        elif watch.closed_ms is None:
            self.on_failed(key, now_ms)
        elif not watch.is_refused:
            watch.is_refused = True
            watch.next_ms = now_ms + _BETWEEN_ATTEMPTS_MS
        else:
            self._conclude(key, watch, now_ms)
        return key in self._gone

    def on_failed(self, key: SessionKey, now_ms: int) -> None:
        """An attempt to connect has failed in any other way."""
        watch = self._watches.get(key)
        if watch is not None:
            watch.closed_ms, watch.is_refused = None, False
            watch.next_ms = self._retry_ms(watch, now_ms)
            watch.failures += 1

    # Decisions

    @property
    def gone(self) -> frozenset[SessionKey]:
        """The registrations whose process has ended."""
        return frozenset(self._gone)

    def unreachable(self, now_ms: int) -> set[SessionKey]:
        """Return the registrations that have just ended, or have just closed their connection."""
        closed = {
            key
            for key, watch in self._watches.items()
            if watch.closed_ms is not None
            and watch.is_admitted
            and now_ms - watch.closed_ms <= _CLOSED_MS
        }
        return closed | (self._gone.keys() - self.disputed(now_ms))

    def disputed(self, now_ms: int) -> set[SessionKey]:
        """Return the registrations that only this node takes for ended.

        The controller had time to fence them, and has not: it reaches them.
        """
        return {key for key, since_ms in self._gone.items() if now_ms - since_ms > _UNCONFIRMED_MS}

    def is_settling(self, now_ms: int) -> bool:
        """True while a broker that has just closed its connection may still be fenced."""
        return any(
            key in self._watches and now_ms - at_ms <= SETTLE_MS
            for key, at_ms in self._ended_ms.items()
        )

    def just_ended(self, now_ms: int) -> frozenset[SessionKey]:
        """Return the registrations that closed their connection a few seconds ago."""
        return frozenset(
            key for key, at_ms in self._ended_ms.items() if now_ms - at_ms <= _LISTED_MS
        )

    def take_due(self, now_ms: int) -> list[tuple[SessionKey, BrokerAddress]]:
        """Return the brokers to connect to now."""
        due: list[tuple[SessionKey, BrokerAddress]] = []
        for key, watch in self._watches.items():
            if watch.next_ms is not None and watch.next_ms <= now_ms:
                watch.next_ms = None
                due.append((key, watch.address))
        return due

    def wakeup_ms(self) -> int | None:
        """Return when `take_due` is due next."""
        times = (watch.next_ms for watch in self._watches.values())
        return min((each for each in times if each is not None), default=None)

    def _conclude(self, key: SessionKey, watch: _Watch, now_ms: int) -> None:
        held_until_ms = self._held_until_ms.get(key.broker_id, now_ms)
        if now_ms < held_until_ms:
            watch.closed_ms, watch.is_refused = held_until_ms, False
            watch.next_ms = held_until_ms
            return
        self._held_until_ms[key.broker_id] = now_ms + _HOLD_OFF_MS
        self._gone.setdefault(key, now_ms)
        self.on_failed(key, now_ms)

    def _retry_ms(self, watch: _Watch, now_ms: int) -> int:
        return now_ms + min(_RETRY_MIN_MS << min(watch.failures, 10), _RETRY_MAX_MS)

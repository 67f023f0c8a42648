"""The lifecycle of a broker: register, catch up, unfence, send heartbeats, shut down.

As Kafka's `BrokerLifecycleManager`, without input or output: events come in with `now_ms`, `poll`
returns the request to send, and `wakeup_ms` says when to poll again. At most one request is in
flight.

    STARTING    registering; then waiting until the broker has applied its own registration
    RECOVERY    caught up, still fenced
    RUNNING     unfenced: the broker leads partitions and serves clients
    PENDING_CONTROLLED_SHUTDOWN    the controller moves leaderships to other brokers
    SHUTTING_DOWN    the broker may stop
"""

import enum
from collections.abc import Iterable

import attrs

from barnabas.cluster.broker.broker_identity import NO_EPOCH, BrokerIdentity
from barnabas.protocol.errors import ErrorCode, error_code
from barnabas.protocol.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from barnabas.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from barnabas.protocol.types import Uuid

# While the broker catches up with the metadata, and for its first retry in a controlled shutdown.
_CATCH_UP_MS = 10
_SHUTDOWN_RETRY_MS = 50
_BACKOFF_MIN_MS = 100

# The controller does not know the broker in this epoch: it must register again.
_UNKNOWN_BROKER = frozenset({ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED})

LifecycleRequest = BrokerRegistrationRequest | BrokerHeartbeatRequest
LifecycleResponse = BrokerRegistrationResponse | BrokerHeartbeatResponse


class BrokerState(enum.Enum):
    """The state of a broker; the numbers are those of Kafka's `BrokerState` metric."""

    STARTING = 1
    RECOVERY = 2
    RUNNING = 3
    PENDING_CONTROLLED_SHUTDOWN = 6
    SHUTTING_DOWN = 7


@attrs.frozen(slots=True)
class LifecycleTimeouts:
    """Times in ms: between heartbeats, a session, the first registration, a controlled shutdown."""

    heartbeat_ms: int = 2000
    session_ms: int = 9000
    initial_registration_ms: int = 60_000
    controlled_shutdown_ms: int = 300_000


class BrokerLifecycle:
    """The state of one broker in its cluster; `registration` introduces it to the controller."""

    def __init__(
        self,
        identity: BrokerIdentity,
        registration: BrokerRegistrationRequest,
        timeouts: LifecycleTimeouts,
    ) -> None:
        self.identity = identity
        self.state = BrokerState.STARTING
        self.last_error: ErrorCode | None = None
        """The error of the last request; None after a success."""
        self._registration = registration
        self._timeouts = timeouts
        self._must_register = True
        self._ready_to_unfence = False
        self._offline_directories: list[Uuid] = []
        self._in_flight: LifecycleRequest | None = None
        self._send_again = False  # something changed while a request was in flight
        self._next_ms = 0
        self._deadline_ms = 0
        self._answered_ms = 0
        self._failures = 0
        self._shutdown_attempts = 0

    # Events

    def start(self, now_ms: int) -> None:
        """Begin to register."""
        self._next_ms = now_ms
        self._deadline_ms = now_ms + self._timeouts.initial_registration_ms

    def register_again(self, now_ms: int) -> None:
        """Send the registration again, after metadata.version changed what it may state."""
        self._must_register = True
        self._send_now(now_ms)

    def ready_to_unfence(self, now_ms: int) -> None:
        """The broker has applied its first image: the controller may unfence it."""
        self._ready_to_unfence = True
        self._send_now(now_ms)

    def report_offline(self, directories: Iterable[Uuid], now_ms: int) -> None:
        """Log directories have failed; all heartbeats from now on name them."""
        failed = [each for each in directories if each not in self._offline_directories]
        if failed:
            self._offline_directories += failed
            self._send_now(now_ms)

    def begin_controlled_shutdown(self, now_ms: int) -> None:
        """Start a controlled shutdown; a broker that does not run stops at once.

        It also ends when no controller answers for the time of a session: the broker is then fenced
        by any controller, which moves the leaderships as well.
        """
        if self.state is BrokerState.RUNNING:
            self.state = BrokerState.PENDING_CONTROLLED_SHUTDOWN
            self._answered_ms = now_ms
            self._deadline_ms = now_ms + self._timeouts.controlled_shutdown_ms
            self._send_now(now_ms)
        elif self.state is not BrokerState.PENDING_CONTROLLED_SHUTDOWN:
            self.state = BrokerState.SHUTTING_DOWN

    def end_controlled_shutdown(self) -> None:
        """Stop without the controller: there is no broker to which it could move leaderships."""
        if self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN:
            self.state = BrokerState.SHUTTING_DOWN

    def on_response(self, response: LifecycleResponse, now_ms: int) -> None:
        """The controller has answered the request in flight."""
        error = error_code(response.error_code)
        if error is not ErrorCode.NONE:
            self.on_failure(error, now_ms)
            return
        self._in_flight = None
        self._failures, self.last_error = 0, None
        self._answered_ms = now_ms
        if isinstance(response, BrokerRegistrationResponse):
            self.identity = attrs.evolve(self.identity, epoch=response.broker_epoch)
            self._next_ms = now_ms
        else:
            self._next_ms = now_ms + self._take_heartbeat(response)
        if self._send_again:
            self._send_again = False
            self._next_ms = now_ms

    def on_failure(self, error: ErrorCode, now_ms: int) -> None:
        """The request in flight failed: send it again, after a delay that grows.

        A broker that the controller does not know, or not in this epoch, registers again.
        """
        if self._in_flight is self._registration:
            self._must_register = True
        elif error in _UNKNOWN_BROKER:
            self._restart()
        self._in_flight, self._send_again = None, False
        self.last_error = error
        self._failures += 1
        delay_ms = _BACKOFF_MIN_MS << min(self._failures - 1, 10)
        self._next_ms = now_ms + min(delay_ms, self._timeouts.heartbeat_ms)

    # Requests

    def poll(
        self, now_ms: int, metadata_offset: int, cordoned: Iterable[Uuid] | None = None
    ) -> LifecycleRequest | None:
        """Return the request to send now, if one is due.

        `metadata_offset` is the offset of the metadata that the broker has applied, and `cordoned`
        are the directories that get no new partitions, if the controllers can record them.
        """
        if self._give_up(now_ms) or self._in_flight is not None or now_ms < self._next_ms:
            return None
        if self._must_register:
            self._must_register = False
            self._in_flight = self._registration
        else:
            self._in_flight = BrokerHeartbeatRequest(
                broker_id=self.identity.id,
                broker_epoch=self.identity.epoch,
                current_metadata_offset=metadata_offset,
                want_fence=not self._ready_to_unfence,
                want_shut_down=self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN,
                offline_log_dirs=list(self._offline_directories),
            )
            if cordoned is not None and self.state is not BrokerState.STARTING:
                self._in_flight.cordoned_log_dirs = list(cordoned)
        return self._in_flight

    def wakeup_ms(self) -> int | None:
        """Return when `poll` is due next, or None while only an event can change something."""
        if self.state is BrokerState.SHUTTING_DOWN:
            return None
        if self._in_flight is None:
            return self._next_ms
        return self._deadline_ms if self._has_deadline() else None

    def request_timeout_ms(self, now_ms: int) -> int:
        """Return how long the request in flight may take.

        A heartbeat takes half an interval at most, so that a controller that does not respond does
        not cost the broker its session.
        """
        is_heartbeat = self._in_flight is not self._registration
        limit_ms = (
            self._timeouts.heartbeat_ms // 2 if is_heartbeat else self._timeouts.session_ms // 2
        )
        if self.identity.epoch == NO_EPOCH:
            limit_ms = min(limit_ms, self._deadline_ms - now_ms)
        return max(0, limit_ms)

    @property
    def is_registration_overdue(self) -> bool:
        """True when the broker could not register in time, and the node must stop."""
        return self.state is BrokerState.SHUTTING_DOWN and self.identity.epoch == NO_EPOCH

    # Decisions

    def _restart(self) -> None:
        """Go through registration, catching up and unfencing again, or stop at once."""
        if self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN:
            self.state = BrokerState.SHUTTING_DOWN
        else:
            self.state = BrokerState.STARTING
            self._must_register = True

    def _take_heartbeat(self, response: BrokerHeartbeatResponse) -> int:
        """Apply the controller's answer; return the time until the next heartbeat."""
        if self.state is BrokerState.STARTING:
            if not response.is_caught_up:
                return _CATCH_UP_MS
            self.state = BrokerState.RECOVERY
            return 0 if self._ready_to_unfence else self._timeouts.heartbeat_ms
        if self.state is BrokerState.RECOVERY and not response.is_fenced:
            self.state = BrokerState.RUNNING
        elif self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN:
            if response.should_shut_down:
                self.state = BrokerState.SHUTTING_DOWN
            self._shutdown_attempts += 1
            if self._shutdown_attempts == 1:
                return _SHUTDOWN_RETRY_MS
        return self._timeouts.heartbeat_ms

    def _send_now(self, now_ms: int) -> None:
        if self._in_flight is None:
            self._next_ms = min(self._next_ms, now_ms)
        else:
            self._send_again = True

    def _has_deadline(self) -> bool:
        is_stopping = self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN
        return is_stopping or self.identity.epoch == NO_EPOCH

    def _give_up(self, now_ms: int) -> bool:
        is_stopping = self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN
        is_lost = is_stopping and now_ms - self._answered_ms >= self._timeouts.session_ms
        if is_lost or (self._has_deadline() and now_ms >= self._deadline_ms):
            self.state = BrokerState.SHUTTING_DOWN
        return self.state is BrokerState.SHUTTING_DOWN

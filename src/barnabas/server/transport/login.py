"""The authentication of one connection's client: which frames belong to it, and its session.

`security.sasl` decides what each frame means; the connection sends and waits. A session that has
ended closes the connection at the next request that does not authenticate again (KIP-368).
"""

from collections.abc import Awaitable, Callable, Sequence
from math import inf
from struct import Struct
from time import monotonic
from typing import TYPE_CHECKING, Final

import attrs
import trio

from barnabas.protocol.errors import KafkaError
from barnabas.security.sasl.sasl_authenticator import (
    SASL_HANDSHAKE,
    AnswerVersions,
    Fail,
    SaslServerAuthenticator,
    Session,
    Work,
)
from barnabas.server.api.context import AnyContext
from barnabas.server.transport.waiting_clients import FailureLog, WaitingClients, log_limit

if TYPE_CHECKING:
    from barnabas.server.transport.connection import Connection

_API_KEY: Final = Struct(">h")
_REAUTHENTICATION_INTERVAL_S: Final = 1.0


@attrs.frozen
class LoginPolicy:
    """The authentication of a listener's clients, shared by its connections.

    `authenticator` makes the authenticator of a connection, given the session that it renews.
    `wall_ms` returns the time in milliseconds since the epoch.
    """

    authenticator: Callable[[Session | None], SaslServerAuthenticator]
    wall_ms: Callable[[], int]
    receive_bytes_max: int
    failure_delay_s: float
    deadline_s: float
    """The time from accepting a connection to the end of its authentication."""
    waiting: WaitingClients
    """The connections of the listener whose clients have not authenticated yet."""
    services: Sequence[Callable[..., Awaitable[object]]] = ()
    """Tasks that run as long as clients are accepted, and have started before."""
    failures: FailureLog = attrs.field(factory=FailureLog)
    threads: trio.CapacityLimiter = attrs.field(factory=lambda: trio.CapacityLimiter(1))
    """How many threads derive credentials of delegation tokens, or check tickets, at a time."""

    def login(self) -> "Login":
        """Return the authentication of a new connection."""
        return Login(self)


class Login:
    """The authentication of one connection."""

    __slots__ = ("_authenticator", "_expires_at_s", "_renewed_at_s", "policy", "session")

    def __init__(self, policy: LoginPolicy) -> None:
        self.policy = policy
        self.session: Session | None = None
        self._authenticator = policy.authenticator(None)
        self._expires_at_s = inf
        self._renewed_at_s = -inf

    def begin(self, connection: "Connection") -> None:
        """Start the deadline of a connection; close the oldest one when there are too many."""
        self.policy.waiting.add(connection)
        connection.scope.deadline = trio.current_time() + self.policy.deadline_s

    def end(self, connection: "Connection") -> None:
        """Forget a connection that has closed."""
        was_waiting = self.policy.waiting.remove(connection)
        if was_waiting and trio.current_time() >= connection.scope.deadline:
            log_limit(connection, "barnabas.authentication.timeout.ms")

    def takes(self, frame: bytes | bytearray) -> bool:
        """Return True when a frame belongs to the authentication.

        A handshake on an authenticated connection begins a re-authentication, when the session
        ends at some time, and the last one began a second ago or earlier.
        """
        if not self._authenticator.is_complete:
            return True
        session, now_s = self.session, monotonic()
        if (
            session is None
            or session.lifetime_ms is None
            or len(frame) < _API_KEY.size
            or _API_KEY.unpack_from(frame)[0] != SASL_HANDSHAKE
            or now_s - self._renewed_at_s < _REAUTHENTICATION_INTERVAL_S
        ):
            return False
        self._renewed_at_s = now_s
        self._authenticator = self.policy.authenticator(session)
        return True

    @property
    def is_expired(self) -> bool:
        """True when the session has ended."""
        return monotonic() > self._expires_at_s

    async def step(self, connection: "Connection", frame: bytearray) -> bool:
        """Take a frame of the authentication and answer it.

        Return False when the authentication failed and the connection must close. Raises
        ProtocolError when an ApiVersions request is malformed.
        """
        step = self._authenticator.receive(frame, self.policy.wall_ms())
        while isinstance(step, Work):
            finish = await trio.to_thread.run_sync(step.work, limiter=self.policy.threads)
            finish()
            step = self._authenticator.receive(frame, self.policy.wall_ms())
        if isinstance(step, Fail):
            await self._fail(connection, frame, step)
            return False
        if isinstance(step, AnswerVersions):
            context = _context(connection, frame)
            response = context.route.handler(context, context.request)
            self._authenticator.versions_answered(response.error_code)
            await connection.send_encoded(connection.dispatcher.encode(context, response))
            return True
        if self._authenticator.is_complete:
            self._complete(connection)
        await connection.send_encoded(step.parts)
        return True

    def _complete(self, connection: "Connection") -> None:
        session = self.session = self._authenticator.session
        self._expires_at_s = inf
        if session is not None and session.lifetime_ms is not None:
            self._expires_at_s = monotonic() + session.lifetime_ms / 1000
        self.policy.waiting.remove(connection)
        connection.scope.deadline = inf

    async def _fail(self, connection: "Connection", frame: bytearray, step: Fail) -> None:
        """Answer a failed authentication after the delay; until then nothing is read."""
        self.policy.failures.failed(connection.client_host, connection.listener_name, step.reason)
        if step.is_delayed:
            await trio.sleep(self.policy.failure_delay_s)
        if step.refusal is not None:
            context = _context(connection, frame)
            refusal = KafkaError(step.refusal)
            await connection.send_encoded(connection.dispatcher.encode(context, refusal))
        elif step.parts is not None:
            await connection.send_encoded(step.parts)


def _context(connection: "Connection", frame: bytearray) -> AnyContext:
    """Return the context of a request that its api's handler answers. Raises ProtocolError."""
    context = connection.dispatcher.decode(connection, frame)
    context.started_at = monotonic()
    return context

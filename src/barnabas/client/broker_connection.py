"""One connection to one broker: connect, TLS, ApiVersions, SASL, then requests and responses.

Requests may be pipelined: each waits for its own response, which a reader task hands out. A
request that times out, or is cancelled while its bytes are being sent, closes the connection; one
that is cancelled later does not, and its response is dropped when it comes.
"""

import secrets
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, Generic, TypeVar

import trio

from barnabas import tasks
from barnabas.client.client_config import ClientConfig, SaslSettings
from barnabas.client.core.api_negotiation import ApiTable, next_api_versions_version
from barnabas.client.core.sasl_exchange import BearerExchange, SaslExchange, start_exchange
from barnabas.client.core.wire_exchange import WireExchange
from barnabas.client.failures import (
    Address,
    AuthenticationError,
    BrokerGoneError,
    BrokerSilentError,
    ConnectionFailureError,
    MalformedResponseError,
    MechanismRefusedError,
)
from barnabas.client.outgoing_sockets import Scratch, Sockets, failure_of
from barnabas.protocol.errors import ErrorCode, ProtocolError, error_code
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from barnabas.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from barnabas.protocol.messages_base import Message
from barnabas.sockets.byte_stream import ByteStream

_RECEIVES_MAX: Final = 8
"""The number of receives of one response before other tasks run."""
_API_VERSIONS_NEWEST: Final = 4
_SASL_HANDSHAKE_VERSION: Final = 1
_SESSION_SHARE: Final = 0.85
"""The part of a SASL session's lifetime after which a connection is replaced (KIP-368)."""

R = TypeVar("R", bound=Message)


class _Waiter:
    """One request without a response yet."""

    __slots__ = ("event", "is_sent", "outcome")

    def __init__(self) -> None:
        self.is_sent = False
        self.event = tasks.event()
        self.outcome: Message | ConnectionFailureError | None = None

    def settle(self, outcome: Message | ConnectionFailureError) -> None:
        self.outcome = outcome
        self.event.set()


class PostedRequest(Generic[R]):
    """A request that was sent, and its response when it comes."""

    def __init__(
        self,
        connection: "BrokerConnection",
        answer: type[R],
        waiter: _Waiter,
        limit_s: float,
        deadline: float,
    ) -> None:
        self._connection = connection
        self._answer = answer
        self._waiter = waiter
        self._limit_s = limit_s
        self.deadline = deadline

    async def response(self) -> R:
        """Return the response. Raises ConnectionFailureError."""
        with tasks.move_on_at(self.deadline) as scope:
            await self._waiter.event.wait()
        if scope.cancelled_caught:
            raise self._connection.silent_for(self._limit_s, sent=self._waiter.is_sent)
        outcome = self._waiter.outcome
        if isinstance(outcome, ConnectionFailureError):
            raise outcome
        if not isinstance(outcome, self._answer):
            raise TypeError(f"{self._answer.__name__} does not answer the request")
        self._connection.note_throttle(outcome)
        return outcome


class BrokerConnection:
    """A connection that is ready for requests; made by `open_connection`."""

    def __init__(self, address: Address, config: ClientConfig, stream: ByteStream) -> None:
        self.address = address
        self.versions = ApiTable({})
        self._config = config
        self._stream = stream
        self._exchange = WireExchange(config.client_id, config.max_response_bytes)
        self._waiting: dict[int, _Waiter] = {}
        self._sending = tasks.lock()
        self._failure: ConnectionFailureError | None = None
        self._reader = tasks.cancel_scope()
        self._closed = tasks.event()
        self._answers = 0
        self._opening_answers = 0
        self._expires_at = float("inf")
        self._throttled_until = 0.0

    @property
    def is_usable(self) -> bool:
        """True when new requests may be sent: the connection is open and its session lasts."""
        return self._failure is None and tasks.current_time() < self._expires_at

    @property
    def is_idle(self) -> bool:
        """True when no request waits for a response."""
        return not self._waiting

    async def wait_closed(self) -> None:
        """Return when the connection has ended."""
        await self._closed.wait()

    async def ask(
        self,
        request: Message,
        answer: type[R],
        *,
        timeout_s: float | None = None,
        max_version: int | None = None,
    ) -> R:
        """Send a request and return its response, of the type `answer`.

        Raises ConnectionFailureError, and UnsupportedVersionError or EncodingError when the
        broker's versions cannot carry the request.
        """
        version = self.versions.choose(request.API_KEY, max_version)
        return await self._ask_version(request, answer, version, timeout_s)

    async def post(
        self,
        request: Message,
        answer: type[R],
        *,
        timeout_s: float | None = None,
        max_version: int | None = None,
    ) -> "PostedRequest[R]":
        """Send a request and return before its response: requests go out in the order of calls.

        Raises as `ask` does.
        """
        version = self.versions.choose(request.API_KEY, max_version)
        return await self._post(request, answer, version, timeout_s)

    async def _ask_version(
        self, request: Message, answer: type[R], version: int, timeout_s: float | None = None
    ) -> R:
        posted = await self._post(request, answer, version, timeout_s)
        return await posted.response()

    async def _post(
        self, request: Message, answer: type[R], version: int, timeout_s: float | None
    ) -> "PostedRequest[R]":
        limit_s = self._config.request_timeout_s if timeout_s is None else timeout_s
        waiter = _Waiter()
        await tasks.sleep_until(self._throttled_until)
        posted = PostedRequest(self, answer, waiter, limit_s, tasks.current_time() + limit_s)
        with tasks.move_on_at(posted.deadline) as scope:
            await self._send(request, version, waiter)
        if scope.cancelled_caught:
            raise self.silent_for(limit_s, sent=waiter.is_sent)
        return posted

    def silent_for(self, limit_s: float, *, sent: bool) -> BrokerSilentError:
        """Close the connection, and return the failure of a request without a response."""
        silence = BrokerSilentError(self.address, f"no response within {limit_s:g} s", sent=sent)
        self._fail(silence)
        return silence

    async def _send(self, request: Message, version: int, waiter: _Waiter) -> None:
        async with self._sending:
            if self._failure is not None:
                raise self._failure.for_request(sent=False)
            number, data = self._exchange.request(request, version)
            self._waiting[number] = waiter
            waiter.is_sent = True
            try:
                await self._stream.send([data])
            except OSError as error:
                self._fail(failure_of(self.address, error))
            except trio.ClosedResourceError:
                self._fail(BrokerGoneError(self.address, "the connection was reset"))
            except BaseException:
                self._fail(BrokerGoneError(self.address, "a request was cancelled while sent"))
                raise

    def note_throttle(self, response: Message) -> None:
        """Hold further requests back when the broker asks for it (KIP-219)."""
        throttle_ms = getattr(response, "throttle_time_ms", 0)
        if throttle_ms > 0:
            until = tasks.current_time() + throttle_ms / 1000
            self._throttled_until = max(self._throttled_until, until)

    async def read_responses(self, task_status: tasks.TaskStatus = tasks.IGNORED) -> None:
        """Hand responses out until the connection ends; never raises a failure of it."""
        try:
            with self._reader:
                task_status.started()
                await self._hand_out_responses()
                self._fail(BrokerGoneError(self.address, self._closed_reason()))
        except OSError as error:
            self._fail(failure_of(self.address, error))
        except trio.ClosedResourceError:
            self._fail(BrokerGoneError(self.address, "the connection was reset"))
        except (ProtocolError, ValueError) as error:
            self._fail(MalformedResponseError(self.address, f"malformed response: {error}"))
        finally:
            self.close()
            self._stream.close()
            self._closed.set()

    def _closed_reason(self) -> str:
        """Return why the broker may have closed the connection."""
        if self._answers > self._opening_answers:
            return "the broker closed the connection"
        return (
            "the broker closed the connection before its first answer "
            "(does security.protocol match the listener?)"
        )

    async def _hand_out_responses(self) -> None:
        """Return at the end of the peer's bytes."""
        stream, scratch = self._stream, tasks.local(Scratch).plain
        while True:
            await stream.wait_readable()
            for _ in range(_RECEIVES_MAX):
                try:
                    count = stream.receive_into(scratch)
                except BlockingIOError:
                    break
                if not count:
                    return
                self._take(scratch[:count])
                if not self._exchange.is_within_frame:
                    break

    def _take(self, data: memoryview) -> None:
        for number, response in self._exchange.receive(data):
            self._answers += 1
            waiter = self._waiting.pop(number, None)
            if waiter is not None:
                waiter.settle(response)

    def close(self) -> None:
        """Close the connection; requests without a response fail."""
        self._fail(BrokerGoneError(self.address, "the connection was closed"))

    def _fail(self, failure: ConnectionFailureError) -> None:
        """Fail every waiting request; the first failure is the one that counts."""
        if self._failure is None:
            self._failure = failure
        self._reader.cancel()
        waiting, self._waiting = self._waiting, {}
        for waiter in waiting.values():
            waiter.settle(self._failure.for_request(sent=True))

    async def prepare(self) -> None:
        """Make the connection ready for requests: versions, then authentication."""
        await self._negotiate()
        if self._config.sasl is not None:
            await self._authenticate(self._config.sasl)
        self._opening_answers = self._answers

    async def _negotiate(self) -> None:
        """Learn the broker's versions. Raises ConnectionFailureError."""
        version: int | None = _API_VERSIONS_NEWEST
        while version is not None:
            request = ApiVersionsRequest(
                client_software_name="barnabas", client_software_version="1"
            )
            response = await self._ask_version(request, ApiVersionsResponse, version)
            if response.error_code == ErrorCode.NONE:
                self.versions = ApiTable.from_response(response)
                return
            version = next_api_versions_version(version, response)
        raise MalformedResponseError(self.address, "the broker refuses every ApiVersions request")

    async def _authenticate(self, settings: SaslSettings) -> None:
        """Run the SASL exchange. Raises AuthenticationError or ConnectionFailureError."""
        handshake = await self._ask_version(
            SaslHandshakeRequest(mechanism=settings.mechanism),
            SaslHandshakeResponse,
            _SASL_HANDSHAKE_VERSION,
        )
        if handshake.error_code != ErrorCode.NONE:
            offered = ", ".join(handshake.mechanisms) or "none"
            raise MechanismRefusedError(
                f"{self.address} refuses {settings.mechanism} "
                f"({error_code(handshake.error_code).name}); it offers: {offered}"
            )
        exchange = await _started(settings, self.address.host)
        token: bytes | None = exchange.first()
        while token is not None:
            response = await self._authenticate_step(token)
            token = await trio.to_thread.run_sync(exchange.respond, response.auth_bytes)
            if response.session_lifetime_ms > 0:
                lifetime_s = response.session_lifetime_ms / 1000 * _SESSION_SHARE
                self._expires_at = tasks.current_time() + lifetime_s

    async def _authenticate_step(self, token: bytes) -> SaslAuthenticateResponse:
        request = SaslAuthenticateRequest(auth_bytes=token)
        response = await self.ask(request, SaslAuthenticateResponse)
        if response.error_code != ErrorCode.NONE:
            reason = response.error_message or error_code(response.error_code).name
            raise AuthenticationError(f"{self.address}: {reason}")
        return response


async def _started(settings: SaslSettings, host: str) -> SaslExchange:
    """Return a new exchange. Raises AuthenticationError when there is no token or ticket for it."""
    if settings.tickets is not None:
        from barnabas.client.kerberos_exchange import GssapiExchange

        return await trio.to_thread.run_sync(GssapiExchange, settings.tickets, host)
    if settings.bearer is not None:
        return BearerExchange(await trio.to_thread.run_sync(settings.bearer))
    return start_exchange(
        settings.mechanism,
        settings.username,
        settings.password,
        secrets.token_urlsafe(24),
        is_token=settings.is_token,
    )


async def open_connection(
    address: Address, config: ClientConfig, nursery: tasks.Nursery
) -> BrokerConnection:
    """Connect and make the connection ready; its reader task runs in `nursery`.

    Raises ConnectionFailureError, AuthenticationError, and ConfigError for unusable TLS settings.
    """
    with _within(config.connect_timeout_s, address, "no connection"):
        stream = await tasks.local(Sockets).connect(address, config)
    connection = BrokerConnection(address, config, stream)
    await nursery.start(connection.read_responses)
    try:
        await connection.prepare()
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def _within(limit_s: float, address: Address, what: str) -> Generator[None, None, None]:
    try:
        with tasks.fail_after(limit_s):
            yield
    except tasks.TimeIsUpError:
        raise BrokerSilentError(address, f"{what} within {limit_s:g} s") from None

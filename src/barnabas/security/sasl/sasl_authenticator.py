"""The server's side of authentication on one connection (Kafka's `SaslServerAuthenticator`).

It takes the frames that arrive before a connection is authenticated, and those of a later
re-authentication (KIP-368), and returns what the connection must do. ApiVersions and errors of
other apis are answered by the api's own handler: the authenticator only says so.
"""

import enum
from collections.abc import Callable, Mapping
from typing import Final

import attrs

from barnabas.protocol.apis import API
from barnabas.protocol.codec.runtime import Part
from barnabas.protocol.errors import ErrorCode, ProtocolError
from barnabas.protocol.framing import RequestHeader, encode_response, parse_request_header
from barnabas.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from barnabas.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from barnabas.protocol.messages_base import Message
from barnabas.security.sasl.sasl_mechanism import (
    Identity,
    SaslExchange,
    SaslFailure,
    StartExchange,
    WorkNeeded,
)

API_VERSIONS: Final = 18
SASL_HANDSHAKE: Final = 17
SASL_AUTHENTICATE: Final = 36
_API_VERSIONS_MAX: Final = 2


class State(enum.Enum):
    """The state of an authentication."""

    INITIAL_REQUEST = "the first request may be ApiVersions or SaslHandshake"
    HANDSHAKE_OR_VERSIONS = "an ApiVersions request failed"
    HANDSHAKE = "the versions are sent; only SaslHandshake may follow"
    AUTHENTICATE = "tokens are exchanged"
    BAD_MECHANISM = "the client re-authenticates with another mechanism"
    COMPLETE = "the client is authenticated"
    FAILED = "the connection must close"


@attrs.frozen
class Send:
    """Send these parts."""

    parts: list[Part] = attrs.field(repr=False)


@attrs.frozen
class AnswerVersions:
    """Let the handler of ApiVersions answer the frame, then call `versions_answered`."""


@attrs.frozen
class Fail:
    """Close the connection, after the answer; `reason` is for the log.

    With `is_delayed`, answer and close only after the delay of failed authentications. `parts` is
    the answer; with a `refusal`, it is the error response of the frame's own api.
    """

    reason: str
    parts: list[Part] | None = attrs.field(default=None, repr=False)
    refusal: ErrorCode | None = None
    is_delayed: bool = True


@attrs.frozen
class Work:
    """Call `work` in a thread and what it returns in the loop, then pass the same frame again."""

    work: Callable[[], Callable[[], None]] = attrs.field(repr=False)


Step = Send | AnswerVersions | Work | Fail


@attrs.frozen
class MechanismSettings:
    """A mechanism that a listener accepts.

    `max_reauth_ms` is `connections.max.reauth.ms`; 0 asks for no re-authentication.
    """

    start: StartExchange = attrs.field(repr=False)  # it may hold passwords
    max_reauth_ms: int = 0


@attrs.frozen
class Session:
    """A complete authentication.

    `lifetime_ms` is the time after which the client must authenticate again; None: it need not.
    """

    mechanism: str
    identity: Identity
    lifetime_ms: int | None


@attrs.define
class SaslServerAuthenticator:
    """Authenticates the client of one connection; `session` is set when it is complete.

    `previous` is the session that a re-authentication renews. `mechanisms` are those of the
    listener, by name.
    """

    mechanisms: Mapping[str, MechanismSettings]
    previous: Session | None = None
    state: State = State.INITIAL_REQUEST
    session: Session | None = None
    _mechanism: str = ""
    _exchange: SaslExchange | None = None
    _has_headers: bool = False
    _versions_requests: int = 0

    @property
    def is_complete(self) -> bool:
        """True when the client is authenticated."""
        return self.state is State.COMPLETE

    def receive(self, frame: bytes | bytearray, now_ms: int) -> Step:
        """Take a frame without its length; return what to do."""
        try:
            step = self._receive(frame, now_ms)
        except WorkNeeded as needed:
            step = Work(needed.work)
        except ProtocolError as error:
            step = Fail(str(error), is_delayed=False)
        if isinstance(step, Fail):
            self.state = State.FAILED
        return step

    def versions_answered(self, error: int) -> None:
        """Take note of the error code with which ApiVersions was answered."""
        self.state = State.HANDSHAKE_OR_VERSIONS if error else State.HANDSHAKE

    def _receive(self, frame: bytes | bytearray, now_ms: int) -> Step:
        if self.state is State.BAD_MECHANISM:
            return Fail(self._bad_mechanism())
        if self.state is State.AUTHENTICATE:
            if self._has_headers:
                return self._authenticate(frame, now_ms)
            return self._take_raw_token(bytes(frame), now_ms)
        if self.state in (State.COMPLETE, State.FAILED):
            return Fail(f"a frame in the state {self.state.name}", is_delayed=False)
        header, position = parse_request_header(frame)
        if header.api_key == SASL_HANDSHAKE:
            return self._handshake(frame, header, position)
        if header.api_key == API_VERSIONS:
            return self._answer_versions()
        name = API[header.api_key].name
        return Fail(f"{name} before SaslHandshake", is_delayed=False)

    def _answer_versions(self) -> Step:
        self._versions_requests += 1
        if self.state is State.HANDSHAKE or self._versions_requests > _API_VERSIONS_MAX:
            return Fail("too many ApiVersions requests before SaslHandshake", is_delayed=False)
        return AnswerVersions()

    def _handshake(self, frame: bytes | bytearray, header: RequestHeader, position: int) -> Step:
        _check_version(header)
        request, _ = SaslHandshakeRequest.decode_from(frame, position, header.api_version)
        self._has_headers = header.api_version >= 1
        enabled = list(self.mechanisms)
        settings = self.mechanisms.get(request.mechanism)
        if settings is None:
            refusal = SaslHandshakeResponse(
                error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=enabled
            )
            reason = f"Unsupported SASL mechanism {request.mechanism}"
            return Fail(reason, _encoded(header, refusal))
        self._mechanism = request.mechanism
        if self.previous is not None and self.previous.mechanism != request.mechanism:
            self.state = State.BAD_MECHANISM
        else:
            self._exchange = settings.start()
            self.state = State.AUTHENTICATE
        return Send(_encoded(header, SaslHandshakeResponse(mechanisms=enabled)))

    def _take_raw_token(self, token: bytes, now_ms: int) -> Step:
        try:
            answer = self._evaluate(token, now_ms)
        except SaslFailure as failure:
            return Fail(failure.reason)
        return Send([len(answer).to_bytes(4, "big") + answer])

    def _authenticate(self, frame: bytes | bytearray, now_ms: int) -> Step:
        header, position = parse_request_header(frame)
        if header.api_key != SASL_AUTHENTICATE:
            name = API[header.api_key].name
            reason = f"Unexpected Kafka request of type {name} during SASL authentication."
            return Fail(reason, refusal=ErrorCode.ILLEGAL_SASL_STATE)
        _check_version(header)
        request, _ = SaslAuthenticateRequest.decode_from(frame, position, header.api_version)
        try:
            answer = self._evaluate(bytes(request.auth_bytes), now_ms)
        except SaslFailure as failure:
            message = failure.public_message or self._hidden_failure()
            refusal = SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=message
            )
            return Fail(failure.reason, _encoded(header, refusal))
        response = SaslAuthenticateResponse(error_message="", auth_bytes=answer)
        if self.session is not None:
            response.session_lifetime_ms = self.session.lifetime_ms or 0
        return Send(_encoded(header, response))

    def _evaluate(self, token: bytes, now_ms: int) -> bytes:
        """Pass a token to the mechanism; complete the session.

        Raises SaslFailure and WorkNeeded.
        """
        exchange = self._exchange
        if exchange is None:
            raise SaslFailure("no mechanism is chosen")
        answer = exchange.evaluate(token, now_ms)
        identity = exchange.identity
        if identity is not None:
            self._check_identity(identity)
            self.session = Session(self._mechanism, identity, self._lifetime_ms(identity, now_ms))
            self.state = State.COMPLETE
        return answer

    def _check_identity(self, identity: Identity) -> None:
        if self.previous is not None and self.previous.identity.user != identity.user:
            raise SaslFailure(
                "Cannot change principals during re-authentication from "
                f"User.{self.previous.identity.user}: User.{identity.user}",
                is_public=True,
            )

    def _lifetime_ms(self, identity: Identity, now_ms: int) -> int | None:
        limits: list[int] = []
        if self.mechanisms[self._mechanism].max_reauth_ms > 0:
            limits.append(self.mechanisms[self._mechanism].max_reauth_ms)
        if identity.expires_at_ms is not None:
            limits.append(max(0, identity.expires_at_ms - now_ms))
        return min(limits) if limits else None

    def _hidden_failure(self) -> str:
        what = "authentication" if self.previous is None else "re-authentication"
        return (
            f"Authentication failed during {what} due to invalid credentials with SASL mechanism "
            f"{self._mechanism}"
        )

    def _bad_mechanism(self) -> str:
        previous = "" if self.previous is None else self.previous.mechanism
        return (
            f"SASL mechanism '{self._mechanism}' requested by client is not supported for "
            f"re-authentication of mechanism '{previous}'"
        )


def _check_version(header: RequestHeader) -> None:
    """Raise ProtocolError when an api does not have the request's version."""
    api = API[header.api_key]
    if not api.min_version <= header.api_version <= api.advertised[1]:
        raise ProtocolError(f"{api.name} v{header.api_version} is not served")


def _encoded(header: RequestHeader, response: Message) -> list[Part]:
    header_version = API[header.api_key].response_header_version(header.api_version)
    return encode_response(header.correlation_id, header_version, response, header.api_version)

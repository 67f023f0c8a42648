"""The server's authenticator: the orders of requests in Kafka's SaslAuthenticatorTest."""

from functools import partial
from typing import TypeVar

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.framing import encode_request
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from barnabas.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from barnabas.protocol.messages_base import Message
from barnabas.security.sasl.plain_mechanism import PlainExchange
from barnabas.security.sasl.sasl_authenticator import (
    AnswerVersions,
    Fail,
    MechanismSettings,
    SaslServerAuthenticator,
    Send,
    Session,
    State,
    Step,
)
from barnabas.security.sasl.sasl_mechanism import Identity, SaslFailure

NOW = 1_800_000_000_000
GOOD, BAD = b"\0a\0secret", b"\0a\0wrong"
INVALID = "Authentication failed: Invalid username or password"
R = TypeVar("R", bound=Message)


@attrs.define
class Expiring:
    """A mechanism whose credential ends; it takes the user's name as its only token."""

    expires_at_ms: int | None
    identity: Identity | None = None

    def evaluate(self, token: bytes, now_ms: int) -> bytes:
        if token == b"bad":
            raise SaslFailure("a secret reason")
        self.identity = Identity(token.decode(), self.expires_at_ms)
        return b"done"


def authenticator(
    previous: Session | None = None, max_reauth_ms: int = 0, expires_at_ms: int | None = None
) -> SaslServerAuthenticator:
    return SaslServerAuthenticator(
        {
            "PLAIN": MechanismSettings(lambda: PlainExchange({"a": "secret"}), max_reauth_ms),
            "EXPIRING": MechanismSettings(lambda: Expiring(expires_at_ms), max_reauth_ms),
        },
        previous,
    )


def frame(request: Message, version: int) -> bytes:
    return b"".join(map(bytes, encode_request(7, "client", request, version)))[4:]


def handshake(mechanism: str = "PLAIN", version: int = 1) -> bytes:
    return frame(SaslHandshakeRequest(mechanism=mechanism), version)


def authenticate(token: bytes, version: int = 2) -> bytes:
    return frame(SaslAuthenticateRequest(auth_bytes=token), version)


def read(step: Step, kind: type[R], version: int) -> R:
    assert isinstance(step, Send | Fail)
    assert step.parts is not None
    data = b"".join(map(bytes, step.parts))
    assert int.from_bytes(data[:4], "big") == len(data) - 4
    assert data[4:8] == (7).to_bytes(4, "big")
    header = 5 if kind is SaslAuthenticateResponse and version >= 2 else 4
    return kind.decode_from(data, 4 + header, version)[0]


def begun(version: int = 1, **changes: int) -> SaslServerAuthenticator:
    """Return an authenticator after a handshake for PLAIN."""
    server = authenticator(**changes)
    assert isinstance(server.receive(handshake(version=version), NOW), Send)
    return server


@pytest.mark.parametrize("version", [0, 1, 2])
def test_versions_handshake_and_token_authenticate(version: int) -> None:
    server = authenticator()
    assert server.receive(frame(ApiVersionsRequest(), 0), NOW) == AnswerVersions()
    server.versions_answered(ErrorCode.NONE)
    shaken = read(server.receive(handshake(), NOW), SaslHandshakeResponse, 1)
    assert (shaken.error_code, shaken.mechanisms) == (0, ["PLAIN", "EXPIRING"])
    assert not server.is_complete
    step = server.receive(authenticate(GOOD, version), NOW)
    answer = read(step, SaslAuthenticateResponse, version)
    assert (answer.error_code, answer.error_message, answer.auth_bytes) == (0, "", b"")
    assert answer.session_lifetime_ms == 0
    assert server.is_complete
    assert server.session == Session("PLAIN", Identity("a"), None)


def test_handshake_may_be_the_first_request() -> None:
    assert begun().state is State.AUTHENTICATE


def test_handshake_of_version_0_is_followed_by_tokens_without_headers() -> None:
    server = begun(version=0)
    assert server.receive(GOOD, NOW) == Send([bytes(4)])
    assert server.session == Session("PLAIN", Identity("a"), None)


def test_token_without_a_header_that_is_wrong_closes_silently() -> None:
    step = begun(version=0).receive(BAD, NOW)
    assert step == Fail(INVALID, parts=None)


def test_failure_is_answered_after_the_delay() -> None:
    server = begun()
    step = server.receive(authenticate(BAD), NOW)
    assert isinstance(step, Fail)
    assert step.is_delayed
    answer = read(step, SaslAuthenticateResponse, 2)
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == INVALID
    assert (server.state, server.session) == (State.FAILED, None)


def test_failure_that_is_not_public_is_named_by_its_mechanism() -> None:
    server = authenticator()
    server.receive(handshake("EXPIRING"), NOW)
    step = server.receive(authenticate(b"bad"), NOW)
    assert isinstance(step, Fail)
    assert step.reason == "a secret reason"
    assert read(step, SaslAuthenticateResponse, 2).error_message == (
        "Authentication failed during authentication due to invalid credentials with SASL "
        "mechanism EXPIRING"
    )


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("mechanism", ["OTHER", "plain", ""])
def test_unknown_mechanism_is_answered_with_the_enabled_ones(mechanism: str, version: int) -> None:
    step = authenticator().receive(handshake(mechanism, version), NOW)
    assert isinstance(step, Fail)
    assert step.is_delayed
    answer = read(step, SaslHandshakeResponse, version)
    assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert answer.mechanisms == ["PLAIN", "EXPIRING"]


METADATA = frame(MetadataRequest(topics=None), 12)


@pytest.mark.parametrize(
    "data",
    [
        METADATA,
        authenticate(GOOD),
        b"",
        b"\0",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x60\x81\x9e\x06\x06+\x06",
        frame(SaslHandshakeRequest(mechanism="PLAIN"), 1).replace(
            b"\x00\x11\x00\x01", b"\0\x11\0\2"
        ),
        handshake()[:-2],
    ],
    ids=[
        *("other api", "token", "nothing", "one byte", "http", "kerberos"),
        *("unknown version", "cut"),
    ],
)
def test_anything_else_before_the_handshake_closes_at_once(data: bytes) -> None:
    server = authenticator()
    step = server.receive(data, NOW)
    assert isinstance(step, Fail)
    assert (step.parts, step.refusal, step.is_delayed) == (None, None, False)
    again = server.receive(handshake(), NOW)
    assert isinstance(again, Fail)


def test_versions_request_that_failed_may_be_repeated_once() -> None:
    server = authenticator()
    versions = frame(ApiVersionsRequest(), 0)
    assert server.receive(versions, NOW) == AnswerVersions()
    server.versions_answered(ErrorCode.UNSUPPORTED_VERSION)
    assert server.receive(versions, NOW) == AnswerVersions()
    server.versions_answered(ErrorCode.INVALID_REQUEST)
    assert isinstance(server.receive(versions, NOW), Fail)


def test_second_versions_request_closes() -> None:
    server = authenticator()
    server.receive(frame(ApiVersionsRequest(), 0), NOW)
    server.versions_answered(ErrorCode.NONE)
    step = server.receive(frame(ApiVersionsRequest(), 0), NOW)
    assert isinstance(step, Fail)
    assert not step.is_delayed


@pytest.mark.parametrize("data", [METADATA, handshake(), frame(ApiVersionsRequest(), 0)])
def test_other_api_in_place_of_a_token_gets_its_own_error(data: bytes) -> None:
    step = begun().receive(data, NOW)
    assert isinstance(step, Fail)
    assert step.refusal is ErrorCode.ILLEGAL_SASL_STATE
    assert step.is_delayed


def test_unknown_version_of_a_token_closes_at_once() -> None:
    data = authenticate(GOOD, 1).replace(b"\x00\x24\x00\x01", b"\x00\x24\x00\x03", 1)
    step = begun().receive(data, NOW)
    assert isinstance(step, Fail)
    assert (step.parts, step.refusal, step.is_delayed) == (None, None, False)


@pytest.mark.parametrize(
    ("max_reauth_ms", "expires_at_ms", "lifetime_ms"),
    [
        (0, None, None),
        (5000, None, 5000),
        (0, NOW + 3000, 3000),
        (5000, NOW + 3000, 3000),
        (2000, NOW + 3000, 2000),
        (0, NOW - 1, 0),
    ],
)
def test_session_lasts_as_long_as_the_credential_and_the_setting_allow(
    max_reauth_ms: int, expires_at_ms: int | None, lifetime_ms: int | None
) -> None:
    server = authenticator(None, max_reauth_ms, expires_at_ms)
    server.receive(handshake("EXPIRING"), NOW)
    answer = read(server.receive(authenticate(b"a"), NOW), SaslAuthenticateResponse, 2)
    assert answer.auth_bytes == b"done"
    assert answer.session_lifetime_ms == (lifetime_ms or 0)
    assert server.session is not None
    assert server.session.lifetime_ms == lifetime_ms


def test_authenticator_shows_no_password() -> None:
    server = SaslServerAuthenticator(
        {"PLAIN": MechanismSettings(partial(PlainExchange, {"a": "hunter2"}))}
    )
    server.receive(handshake(), NOW)
    assert "hunter2" not in repr(server)


PREVIOUS = Session("PLAIN", Identity("a"), 1000)


def test_reauthentication_renews_the_session() -> None:
    server = authenticator(PREVIOUS, max_reauth_ms=4000)
    server.receive(handshake(), NOW)
    step = server.receive(authenticate(GOOD), NOW)
    assert read(step, SaslAuthenticateResponse, 2).session_lifetime_ms == 4000
    assert server.session == Session("PLAIN", Identity("a"), 4000)


def test_reauthentication_as_another_user_fails() -> None:
    server = authenticator(Session("PLAIN", Identity("b"), 1000))
    server.receive(handshake(), NOW)
    step = server.receive(authenticate(GOOD), NOW)
    assert isinstance(step, Fail)
    assert read(step, SaslAuthenticateResponse, 2).error_message == (
        "Cannot change principals during re-authentication from User.b: User.a"
    )
    assert (server.session, server.is_complete) == (None, False)


def test_reauthentication_with_another_mechanism_fails_at_the_next_token() -> None:
    server = authenticator(PREVIOUS)
    shaken = read(server.receive(handshake("EXPIRING"), NOW), SaslHandshakeResponse, 1)
    assert shaken.error_code == ErrorCode.NONE
    assert server.receive(authenticate(b"a"), NOW) == Fail(
        "SASL mechanism 'EXPIRING' requested by client is not supported for re-authentication of "
        "mechanism 'PLAIN'"
    )


def test_failure_of_a_reauthentication_says_so() -> None:
    server = authenticator(Session("EXPIRING", Identity("a"), 1000))
    server.receive(handshake("EXPIRING"), NOW)
    step = server.receive(authenticate(b"bad"), NOW)
    message = read(step, SaslAuthenticateResponse, 2).error_message
    assert message is not None
    assert message.startswith("Authentication failed during re-authentication due to invalid")


FRAMES = st.one_of(
    st.sampled_from(
        [handshake(), handshake(version=0), METADATA, GOOD, BAD, authenticate(BAD), b"\0" * 8]
    ),
    st.binary(max_size=40),
    st.binary(max_size=30).map(authenticate),
)


@given(st.lists(FRAMES, max_size=6))
def test_no_frames_without_the_password_authenticate(frames: list[bytes]) -> None:
    server = authenticator()
    for data in frames:
        if GOOD in data:
            return
        step = server.receive(data, NOW)
        if isinstance(step, Fail):
            assert server.state is State.FAILED
        assert server.session is None

"""Properties of SASL listeners, observed by clients that authenticate."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey

from barnabas.config import ConfigError
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from barnabas.protocol.messages.sasl_handshake import SaslHandshakeRequest
from barnabas.testing import Node
from barnabas.testing.free_ports import free_ports
from tests.config.effects.observed import observes
from tests.config.effects.wire import Wire, eventually

MODULES = "org.apache.kafka.common.security"
LISTENER = "listener.name.sasl_plaintext"
PLAIN = f'{MODULES}.plain.PlainLoginModule required user_a="secret";'
KEY = RSAKey.generate_key(2048, {"kid": "one"})


@contextmanager
def node_with_sasl(**changes: str) -> Iterator[int]:
    """Run a node; yield the port of its SASL listener."""
    (port,) = free_ports(1)
    config = {
        "listeners": f"PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:{port},"
        "CONTROLLER://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN",
        f"{LISTENER}.plain.sasl.jaas.config": PLAIN,
    }
    with Node(config={**config, **changes}):
        yield port


def log_in(wire: Wire, token: bytes, mechanism: str = "PLAIN") -> SaslAuthenticateResponse:
    shaken = wire.ask(SaslHandshakeRequest(mechanism=mechanism), 1)
    assert shaken.error_code == ErrorCode.NONE
    return wire.ask(SaslAuthenticateRequest(auth_bytes=token), 2)


def is_open(wire: Wire) -> bool:
    try:
        wire.ask(MetadataRequest(topics=[]), 12)
    except (EOFError, ConnectionError):
        return False
    return True


@observes("sasl.enabled.mechanisms", "sasl.jaas.config")
def test_clients_authenticate_with_the_mechanisms_and_users_of_the_listener() -> None:
    with node_with_sasl() as port:
        assert not is_open(Wire(port))
        wire = Wire(port)
        assert wire.ask(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1).mechanisms == ["PLAIN"]
        wire = Wire(port)
        assert log_in(wire, b"\0a\0secret").error_code == ErrorCode.NONE
        assert is_open(wire)
        wire = Wire(port)
        refused = log_in(wire, b"\0b\0secret")
        assert refused.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert not is_open(wire)


@observes("connection.failed.authentication.delay.ms")
def test_failed_authentication_is_answered_after_the_delay() -> None:
    """The delay is longer than the time of this test: no answer arrives."""
    with node_with_sasl(**{"connection.failed.authentication.delay.ms": "3600000"}) as port:
        wire = Wire(port, timeout=0.5)
        with pytest.raises(TimeoutError):
            log_in(wire, b"\0a\0wrong")
        assert log_in(Wire(port), b"\0a\0secret").error_code == ErrorCode.NONE


@observes("connections.max.reauth.ms")
def test_session_ends_unless_the_client_authenticates_again() -> None:
    with node_with_sasl(**{f"{LISTENER}.plain.connections.max.reauth.ms": "3000"}) as port:
        renewing, silent = Wire(port), Wire(port)
        for wire in (renewing, silent):
            assert log_in(wire, b"\0a\0secret").session_lifetime_ms == 3000
        assert log_in(renewing, b"\0a\0secret").session_lifetime_ms == 3000
        eventually(lambda: not is_open(silent))
        assert log_in(renewing, b"\0a\0secret").session_lifetime_ms == 3000
        assert is_open(renewing)


def test_session_without_an_end_is_not_renewed() -> None:
    with node_with_sasl() as port:
        wire = Wire(port)
        assert log_in(wire, b"\0a\0secret").session_lifetime_ms == 0
        refused = wire.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        assert refused.error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert is_open(wire)


@observes("sasl.server.max.receive.size")
def test_frame_before_authentication_is_limited() -> None:
    with node_with_sasl(**{"sasl.server.max.receive.size": "200"}) as port:
        wire = Wire(port)
        with pytest.raises((EOFError, ConnectionError)):
            log_in(wire, b"\0a\0" + b"x" * 200)
        wire = Wire(port)
        log_in(wire, b"\0a\0secret")
        topics = [MetadataRequest.MetadataRequestTopic(name=f"topic-{i}") for i in range(40)]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        assert len(wire.ask(request, 12).topics) == 40


@observes("barnabas.authentication.timeout.ms")
def test_client_that_does_not_authenticate_in_time_is_disconnected() -> None:
    with node_with_sasl(**{"barnabas.authentication.timeout.ms": "3000"}) as port:
        wire, silent = Wire(port), Wire(port)
        assert log_in(wire, b"\0a\0secret").error_code == ErrorCode.NONE
        assert silent.socket.recv(1) == b""
        assert is_open(wire)


@observes("barnabas.unauthenticated.connections.max")
def test_oldest_unauthenticated_connection_makes_room() -> None:
    with node_with_sasl(**{"barnabas.unauthenticated.connections.max": "2"}) as port:
        authenticated = Wire(port)
        log_in(authenticated, b"\0a\0secret")
        silent = [Wire(port) for _ in range(3)]
        assert silent[0].socket.recv(1) == b""
        for wire in (authenticated, silent[1], silent[2]):
            if wire is not authenticated:
                assert log_in(wire, b"\0a\0secret").error_code == ErrorCode.NONE
            assert is_open(wire)


def token(key: RSAKey = KEY, **changes: Any) -> bytes:
    now_s = int(time.time())
    claims = {"sub": "alice", "iss": "me", "aud": "kafka", "iat": now_s, "exp": now_s + 600}
    signed = jwt.encode({"alg": "RS256", "kid": key.kid}, {**claims, **changes}, key)
    return f"n,,\x01auth=Bearer {signed}\x01\x01".encode()


def with_tokens(keys: Path, **changes: str) -> dict[str, str]:
    """Return properties of a listener that accepts tokens."""
    keys.write_text(json.dumps(KeySet([KEY]).as_dict(private=False)))
    prefix = f"{LISTENER}.oauthbearer."
    module = f"{MODULES}.oauthbearer.OAuthBearerLoginModule required;"
    return {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{prefix}sasl.jaas.config": module,
        f"{prefix}sasl.server.callback.handler.class": (
            f"{MODULES}.oauthbearer.OAuthBearerValidatorCallbackHandler"
        ),
        f"{prefix}sasl.oauthbearer.jwks.endpoint.url": f"file://{keys}",
        **{f"{prefix}sasl.oauthbearer.{name}": value for name, value in changes.items()},
    }


@observes("sasl.oauthbearer.jwks.endpoint.url", "sasl.server.callback.handler.class")
def test_tokens_are_verified_with_the_keys_of_the_file(tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    config = with_tokens(keys)
    with node_with_sasl(**config) as port:
        answer = log_in(Wire(port), token(), "OAUTHBEARER")
        assert (answer.error_code, answer.auth_bytes) == (ErrorCode.NONE, b"")
        assert 0 < answer.session_lifetime_ms <= 600_000
        wire = Wire(port)
        forged = token()[:-6] + b"AAAA\x01\x01"
        assert log_in(wire, forged, "OAUTHBEARER").auth_bytes == b'{"status":"invalid_token"}'
        refused = wire.ask(SaslAuthenticateRequest(auth_bytes=b"\x01"), 2)
        assert refused.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    keys.write_text("{}")
    with pytest.raises(ConfigError, match="no usable set of keys"), node_with_sasl(**config):
        pass
    without = {name: value for name, value in config.items() if "handler" not in name}
    with pytest.raises(ConfigError, match="without a signature"), node_with_sasl(**without):
        pass


@observes(
    "sasl.oauthbearer.expected.audience",
    "sasl.oauthbearer.expected.issuer",
    "sasl.oauthbearer.clock.skew.seconds",
    "sasl.oauthbearer.sub.claim.name",
    "sasl.oauthbearer.scope.claim.name",
)
@pytest.mark.parametrize(
    ("name", "value", "accepted", "refused"),
    [
        ("expected.audience", "kafka,other", {}, {"aud": "else"}),
        ("expected.issuer", "me", {}, {"iss": "you"}),
        ("clock.skew.seconds", "3600", {"exp": 1}, {}),
        ("sub.claim.name", "email", {"email": "a@b"}, {}),
        ("scope.claim.name", "scp", {"scope": ["a", "a"]}, {"scp": ["a", "a"]}),
    ],
)
def test_claims_of_tokens_are_those_of_the_listener(
    tmp_path: Path, name: str, value: str, accepted: dict[str, Any], refused: dict[str, Any]
) -> None:
    if name == "clock.skew.seconds":
        now_s = int(time.time())
        accepted, refused = {"exp": now_s - 1800}, {"exp": now_s - 7200}
    with node_with_sasl(**with_tokens(tmp_path / "keys.json", **{name: value})) as port:
        assert log_in(Wire(port), token(**accepted), "OAUTHBEARER").auth_bytes == b""
        answer = log_in(Wire(port), token(**refused), "OAUTHBEARER")
        assert answer.auth_bytes == b'{"status":"invalid_token"}'


def test_client_that_waits_for_the_delay_does_not_delay_others() -> None:
    with node_with_sasl() as port:
        failing = [Wire(port) for _ in range(5)]
        for wire in failing:
            assert log_in(wire, b"\0a\0wrong").error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        eventually(lambda: not any(map(is_open, failing)))

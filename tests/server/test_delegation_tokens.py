"""Delegation tokens on nodes: who may use them, on which listeners, and through which node.

compat_tests/test_delegation_tokens.py has the rules, which hold for Apache Kafka too.
"""

import base64
from collections.abc import Iterator

import pytest

from barnabas.client.core.sasl_exchange import start_exchange
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from barnabas.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from barnabas.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from barnabas.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from barnabas.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from barnabas.protocol.messages.sasl_handshake import SaslHandshakeRequest
from barnabas.testing import Node
from barnabas.testing.free_ports import free_ports
from tests.config.effects.wire import Wire

MODULES = "org.apache.kafka.common.security"
MECHANISM = "SCRAM-SHA-512"
PREFIX = "listener.name.sasl_plaintext"
SECURED = {
    "sasl.enabled.mechanisms": f"PLAIN,{MECHANISM}",
    f"{PREFIX}.plain.sasl.jaas.config": f"{MODULES}.plain.PlainLoginModule required "
    'user_alice="secret" user_bob="secret";',
    f"{PREFIX}.{MECHANISM.lower()}.sasl.jaas.config": (
        f"{MODULES}.scram.ScramLoginModule required;"
    ),
    "delegation.token.secret.key": "secret",
}
NOT_ALLOWED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
CREATE = CreateDelegationTokenRequest(max_lifetime_ms=-1)
REQUESTS = (
    (CREATE, 3),
    (RenewDelegationTokenRequest(hmac=b"x", renew_period_ms=-1), 2),
    (ExpireDelegationTokenRequest(hmac=b"x", expiry_time_period_ms=-1), 2),
    (DescribeDelegationTokenRequest(owners=None), 3),
)


class Ports:
    """The ports of a node's listeners, by name."""

    def __init__(self, plain: int, sasl: int, controller: int) -> None:
        self.plain = plain
        self.sasl = sasl
        self.controller = controller


@pytest.fixture(scope="module")
def ports() -> Iterator[Ports]:
    found = Ports(*free_ports(3))
    listeners = (
        f"PLAINTEXT://127.0.0.1:{found.plain},SASL_PLAINTEXT://127.0.0.1:{found.sasl},"
        f"CONTROLLER://127.0.0.1:{found.controller}"
    )
    with Node(config={"listeners": listeners, **SECURED}):
        yield found


def logged_in(port: int, user: str = "alice") -> Wire:
    wire = Wire(port)
    wire.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    token = f"\0{user}\0secret".encode()
    assert wire.ask(SaslAuthenticateRequest(auth_bytes=token), 2).error_code == ErrorCode.NONE
    return wire


def log_in_by_token(
    port: int, token: CreateDelegationTokenResponse
) -> tuple[Wire, SaslAuthenticateResponse]:
    wire = Wire(port)
    wire.ask(SaslHandshakeRequest(mechanism=MECHANISM), 1)
    password = base64.b64encode(token.hmac).decode()
    exchange = start_exchange(MECHANISM, token.token_id, password, "nonce", is_token=True)
    message: bytes | None = exchange.first()
    answer = SaslAuthenticateResponse()
    while message is not None:
        answer = wire.ask(SaslAuthenticateRequest(auth_bytes=message), 2)
        assert answer.error_code == ErrorCode.NONE
        message = exchange.respond(answer.auth_bytes)
    return wire, answer


def test_tokens_are_not_for_connections_in_plain_text(ports: Ports) -> None:
    for port in (ports.plain, ports.controller):
        for request, version in REQUESTS:
            if port == ports.controller and isinstance(request, DescribeDelegationTokenRequest):
                continue
            assert Wire(port).ask(request, version).error_code == NOT_ALLOWED


def test_tokens_are_not_for_connections_with_a_token(ports: Ports) -> None:
    token = logged_in(ports.sasl).ask(CREATE, 3)
    wire, answer = log_in_by_token(ports.sasl, token)
    lifetime_ms = token.expiry_timestamp_ms - token.issue_timestamp_ms
    assert lifetime_ms - 60_000 < answer.session_lifetime_ms <= lifetime_ms
    for request, version in REQUESTS:
        assert wire.ask(request, version).error_code == NOT_ALLOWED


def test_type_of_the_owner_must_be_given(ports: Ports) -> None:
    request = CreateDelegationTokenRequest(owner_principal_name="bob", max_lifetime_ms=-1)
    answer = logged_in(ports.sasl).ask(request, 3)
    assert answer.error_code == ErrorCode.INVALID_PRINCIPAL_TYPE


def test_token_survives_a_restart(tmp_path) -> None:
    (port,) = free_ports(1)
    config = {
        "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0,"
        f"SASL_PLAINTEXT://127.0.0.1:{port}",
        **SECURED,
    }
    with Node(tmp_path, config=config):
        token = logged_in(port).ask(CREATE, 3)
    with Node(tmp_path, config=config):
        wire, _ = log_in_by_token(port, token)
        assert wire.is_served()
        (found,) = logged_in(port).ask(DescribeDelegationTokenRequest(owners=None), 3).tokens
        assert (found.token_id, found.hmac) == (token.token_id, token.hmac)

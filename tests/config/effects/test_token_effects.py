"""Properties of delegation tokens, observed by a client that creates them."""

import hashlib
import hmac
import time

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from barnabas.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from tests.config.effects.observed import observes
from tests.config.effects.test_sasl_effects import log_in, node_with_sasl
from tests.config.effects.wire import Wire, eventually

SECRET = {"delegation.token.secret.key": "secret"}
HOUR_MS = 3_600_000


def authenticated(port: int) -> Wire:
    wire = Wire(port)
    assert log_in(wire, b"\0a\0secret").error_code == ErrorCode.NONE
    return wire


def create(wire: Wire, lifetime_ms: int = -1) -> CreateDelegationTokenResponse:
    return wire.ask(CreateDelegationTokenRequest(max_lifetime_ms=lifetime_ms), 3)


def described(wire: Wire) -> set[str]:
    answer = wire.ask(DescribeDelegationTokenRequest(owners=None), 3)
    assert answer.error_code == ErrorCode.NONE
    return {token.token_id for token in answer.tokens}


@observes("delegation.token.secret.key")
def test_tokens_are_made_from_the_secret_and_disabled_without_it() -> None:
    with node_with_sasl() as port:
        assert create(authenticated(port)).error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    with node_with_sasl(**SECRET) as port:
        token = create(authenticated(port))
    assert token.hmac == hmac.new(b"secret", token.token_id.encode(), hashlib.sha512).digest()


@observes("delegation.token.max.lifetime.ms", "delegation.token.expiry.time.ms")
def test_token_is_valid_and_renewable_for_the_configured_times() -> None:
    lifetime = {"delegation.token.max.lifetime.ms": str(3 * HOUR_MS)}
    validity = {"delegation.token.expiry.time.ms": str(HOUR_MS)}
    with node_with_sasl(**SECRET, **lifetime, **validity) as port:
        token = create(authenticated(port))
    assert token.max_timestamp_ms - token.issue_timestamp_ms == 3 * HOUR_MS
    assert token.expiry_timestamp_ms - token.issue_timestamp_ms == HOUR_MS


@observes("delegation.token.expiry.check.interval.ms")
def test_expired_token_is_removed_after_the_interval() -> None:
    interval = {"delegation.token.expiry.check.interval.ms": "200"}
    with node_with_sasl(**SECRET) as port:
        kept = authenticated(port)
        token_id = create(kept, 1).token_id
        with node_with_sasl(**SECRET, **interval) as other:
            wire = authenticated(other)
            create(wire, 1)
            eventually(lambda: described(wire) == set())
        time.sleep(0.4)  # two intervals of the other node
        assert described(kept) == {token_id}

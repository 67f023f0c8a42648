"""Properties of the keys that sign tokens, fetched from an issuer over HTTP."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import pytest
from joserfc.jwk import KeySet, RSAKey

from barnabas.config import ConfigError
from tests.config.effects.http_issuer import DocumentHandler, IssuerServer, serving
from tests.config.effects.observed import observes
from tests.config.effects.test_sasl_effects import (
    KEY,
    LISTENER,
    MODULES,
    log_in,
    node_with_sasl,
    token,
)
from tests.config.effects.wire import Wire, eventually

NEW = RSAKey.generate_key(2048, {"kid": "new"})
INVALID = b'{"status":"invalid_token"}'
HOUR_MS = "3600000"


class Issuer(IssuerServer):
    """Serves `keys`, or fails while `is_down`, and notes the times of requests."""

    def __init__(self) -> None:
        super().__init__(_Handler, "/jwks.json")
        self.keys = [KEY]
        self.is_down = False
        self.asked_at_s: list[float] = []


class _Handler(DocumentHandler):
    def do_GET(self) -> None:  # noqa: N802 - a name of http.server
        issuer = self.server
        assert isinstance(issuer, Issuer)
        issuer.asked_at_s.append(time.monotonic())
        status = 503 if issuer.is_down else 200
        self.answer(status, KeySet(issuer.keys).as_dict(private=False))


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with serving(Issuer()) as server:
        yield server


@contextmanager
def node_with_keys_of(url: str, **times_ms: str) -> Iterator[int]:
    prefix = f"{LISTENER}.oauthbearer.sasl"
    properties = {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{prefix}.jaas.config": f"{MODULES}.oauthbearer.OAuthBearerLoginModule required;",
        f"{prefix}.server.callback.handler.class": (
            f"{MODULES}.oauthbearer.OAuthBearerValidatorCallbackHandler"
        ),
        f"{prefix}.oauthbearer.jwks.endpoint.url": url,
    }
    for name, value in times_ms.items():
        properties[f"{prefix}.oauthbearer.jwks.endpoint.{name.replace('_', '.')}.ms"] = value
    with node_with_sasl(**properties) as port:
        yield port


def is_valid(port: int, client_token: bytes) -> bool:
    answer = log_in(Wire(port), client_token, "OAUTHBEARER").auth_bytes
    assert answer in (b"", INVALID)
    return answer == b""


@observes("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms")
def test_token_with_a_new_key_is_valid_after_one_more_fetch(issuer: Issuer) -> None:
    """Tokens of clients cause at most one fetch in each `retry.backoff.max.ms`."""
    times = {"refresh": HOUR_MS, "retry_backoff_max": "500"}
    with node_with_keys_of(issuer.url, **times) as port:
        assert is_valid(port, token())
        new = token(key=NEW)
        assert not is_valid(port, new)
        issuer.keys.append(NEW)
        eventually(lambda: is_valid(port, new))
        assert is_valid(port, token())
    assert all(later - earlier >= 0.5 for earlier, later in pairwise(issuer.asked_at_s))


@observes("sasl.oauthbearer.jwks.endpoint.refresh.ms")
def test_keys_that_the_issuer_withdraws_are_refused_after_the_interval(issuer: Issuer) -> None:
    with node_with_keys_of(issuer.url, refresh="200") as port:
        assert is_valid(port, token())
        issuer.keys[:] = [NEW]
        eventually(lambda: not is_valid(port, token()))


@observes("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms")
def test_keys_stay_while_the_issuer_is_down_and_pauses_between_attempts_double(
    issuer: Issuer,
) -> None:
    times = {"refresh": "200", "retry_backoff": "100", "retry_backoff_max": "10000"}
    with node_with_keys_of(issuer.url, **times) as port:
        issuer.is_down = True
        issuer.asked_at_s.clear()
        eventually(lambda: len(issuer.asked_at_s) >= 5)
        assert is_valid(port, token())
        pauses = [later - earlier for earlier, later in pairwise(issuer.asked_at_s[:5])]
        # The first request may have been the last that succeeded.
        least = (0.1, 0.2, 0.4)
        assert all(pause >= each for pause, each in zip(pauses[1:], least, strict=True)), pauses
        issuer.keys.append(NEW)
        issuer.is_down = False
        eventually(lambda: is_valid(port, token(key=NEW)))


def test_node_does_not_start_without_keys(issuer: Issuer) -> None:
    issuer.is_down = True
    with (
        pytest.raises(ConfigError, match=r"jwks\.json .*jwks\.endpoint\.url: .*status 503"),
        node_with_keys_of(issuer.url),
    ):
        pass

"""Properties of the token with which a node logs in at another one, which verifies it."""

import base64
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs

import pytest
import trio

from barnabas.client import AuthenticationError
from barnabas.client.broker_connection import open_connection
from barnabas.client.client_config import ClientConfig
from barnabas.client.core.token_login import TokenLogin
from barnabas.client.failures import Address
from barnabas.client.issued_tokens import IssuedTokens
from barnabas.config import NodeConfig
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.security.sasl.node_credentials import BROKER_MECHANISM
from barnabas.server.node.peer_access import PeerAccess
from tests.config.effects.http_issuer import DocumentHandler, IssuerServer, serving
from tests.config.effects.observed import observes
from tests.config.effects.test_sasl_effects import (
    LISTENER,
    MODULES,
    node_with_sasl,
    token,
    with_tokens,
)

PREFIX = f"{LISTENER}.oauthbearer.sasl"
HANDLER = f"{MODULES}.oauthbearer.OAuthBearerLoginCallbackHandler"
MODULE = f"{MODULES}.oauthbearer.OAuthBearerLoginModule required"


def signed(**claims: int) -> str:
    """Return a signed token."""
    return token(**claims).decode().split("Bearer ")[1].rstrip("\x01")


class Issuer(IssuerServer):
    """An issuer with the client `node`, which keeps the forms that it gets."""

    def __init__(self) -> None:
        super().__init__(_Handler, "/token")
        self.forms: list[dict[str, list[str]]] = []
        self.answer: dict[str, object] = {}


class _Handler(DocumentHandler):
    def do_POST(self) -> None:  # noqa: N802 - a name of http.server
        issuer = self.server
        assert isinstance(issuer, Issuer)
        issuer.forms.append(parse_qs(self.rfile.read(int(self.headers["content-length"])).decode()))
        known = "Basic " + base64.b64encode(b"node:node-secret").decode()
        status = 200 if self.headers["authorization"] == known else 401
        self.answer(status, issuer.answer or {"access_token": signed()})


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with serving(Issuer()) as server:
        yield server


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    """The port of the other node."""
    with node_with_sasl(**with_tokens(tmp_path / "keys.json")) as found:
        yield found


def access(**changes: str) -> PeerAccess:
    """Return the access of a node to others, whose listener has the same name as its own."""
    config = {
        "listeners": "SASL_PLAINTEXT://a:9094,CONTROLLER://a:9093",
        "inter.broker.listener.name": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        BROKER_MECHANISM: "OAUTHBEARER",
        f"{PREFIX}.jaas.config": f"{MODULE};",
        f"{PREFIX}.login.callback.handler.class": HANDLER,
        f"{PREFIX}.server.callback.handler.class": (
            f"{MODULES}.oauthbearer.OAuthBearerValidatorCallbackHandler"
        ),
        **changes,
    }
    read = NodeConfig.read(None, config)
    return PeerAccess(read, "SASL_PLAINTEXT", BROKER_MECHANISM, None)


def of_issuer(issuer: Issuer, **changes: str) -> PeerAccess:
    """Return the access of the issuer's client `node`."""
    name = f"{PREFIX}.oauthbearer.client.credentials.client"
    properties = {f"{name}.id": "node", f"{name}.secret": "node-secret", **changes}
    return access(**{f"{PREFIX}.oauthbearer.token.endpoint.url": issuer.url, **properties})


def log_in(peers: PeerAccess, port: int) -> None:
    """Connect to the other node, and have a request answered. Raises AuthenticationError."""
    config = peers.secured(ClientConfig((Address("127.0.0.1", port),)))

    async def connect() -> None:
        async with trio.open_nursery() as nursery:
            connection = await open_connection(config.bootstrap[0], config, nursery)
            await connection.ask(MetadataRequest(topics=[]), MetadataResponse)
            connection.close()

    try:
        trio.run(connect)
    except* AuthenticationError as failed:
        raise failed.exceptions[0] from None


@observes(
    "sasl.login.callback.handler.class",
    "sasl.oauthbearer.token.endpoint.url",
    "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.scope",
)
def test_node_logs_in_with_a_token_for_its_credentials(issuer: Issuer, port: int) -> None:
    peers = of_issuer(issuer, **{f"{PREFIX}.oauthbearer.scope": "kafka"})
    log_in(peers, port)
    log_in(peers, port)
    assert issuer.forms == [{"grant_type": ["client_credentials"], "scope": ["kafka"]}]
    for name, value in (("id", "other"), ("secret", "wrong")):
        changed = {f"{PREFIX}.oauthbearer.client.credentials.client.{name}": value}
        with pytest.raises(AuthenticationError, match=r"no token from .*status 401"):
            log_in(of_issuer(issuer, **changed), port)


def test_credentials_may_be_options_of_the_login_module(issuer: Issuer, port: int) -> None:
    options = 'clientId="node" clientSecret="node-secret" scope="old"'
    url = {f"{PREFIX}.oauthbearer.token.endpoint.url": issuer.url}
    log_in(access(**{f"{PREFIX}.jaas.config": f"{MODULE} {options};"}, **url), port)
    assert issuer.forms[0]["scope"] == ["old"]


def test_token_in_a_file_is_read_for_each_login(tmp_path: Path, port: int) -> None:
    file = tmp_path / "token"
    peers = access(**{f"{PREFIX}.oauthbearer.token.endpoint.url": file.as_uri()})
    with pytest.raises(AuthenticationError, match="cannot read the token"):
        log_in(peers, port)
    file.write_text(signed()[:-4] + "AAAA")
    with pytest.raises(AuthenticationError, match="invalid_token"):
        log_in(peers, port)
    file.write_text(signed() + "\n")
    log_in(peers, port)


@pytest.mark.parametrize("answer", [{"token": "x"}, {"access_token": ""}, {"access_token": 1}])
def test_login_fails_without_a_token_in_the_answer(
    issuer: Issuer, port: int, answer: dict[str, object]
) -> None:
    issuer.answer = answer
    with pytest.raises(AuthenticationError, match="lacks access_token"):
        log_in(of_issuer(issuer), port)


def test_token_whose_end_is_unknown_is_used_once(issuer: Issuer, port: int) -> None:
    issuer.answer = {"access_token": "opaque"}
    peers = of_issuer(issuer)
    for _ in range(2):
        with pytest.raises(AuthenticationError, match="invalid_token"):
            log_in(peers, port)
    assert len(issuer.forms) == 2


def test_token_is_replaced_when_most_of_its_life_is_over(issuer: Issuer) -> None:
    issuer.answer = {"access_token": signed(exp=int(time.time()) + 2)}
    tokens = IssuedTokens(TokenLogin(issuer.url, "node", "node-secret"))
    deadline = time.monotonic() + 90
    while len(issuer.forms) < 2:
        assert time.monotonic() < deadline
        tokens.token()

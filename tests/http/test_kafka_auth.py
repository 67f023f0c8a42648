"""Basic credentials that a broker checks: remembered for a while, and 503 when none can."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import attrs
import httpx
import pytest

from barnabas.client import ClientConfig
from barnabas.config import ConfigError
from barnabas.http import HttpOptions, kafka_auth
from barnabas.http.http_settings import AUTH_PROPERTY, BY_KAFKA
from barnabas.http.kafka_auth import KafkaAuth
from barnabas.testing.free_ports import free_ports
from tests.http.hosting import with_host
from tests.secured_node import SecuredNode, add_users, secured_node

AUTH = {"auth": BY_KAFKA}
GOOD, BAD = ("alice", "alice-secret"), ("alice", "wrong")


@pytest.fixture(scope="module")
def node() -> Iterator[SecuredNode]:
    with secured_node() as found:
        add_users(found, "alice")
        yield found


def client_of(node: SecuredNode) -> ClientConfig:
    return ClientConfig.from_properties(node.properties("runner", "unused"))


@contextmanager
def counted_logins() -> Iterator[mock.Mock]:
    with mock.patch.object(kafka_auth, "_outcome", side_effect=kafka_auth._outcome) as counted:
        yield counted


def test_login_is_made_once_for_the_same_credentials(node: SecuredNode) -> None:
    async def test(client: httpx.AsyncClient) -> None:
        for _ in range(3):
            assert (await client.get("/", auth=GOOD)).text == "hello alice"
        for _ in range(2):
            assert (await client.get("/", auth=BAD)).status_code == 401
        assert (await client.get("/", auth=("alice", ""))).status_code == 401

    with counted_logins() as logins:
        with_host(test, settings=AUTH, brokers=client_of(node))
        assert logins.call_count == 3


def test_remembered_login_ends(node: SecuredNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_auth, "_REMEMBERED_S", 0.0)

    async def test(client: httpx.AsyncClient) -> None:
        for _ in range(2):
            assert (await client.get("/", auth=GOOD)).status_code == 200

    with counted_logins() as logins:
        with_host(test, settings=AUTH, brokers=client_of(node))
        assert logins.call_count == 2


def test_credentials_cannot_be_checked_without_a_broker_or_its_mechanism(node: SecuredNode) -> None:
    async def test(client: httpx.AsyncClient) -> None:
        for credentials in (GOOD, BAD):
            answer = await client.get("/", auth=credentials)
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
            assert "www-authenticate" not in answer.headers

    config = client_of(node)
    (closed,) = free_ports(1)
    no_broker = attrs.evolve(config, bootstrap=(config.bootstrap[0]._replace(port=closed),))
    with_host(test, settings=AUTH, brokers=no_broker)
    assert config.sasl is not None
    other = attrs.evolve(config, sasl=attrs.evolve(config.sasl, mechanism="PLAIN"))
    with_host(test, settings=AUTH, brokers=other)


def test_second_broker_is_tried(node: SecuredNode) -> None:
    async def test(client: httpx.AsyncClient) -> None:
        assert (await client.get("/", auth=GOOD)).status_code == 200
        assert (await client.get("/", auth=BAD)).status_code == 401

    config = client_of(node)
    (closed,) = free_ports(1)
    gone = config.bootstrap[0]._replace(port=closed)
    with_host(
        test, settings=AUTH, brokers=attrs.evolve(config, bootstrap=(gone, *config.bootstrap))
    )


def test_wrong_settings_are_refused() -> None:
    plain = ClientConfig.from_properties({"bootstrap.servers": "a:1"})
    with pytest.raises(ConfigError, match=r"set security\.protocol to SASL_SSL"):
        KafkaAuth(plain)
    with pytest.raises(ConfigError, match="it must be kafka"):
        HttpOptions().with_properties({AUTH_PROPERTY: "file"})
    assert HttpOptions().with_properties({AUTH_PROPERTY: "kafka"}).needs_authentication


def test_client_with_tokens_checks_no_passwords() -> None:
    properties = {
        "bootstrap.servers": "a:1",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": "file:///etc/token",
    }
    with pytest.raises(ConfigError, match=r"OAUTHBEARER has none: set PLAIN, .*--token-keys"):
        KafkaAuth(ClientConfig.from_properties(properties))

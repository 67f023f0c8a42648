"""The credentials of nodes for each other: what a start accepts, and what it refuses and why."""

import pytest

from barnabas.config import ConfigError, NodeConfig
from barnabas.security.sasl.node_credentials import (
    BROKER_MECHANISM,
    CONTROLLER_MECHANISM,
    NodeCredentials,
    node_credentials,
)

MODULES = "org.apache.kafka.common.security"
PLAIN = f"{MODULES}.plain.PlainLoginModule required"
SCRAM = f"{MODULES}.scram.ScramLoginModule required"
BROKERS, CONTROLLERS = "listener.name.sasl_ssl", "listener.name.controller"
PLAIN_JAAS = f"{BROKERS}.plain.sasl.jaas.config"
BASE = {
    "listeners": "SASL_SSL://a:9094,CONTROLLER://a:9093",
    "listener.security.protocol.map": "SASL_SSL:SASL_SSL,CONTROLLER:SASL_SSL",
    "inter.broker.listener.name": "SASL_SSL",
    "controller.quorum.bootstrap.servers": "a:9093,b:9093,c:9093",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
    BROKER_MECHANISM: "PLAIN",
    PLAIN_JAAS: f'{PLAIN} username="node" password="secret" user_node="secret";',
    f"{BROKERS}.scram-sha-512.sasl.jaas.config": f'{SCRAM} username="node" password="secret";',
    CONTROLLER_MECHANISM: "PLAIN",
    f"{CONTROLLERS}.plain.sasl.jaas.config": f'{PLAIN} username="c" password="cs" user_c="cs";',
    f"{CONTROLLERS}.scram-sha-512.sasl.jaas.config": f'{SCRAM} username="c" password="cs";',
}
BROKER = {
    "process.roles": "broker",
    "listeners": "SASL_SSL://a:9094",
    f"{CONTROLLERS}.plain.sasl.jaas.config": f'{PLAIN} username="c" password="cs";',
}


def credentials(name: str = BROKER_MECHANISM, **changes: str) -> NodeCredentials:
    listener = "SASL_SSL" if name == BROKER_MECHANISM else "CONTROLLER"
    return node_credentials(NodeConfig.read(None, {**BASE, **changes}), listener, name)


def refusal(name: str = BROKER_MECHANISM, **changes: str) -> ConfigError:
    with pytest.raises(ConfigError) as refused:
        credentials(name, **changes)
    shown = refused.value.message.replace("broker-secret", "").replace("client.secret", "")
    assert "secret" not in shown.replace("client id and secret", "")
    return refused.value


def test_credentials_are_those_of_the_listeners_own_entry() -> None:
    found = credentials()
    assert (found.mechanism, found.username, found.password) == ("PLAIN", "node", "secret")
    assert not found.is_scram
    assert "secret" not in repr(found)
    assert credentials(CONTROLLER_MECHANISM).username == "c"
    assert credentials(**{BROKER_MECHANISM: "SCRAM-SHA-512"}).is_scram


def test_broker_without_a_controller_listener_has_credentials_for_it() -> None:
    assert credentials(CONTROLLER_MECHANISM, **BROKER).password == "cs"


@pytest.mark.parametrize("options", ["", 'username="node"', 'password="secret"', 'user_node="s"'])
def test_entry_without_username_or_password_is_refused(options: str) -> None:
    error = refusal(**{PLAIN_JAAS: f"{PLAIN} {options};"})
    assert error.name == PLAIN_JAAS
    assert "lacks username or password" in error.message
    assert 'username="broker" password="broker-secret" user_broker' in error.message


@pytest.mark.parametrize(
    ("options", "fault"), [("", "no user_node"), ('user_node="other"', "another password")]
)
def test_user_that_no_node_accepts_is_refused(options: str, fault: str) -> None:
    line = f'{PLAIN} username="node" password="secret" {options};'
    error = refusal(**{PLAIN_JAAS: line})
    assert (error.name, fault in error.message) == (PLAIN_JAAS, True)


@pytest.mark.parametrize("mechanism", ["GSSAPI", "OAUTHBEARER", "SCRAM-SHA-256"])
def test_mechanism_that_nodes_cannot_use_is_refused(mechanism: str) -> None:
    """Two of these are not mechanisms of the listener itself."""
    error = refusal(**{BROKER_MECHANISM: mechanism})
    assert error.name == BROKER_MECHANISM
    assert "SCRAM-SHA-512" in error.message


TOKENS = f"{BROKERS}.oauthbearer.sasl"
LOGIN = {
    BROKER_MECHANISM: "OAUTHBEARER",
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    f"{TOKENS}.jaas.config": f"{MODULES}.oauthbearer.OAuthBearerLoginModule required;",
    f"{TOKENS}.login.callback.handler.class": (
        f"{MODULES}.oauthbearer.OAuthBearerLoginCallbackHandler"
    ),
    f"{TOKENS}.oauthbearer.token.endpoint.url": "https://issuer.example.org/token",
    f"{TOKENS}.oauthbearer.client.credentials.client.id": "node",
    f"{TOKENS}.oauthbearer.client.credentials.client.secret": "secret",
}


def test_node_may_log_in_with_a_token() -> None:
    found = credentials(**LOGIN)
    assert found.login is not None
    assert (found.login.client_id, found.login.client_secret) == ("node", "secret")
    assert "secret" not in repr(found)
    file = {f"{TOKENS}.oauthbearer.token.endpoint.url": "file:///run/token"}
    own = credentials(**{**LOGIN, **file}).login
    assert own is not None
    assert own.file == "/run/token"


@pytest.mark.parametrize(
    ("name", "value", "fault"),
    [
        ("login.callback.handler.class", None, "have no signature"),
        ("login.callback.handler.class", "org.example.Login", "have no signature"),
        ("oauthbearer.token.endpoint.url", None, "issuer's address"),
        ("oauthbearer.token.endpoint.url", "http://issuer.example.org", "begin with https://"),
        ("oauthbearer.client.credentials.client.id", None, "client id and secret"),
        ("oauthbearer.client.credentials.client.secret", None, "client id and secret"),
    ],
)
def test_login_that_cannot_get_a_token_is_refused(name: str, value: str | None, fault: str) -> None:
    changed = {**LOGIN, f"{TOKENS}.{name}": value}
    error = refusal(**{key: text for key, text in changed.items() if text is not None})
    assert error.name == f"{TOKENS}.{name}"
    assert fault in error.message


def test_default_mechanism_is_kerberos_and_is_refused() -> None:
    config = {name: value for name, value in BASE.items() if name != BROKER_MECHANISM}
    with pytest.raises(ConfigError, match="GSSAPI \\(Kerberos\\), the default") as refused:
        node_credentials(NodeConfig.read(None, config), "SASL_SSL", BROKER_MECHANISM)
    assert refused.value.name == BROKER_MECHANISM


def test_scram_between_several_controllers_is_refused() -> None:
    error = refusal(CONTROLLER_MECHANISM, **{CONTROLLER_MECHANISM: "SCRAM-SHA-512"})
    assert (error.name, "KAFKA-15513" in error.message) == (CONTROLLER_MECHANISM, True)


@pytest.mark.parametrize(
    "changes",
    [
        {"controller.quorum.bootstrap.servers": "a:9093"},
        {"controller.quorum.bootstrap.servers": "", "controller.quorum.voters": "1@a:9093"},
        BROKER,
    ],
)
def test_scram_is_accepted_with_one_controller_and_from_brokers(changes: dict[str, str]) -> None:
    changed = {**changes, CONTROLLER_MECHANISM: "SCRAM-SHA-512"}
    assert credentials(CONTROLLER_MECHANISM, **changed).is_scram

"""Listeners with SASL: what the start accepts, and what it refuses with property and remedy."""

import pytest

from barnabas.config import ConfigError, NodeConfig
from barnabas.security.sasl.sasl_settings import MECHANISMS, SaslListener, sasl_listeners

MODULES = "org.apache.kafka.common.security"
PLAIN = f'{MODULES}.plain.PlainLoginModule required user_a="secret" user_b="other";'
SCRAM = f"{MODULES}.scram.ScramLoginModule required;"
OAUTH = f"{MODULES}.oauthbearer.OAuthBearerLoginModule required;"
HANDLER = f"{MODULES}.oauthbearer.OAuthBearerValidatorCallbackHandler"
LISTENER = "listener.name.sasl_plaintext"
BASE = {"listeners": "PLAINTEXT://:9092,SASL_PLAINTEXT://:9094,CONTROLLER://:9093"}
TOKENS = {
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    f"{LISTENER}.oauthbearer.sasl.jaas.config": OAUTH,
    f"{LISTENER}.oauthbearer.sasl.server.callback.handler.class": HANDLER,
    f"{LISTENER}.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": "file:///etc/keys.json",
}


def listener_of(config: dict[str, str]) -> SaslListener:
    (found,) = sasl_listeners(NodeConfig.read(None, {**BASE, **config})).values()
    return found


def refusal(config: dict[str, str]) -> ConfigError:
    with pytest.raises(ConfigError) as refused:
        listener_of(config)
    assert "secret" not in refused.value.message.replace("alice-secret", "")
    return refused.value


def test_node_without_sasl_listeners_has_no_settings() -> None:
    assert sasl_listeners(NodeConfig.read()) == {}


def test_mechanisms_and_users_are_those_of_the_listener() -> None:
    listener = listener_of(
        {
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            f"{LISTENER}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            f"{LISTENER}.plain.sasl.jaas.config": PLAIN,
            f"{LISTENER}.scram-sha-256.sasl.jaas.config": SCRAM,
        }
    )
    assert listener.mechanisms == {"PLAIN": 0, "SCRAM-SHA-256": 0}
    assert listener.plain_users == {"a": "secret", "b": "other"}
    assert "secret" not in repr(listener)


def test_time_of_reauthentication_may_differ_by_listener_and_mechanism() -> None:
    listener = listener_of(
        {
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            f"{LISTENER}.plain.sasl.jaas.config": PLAIN,
            f"{LISTENER}.scram-sha-256.sasl.jaas.config": SCRAM,
            f"{LISTENER}.scram-sha-512.sasl.jaas.config": SCRAM,
            "connections.max.reauth.ms": "1",
            f"{LISTENER}.plain.connections.max.reauth.ms": "2",
        }
    )
    assert listener.mechanisms == {"PLAIN": 2, "SCRAM-SHA-256": 1, "SCRAM-SHA-512": 1}


def test_listener_without_mechanisms_asks_for_kerberos() -> None:
    error = refusal({})
    assert error.name == "sasl.enabled.mechanisms"
    assert "GSSAPI (Kerberos), the default, which needs pip install 'barnabas[kerberos]'" in (
        error.message
    )
    assert f"{LISTENER}.gssapi.sasl.jaas.config" in error.message
    assert all(mechanism in error.message for mechanism in MECHANISMS)


@pytest.mark.parametrize("mechanisms", ["PLAIN,DIGEST-MD5", "DIGEST-MD5", "plain", ""])
def test_mechanism_that_does_not_exist_is_refused(mechanisms: str) -> None:
    for name in ("sasl.enabled.mechanisms", f"{LISTENER}.sasl.enabled.mechanisms"):
        error = refusal({name: mechanisms, f"{LISTENER}.plain.sasl.jaas.config": PLAIN})
        assert (error.name, "SCRAM-SHA-256" in error.message) == (name, True)


@pytest.mark.parametrize(
    "given",
    [{}, {"sasl.jaas.config": PLAIN}, {f"{LISTENER}.sasl.jaas.config": PLAIN}],
    ids=["nothing", "without a prefix", "without the mechanism"],
)
def test_mechanism_without_its_login_module_is_refused(given: dict[str, str]) -> None:
    error = refusal({"sasl.enabled.mechanisms": "PLAIN", **given})
    assert error.name == f"{LISTENER}.plain.sasl.jaas.config"
    assert f'as {MODULES}.plain.PlainLoginModule required user_alice="' in error.message
    for name in given:
        assert f"({name} without this prefix has no effect)" in error.message


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"{PLAIN} {SCRAM}", "contains 2 login modules"),
        (PLAIN.removesuffix(";"), "not terminated by semi-colon"),
        (SCRAM, "ScramLoginModule is not supported for PLAIN"),
        ("com.sun.security.auth.module.JndiLoginModule required;", "JndiLoginModule is not"),
        ("org.example.Mine required;", "org.example.Mine is not supported"),
    ],
)
def test_login_module_that_cannot_be_used_is_refused(text: str, reason: str) -> None:
    name = f"{LISTENER}.plain.sasl.jaas.config"
    error = refusal({"sasl.enabled.mechanisms": "PLAIN", name: text})
    assert error.name == name
    assert reason in error.message


def test_class_that_would_check_passwords_is_refused() -> None:
    name = f"{LISTENER}.plain.sasl.server.callback.handler.class"
    error = refusal(
        {
            "sasl.enabled.mechanisms": "PLAIN",
            f"{LISTENER}.plain.sasl.jaas.config": PLAIN,
            name: "org.example.Check",
        }
    )
    assert error.name == name
    assert "cannot load Java classes" in error.message


def test_token_settings_are_those_of_the_mechanism() -> None:
    prefix = f"{LISTENER}.oauthbearer.sasl.oauthbearer"
    tokens = listener_of(
        {
            **TOKENS,
            f"{prefix}.expected.issuer": "https://issuer",
            f"{prefix}.expected.audience": "kafka,other",
            f"{prefix}.sub.claim.name": "email",
            "sasl.oauthbearer.scope.claim.name": "scp",
            "sasl.oauthbearer.clock.skew.seconds": "5",
        }
    ).tokens
    assert tokens is not None
    assert tokens.keys == "/etc/keys.json"
    rules = tokens.rules
    assert (rules.issuer, rules.audiences) == ("https://issuer", ("kafka", "other"))
    assert (rules.subject_claim, rules.scope_claim, rules.clock_skew_s) == ("email", "scp", 5)
    assert rules.required_claims == ("iat",)


@pytest.mark.parametrize("value", [None, "org.example.Handler"])
def test_tokens_without_the_validator_of_signatures_are_refused(value: str | None) -> None:
    name = f"{LISTENER}.oauthbearer.sasl.server.callback.handler.class"
    config = {key: text for key, text in TOKENS.items() if key != name}
    error = refusal(config if value is None else {**config, name: value})
    assert error.name == name
    assert "tokens without a signature" in error.message
    assert HANDLER in error.message


@pytest.mark.parametrize("value", [None, "http://issuer/keys", "/etc/keys.json"])
def test_tokens_without_a_place_of_keys_that_is_safe_are_refused(value: str | None) -> None:
    name = f"{LISTENER}.oauthbearer.sasl.oauthbearer.jwks.endpoint.url"
    config = {key: text for key, text in TOKENS.items() if key != name}
    error = refusal(config if value is None else {**config, name: value})
    assert error.name == name
    assert "file:///" in error.message

"""The settings of a listener that authenticates its clients with SASL.

They are checked at start: a listener that no client could pass, or that every client could pass,
stops the start with the property, its value and the remedy. Classes are names that are recognised;
none is loaded.
"""

from collections.abc import Callable, Mapping
from typing import Final, cast

import attrs

from barnabas.cluster.metadata.scram_credentials import SCRAM_BY_NAME
from barnabas.config import ConfigError, NodeConfig
from barnabas.config.listener_values import listener_property, listener_value
from barnabas.config.listeners import Listener
from barnabas.json_documents import DocumentError, check_address
from barnabas.kerberos.gssapi_library import EXTRA
from barnabas.kerberos.login_options import GSSAPI
from barnabas.kerberos.login_options import LOGIN_MODULE as KERBEROS_MODULE
from barnabas.security.jaas import JaasError, LoginModule, parse_jaas
from barnabas.security.sasl.kerberos_settings import (
    KerberosSettings,
    kerberos_settings,
    service_keys,
)
from barnabas.security.sasl.oauthbearer_mechanism import OAUTHBEARER
from barnabas.security.sasl.plain_mechanism import PLAIN, plain_users
from barnabas.security.token_validation import TokenRules

_SECURITY: Final = "org.apache.kafka.common.security"
LOGIN_MODULES: Final = {
    PLAIN: f"{_SECURITY}.plain.PlainLoginModule",
    **dict.fromkeys(SCRAM_BY_NAME, f"{_SECURITY}.scram.ScramLoginModule"),
    OAUTHBEARER: f"{_SECURITY}.oauthbearer.OAuthBearerLoginModule",
    GSSAPI: KERBEROS_MODULE,
}
_EXAMPLE_OPTIONS: Final = {
    PLAIN: ' user_alice="alice-secret"',
    GSSAPI: ' useKeyTab=true storeKey=true keyTab="/etc/kafka/kafka.keytab" '
    'principal="kafka/broker.example.org@EXAMPLE.ORG"',
}
_TOKEN_HANDLERS: Final = (
    f"{_SECURITY}.oauthbearer.OAuthBearerValidatorCallbackHandler",
    f"{_SECURITY}.oauthbearer.secured.OAuthBearerValidatorCallbackHandler",
)
_FILE: Final = "file:"

MECHANISMS: Final = tuple(LOGIN_MODULES)
_ENABLED: Final = "sasl.enabled.mechanisms"
_JAAS: Final = "sasl.jaas.config"
_HANDLER: Final = "sasl.server.callback.handler.class"
_MAX_REAUTH: Final = "connections.max.reauth.ms"
JWKS: Final = "sasl.oauthbearer.jwks.endpoint.url"


@attrs.frozen
class KeysAddress:
    """The address of the keys that sign tokens, and the times between fetches in seconds."""

    url: str
    interval_s: float
    backoff_s: float
    backoff_max_s: float


@attrs.frozen
class TokenSettings:
    """The keys that sign tokens, at an address or in a file, and what tokens must state."""

    keys: KeysAddress | str
    rules: TokenRules


@attrs.frozen
class SaslListener:
    """A listener's mechanisms, each with its `connections.max.reauth.ms`, and their settings."""

    name: str
    mechanisms: Mapping[str, int]
    plain_users: Mapping[str, str] = attrs.field(repr=False)
    tokens: TokenSettings | None = None
    kerberos: KerberosSettings | None = None


def sasl_listeners(config: NodeConfig) -> dict[str, SaslListener]:
    """Return the settings of the listeners with SASL, by name. Raises ConfigError."""
    return {
        listener.name: _sasl_listener(config, listener)
        for listener in config.listeners
        if listener.security_protocol.startswith("SASL_")
    }


def _sasl_listener(config: NodeConfig, listener: Listener) -> SaslListener:
    mechanisms = enabled_mechanisms(config, listener.name)
    modules = {each: login_module(config, listener.name, each) for each in mechanisms}
    reauth = {each: _max_reauth_ms(config, listener.name, each) for each in mechanisms}
    users = plain_users(modules[PLAIN].options) if PLAIN in modules else {}
    tokens = _token_settings(config, listener) if OAUTHBEARER in modules else None
    kerberos = None
    if GSSAPI in modules:
        kerberos = kerberos_settings(config, listener.name, modules[GSSAPI])
        service_keys(kerberos)
    for mechanism in mechanisms:
        if mechanism != OAUTHBEARER:
            _refuse_handler(config, listener, mechanism)
    return SaslListener(listener.name, reauth, users, tokens, kerberos)


def enabled_mechanisms(config: NodeConfig, listener: str) -> tuple[str, ...]:
    """Return the mechanisms that a listener accepts. Raises ConfigError."""
    name = listener_property(listener, _ENABLED)
    value = listener_value(config, listener, _ENABLED)
    name = name if config.is_set(name) else _ENABLED
    enabled = value if isinstance(value, tuple) else ()
    known = ", ".join(MECHANISMS)
    if not config.is_set(name) and not config.is_set(listener_property(listener, _JAAS, GSSAPI)):
        raise ConfigError(
            f"Missing configuration {_ENABLED}: listener {listener} would accept GSSAPI "
            f"(Kerberos), the default, which needs {EXTRA} and "
            f"{listener_property(listener, _JAAS, GSSAPI)}; set it to one or more of {known}",
            name=_ENABLED,
        )
    for mechanism in enabled:
        if mechanism not in MECHANISMS:
            raise ConfigError(
                f"Invalid value {mechanism} for configuration {name}: barnabas does not support "
                f"this mechanism; use {known}",
                name=name,
            )
    if not enabled:
        raise ConfigError(
            f"Invalid value for configuration {name}: listener {listener} has no mechanism; "
            f"set one or more of {known}",
            name=name,
        )
    return enabled


def login_module(config: NodeConfig, listener: str, mechanism: str) -> LoginModule:
    """Return the login module of a listener's mechanism; as in Kafka, each needs one.

    Raises ConfigError.
    """
    name = listener_property(listener, _JAAS, mechanism)
    expected = LOGIN_MODULES[mechanism]
    example = f"{expected} required{_EXAMPLE_OPTIONS.get(mechanism, '')};"
    if not config.is_set(name):
        others = (_JAAS, listener_property(listener, _JAAS))
        ignored = [each for each in others if config.is_set(each)]
        note = f" ({ignored[0]} without this prefix has no effect)" if ignored else ""
        raise ConfigError(
            f"Missing configuration {name}{note}: listener {listener} accepts {mechanism}; "
            f"set it, as {example}",
            name=name,
        )
    try:
        module = parse_jaas(str(config.get(name)))
    except JaasError as error:
        raise ConfigError(
            f"Invalid value [hidden] for configuration {name}: {error}; write it as {example}",
            name=name,
        ) from None
    if module.name != expected:
        raise ConfigError(
            f"Invalid value [hidden] for configuration {name}: the login module {module.name} is "
            f"not supported for {mechanism}; use {expected}",
            name=name,
        )
    return module


def _max_reauth_ms(config: NodeConfig, listener: str, mechanism: str) -> int:
    value = listener_value(config, listener, _MAX_REAUTH, mechanism)
    return value if isinstance(value, int) else 0


def _refuse_handler(config: NodeConfig, listener: Listener, mechanism: str) -> None:
    """Raise ConfigError for a class that would check the credentials of a mechanism."""
    name = listener_property(listener.name, _HANDLER, mechanism)
    if config.is_set(name):
        raise ConfigError(
            f"Invalid value {config.get(name)} for configuration {name}: barnabas cannot load Java "
            f"classes; remove the property: {mechanism} has its own check",
            name=name,
        )


def _token_settings(config: NodeConfig, listener: Listener) -> TokenSettings:
    def value(name: str) -> object:
        return listener_value(config, listener.name, name, OAUTHBEARER)

    handler, name = value(_HANDLER), listener_property(listener.name, _HANDLER, OAUTHBEARER)
    if handler not in _TOKEN_HANDLERS:
        given = "Missing" if handler is None else f"Invalid value {handler} for"
        raise ConfigError(
            f"{given} configuration {name}: without it Kafka accepts tokens without a signature, "
            f"and barnabas does not; set it to {_TOKEN_HANDLERS[0]}",
            name=name,
        )
    audiences = value("sasl.oauthbearer.expected.audience")
    issuer = value("sasl.oauthbearer.expected.issuer")
    skew_s = value("sasl.oauthbearer.clock.skew.seconds")
    rules = TokenRules(
        issuer=issuer if isinstance(issuer, str) else None,
        audiences=cast("tuple[str, ...]", audiences) if isinstance(audiences, tuple) else (),
        subject_claim=str(value("sasl.oauthbearer.sub.claim.name")),
        scope_claim=str(value("sasl.oauthbearer.scope.claim.name")),
        clock_skew_s=float(skew_s) if isinstance(skew_s, int) else 0.0,
        required_claims=("iat",),
    )
    return TokenSettings(_keys(listener, value), rules)


def _keys(listener: Listener, value: Callable[[str], object]) -> KeysAddress | str:
    """Return the address of the keys, or the path of their file. Raises ConfigError."""
    url, name = value(JWKS), listener_property(listener.name, JWKS, OAUTHBEARER)
    if not isinstance(url, str):
        raise ConfigError(
            f"Missing configuration {name}: the keys that sign tokens; set it to the issuer's "
            "address, as https://issuer.example.org/jwks.json, or to a file, as "
            "file:///etc/kafka/jwks.json",
            name=name,
        )
    if url.startswith(_FILE):
        return url.removeprefix(_FILE).removeprefix("//")
    try:
        check_address(url)
    except DocumentError as error:
        raise ConfigError(
            f"Invalid value {url} for configuration {name}: {error}; or use a file, as "
            "file:///etc/kafka/jwks.json",
            name=name,
        ) from None

    def seconds(each: str) -> float:
        found = value(f"sasl.oauthbearer.jwks.endpoint.{each}")
        return found / 1000 if isinstance(found, int) else 0.0

    return KeysAddress(
        url, seconds("refresh.ms"), seconds("retry.backoff.ms"), seconds("retry.backoff.max.ms")
    )

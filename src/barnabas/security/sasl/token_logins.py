"""The way to the token with which a node logs in at other nodes, from its configuration.

The properties are those of Kafka's `OAuthBearerLoginCallbackHandler`; each may have the prefix of a
listener and mechanism. Credentials in the login module, its older place, count where no property
has them.
"""

from barnabas.client.core.token_login import (
    CLIENT_ID,
    CLIENT_SECRET,
    HANDLER,
    HANDLERS,
    OPTIONS,
    SCOPE,
    URL,
    TokenLogin,
)
from barnabas.config import ConfigError, NodeConfig
from barnabas.config.listener_values import listener_property, listener_value
from barnabas.json_documents import DocumentError, check_address
from barnabas.security.sasl.oauthbearer_mechanism import OAUTHBEARER
from barnabas.security.sasl.sasl_settings import login_module


def token_login(config: NodeConfig, listener: str) -> tuple[TokenLogin, str]:
    """Return the way to a node's token for a listener, and the property of the address.

    Raises ConfigError.
    """
    _check_handler(config, listener)
    name = listener_property(listener, URL, OAUTHBEARER)
    url = listener_value(config, listener, URL, OAUTHBEARER)
    if not isinstance(url, str):
        raise ConfigError(
            f"Missing configuration {name}: this node logs in with a token at listener {listener} "
            "of other nodes; set it to the issuer's address, as "
            "https://issuer.example.org/token, or to a file that has a token, as "
            "file:///etc/kafka/token",
            name=name,
        )
    login = TokenLogin(url)
    if login.file is not None:
        return login, name
    try:
        check_address(url)
    except DocumentError as error:
        fault = f"Invalid value {url} for configuration {name}: {error}"
        raise ConfigError(fault, name=name) from None
    client_id, secret = (_needed(config, listener, each) for each in (CLIENT_ID, CLIENT_SECRET))
    return TokenLogin(url, client_id, secret, _given(config, listener, SCOPE)), name


def _check_handler(config: NodeConfig, listener: str) -> None:
    handler = listener_value(config, listener, HANDLER, OAUTHBEARER)
    if handler not in HANDLERS:
        name = listener_property(listener, HANDLER, OAUTHBEARER)
        given = "Missing" if handler is None else f"Invalid value {handler} for"
        raise ConfigError(
            f"{given} configuration {name}: without it Kafka's nodes log in with tokens that have "
            f"no signature, and barnabas refuses these; set it to {HANDLERS[0]}",
            name=name,
        )


def _needed(config: NodeConfig, listener: str, name: str) -> str:
    value = _given(config, listener, name)
    if value:
        return value
    missing = listener_property(listener, name, OAUTHBEARER)
    raise ConfigError(
        f"Missing configuration {missing}: the issuer of tokens asks for the node's client id and "
        "secret; set both",
        name=missing,
    )


def _given(config: NodeConfig, listener: str, name: str) -> str | None:
    value = listener_value(config, listener, name, OAUTHBEARER)
    if value is not None:
        return str(value)
    return login_module(config, listener, OAUTHBEARER).options.get(OPTIONS[name])

"""The way to the token with which a node logs in at other nodes, from its configuration.

The properties are those of Kafka's `OAuthBearerLoginCallbackHandler`; each may have the prefix of a
listener and mechanism. Credentials in the login module, its older place, count where no property
has them.
"""

from typing import Final

import attrs

from barnabas.config import ConfigError, NodeConfig
from barnabas.config.listener_values import listener_property, listener_value
from barnabas.json_documents import DocumentError, check_address
from barnabas.security.sasl.oauthbearer_mechanism import OAUTHBEARER
from barnabas.security.sasl.sasl_settings import login_module

_PACKAGE: Final = "org.apache.kafka.common.security.oauthbearer"
_HANDLERS: Final = (
    f"{_PACKAGE}.OAuthBearerLoginCallbackHandler",
    f"{_PACKAGE}.secured.OAuthBearerLoginCallbackHandler",
)
_HANDLER: Final = "sasl.login.callback.handler.class"
_URL: Final = "sasl.oauthbearer.token.endpoint.url"
_CLIENT_ID: Final = "sasl.oauthbearer.client.credentials.client.id"
_CLIENT_SECRET: Final = "sasl.oauthbearer.client.credentials.client.secret"
_SCOPE: Final = "sasl.oauthbearer.scope"
_FILE: Final = "file:"
_OPTIONS: Final = {_CLIENT_ID: "clientId", _CLIENT_SECRET: "clientSecret", _SCOPE: "scope"}


@attrs.frozen
class TokenLogin:
    """The address of tokens, and the client's credentials there; a file needs none."""

    url: str
    client_id: str = ""
    client_secret: str = attrs.field(default="", repr=False)
    scope: str | None = None

    @property
    def file(self) -> str | None:
        """The path of the file that has the token, None for an issuer."""
        if not self.url.startswith(_FILE):
            return None
        return self.url.removeprefix(_FILE).removeprefix("//")


def token_login(config: NodeConfig, listener: str) -> tuple[TokenLogin, str]:
    """Return the way to a node's token for a listener, and the property of the address.

    Raises ConfigError.
    """
    _check_handler(config, listener)
    name = listener_property(listener, _URL, OAUTHBEARER)
    url = listener_value(config, listener, _URL, OAUTHBEARER)
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
    client_id, secret = (_needed(config, listener, each) for each in (_CLIENT_ID, _CLIENT_SECRET))
    return TokenLogin(url, client_id, secret, _given(config, listener, _SCOPE)), name


def _check_handler(config: NodeConfig, listener: str) -> None:
    handler = listener_value(config, listener, _HANDLER, OAUTHBEARER)
    if handler not in _HANDLERS:
        name = listener_property(listener, _HANDLER, OAUTHBEARER)
        given = "Missing" if handler is None else f"Invalid value {handler} for"
        raise ConfigError(
            f"{given} configuration {name}: without it Kafka's nodes log in with tokens that have "
            f"no signature, and barnabas refuses these; set it to {_HANDLERS[0]}",
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
    return login_module(config, listener, OAUTHBEARER).options.get(_OPTIONS[name])

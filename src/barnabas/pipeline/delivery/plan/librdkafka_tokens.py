"""Tokens of OAUTHBEARER for librdkafka.

librdkafka gets the tokens of an issuer by itself. It reads no token from a file: a callback does
(`oauth_cb`), and confluent-kafka waits up to a second for its first answer when it makes a client.
"""

import time
from collections.abc import Mapping
from typing import Any, Final

import attrs

from barnabas.client.core.token_login import OAUTHBEARER, SCOPE, URL, TokenLogin
from barnabas.client.issued_tokens import issued_tokens

_CALLBACK: Final = "oauth_cb"
_METHOD: Final = "sasl.oauthbearer.method"
_OIDC: Final = "oidc"
_CLIENT_ID: Final = "sasl.oauthbearer.client.id"
_CLIENT_SECRET: Final = "sasl.oauthbearer.client.secret"
_UNKNOWN_LIFE_S: Final = 300.0


@attrs.frozen
class TokenCallback:
    """Returns the token of a file and its end, as `oauth_cb` does; Spark pickles it.

    Raises AuthenticationError.
    """

    login: TokenLogin

    def __call__(self, configuration: str) -> tuple[str, float]:
        """Return a token and its end in seconds since 1970."""
        token = issued_tokens(self.login).current()
        return token.text, token.ends_at_s or time.time() + _UNKNOWN_LIFE_S


def token_settings(login: TokenLogin) -> dict[str, Any]:
    """Return the properties of librdkafka with which a client logs in."""
    mechanism = {"sasl.mechanism": OAUTHBEARER}
    if login.file is not None:
        return {**mechanism, _CALLBACK: TokenCallback(login)}
    scope = {} if login.scope is None else {SCOPE: login.scope}
    return {
        **mechanism,
        **scope,
        _METHOD: _OIDC,
        URL: login.url,
        _CLIENT_ID: login.client_id,
        _CLIENT_SECRET: login.client_secret,
    }


def check_tokens(properties: Mapping[str, Any]) -> None:
    """Get a token for clients with properties of `token_settings`; others need none.

    Raises AuthenticationError with the reason. librdkafka would log it, and report a timeout.
    """
    callback = properties.get(_CALLBACK)
    if isinstance(callback, TokenCallback):
        issued_tokens(callback.login).token()
    elif properties.get(_METHOD) == _OIDC:
        url, client_id, secret = (properties[name] for name in (URL, _CLIENT_ID, _CLIENT_SECRET))
        issued_tokens(TokenLogin(url, client_id, secret, properties.get(SCOPE))).token()

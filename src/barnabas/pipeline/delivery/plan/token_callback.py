"""Tokens for librdkafka, which asks for one in a callback (`oauth_cb`).

The callback is a value that Spark pickles, so that tasks get their tokens by themselves.
"""

import time
from collections.abc import Mapping
from typing import Any, Final

import attrs

from barnabas.client.core.token_login import TokenLogin
from barnabas.client.issued_tokens import issued_tokens

PROPERTY: Final = "oauth_cb"
_UNKNOWN_LIFE_S: Final = 300.0


@attrs.frozen
class TokenCallback:
    """Returns a token and its end, as `oauth_cb` does. Raises AuthenticationError."""

    login: TokenLogin

    def __call__(self, configuration: str = "") -> tuple[str, float]:
        """Return a token and its end in seconds since 1970."""
        token = issued_tokens(self.login).current()
        return token.text, token.ends_at_s or time.time() + _UNKNOWN_LIFE_S


def check_tokens(properties: Mapping[str, Any]) -> None:
    """Get a token for clients with these properties of librdkafka, if they need one.

    Raises AuthenticationError with the reason: librdkafka says only that its callback failed.
    """
    callback = properties.get(PROPERTY)
    if isinstance(callback, TokenCallback):
        callback()

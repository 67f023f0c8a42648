"""SASL PLAIN (RFC 4616): user and password in one token."""

import hmac
from collections.abc import Mapping
from typing import Final

import attrs

from barnabas.security.sasl.sasl_mechanism import Identity, SaslFailure

PLAIN: Final = "PLAIN"
_PARTS: Final = 3
_USER_OPTION: Final = "user_"
# The password of unknown users; no client can send it, as a token has no fourth part.
_NO_PASSWORD: Final = b"\0"


def plain_users(options: Mapping[str, str]) -> dict[str, str]:
    """Return the users that the options of a PlainLoginModule define, with their passwords."""
    return {
        name.removeprefix(_USER_OPTION): password
        for name, password in options.items()
        if name.startswith(_USER_OPTION)
    }


@attrs.define
class PlainExchange:
    """One authentication with PLAIN; `users` maps names to passwords."""

    users: Mapping[str, str] = attrs.field(repr=False)
    identity: Identity | None = None

    def evaluate(self, token: bytes, now_ms: int) -> bytes:
        """Check user and password; return an empty token. Raises SaslFailure."""
        parts = token.decode(errors="replace").split("\0", _PARTS)
        if len(parts) != _PARTS:
            raise _failure(
                f"Invalid SASL/PLAIN response: expected {_PARTS} tokens, got {len(parts)}"
            )
        authorization_id, user, password = parts
        if not user:
            raise _failure("Authentication failed: username not specified")
        if not password:
            raise _failure("Authentication failed: password not specified")
        expected = self.users.get(user)
        wanted = _NO_PASSWORD if expected is None else expected.encode()
        if not hmac.compare_digest(password.encode(), wanted):
            raise _failure("Authentication failed: Invalid username or password")
        if authorization_id not in ("", user):
            raise _failure(
                "Authentication failed: Client requested an authorization id that is different "
                "from username"
            )
        self.identity = Identity(user)
        return b""


def _failure(message: str) -> SaslFailure:
    return SaslFailure(message, is_public=True)

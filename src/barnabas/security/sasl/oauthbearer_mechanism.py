"""SASL OAUTHBEARER (RFC 7628): a signed token that another service has issued."""

import re
from collections.abc import Callable
from typing import Final

import attrs

from barnabas.security.sasl.sasl_mechanism import Identity, SaslFailure
from barnabas.security.token_validation import TokenError, ValidToken

OAUTHBEARER: Final = "OAUTHBEARER"

ValidateToken = Callable[[str, int], ValidToken]
"""Validates a token at a time in milliseconds since the epoch. Raises TokenError."""

_NAME: Final = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_PAIR: Final = "[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01"
_RESPONSE: Final = re.compile(f"n,(?:a=(?P<authzid>{_NAME}))?,\x01(?P<pairs>(?:{_PAIR})*)\x01")
_AUTH: Final = re.compile(r"(?P<scheme>\w+) +(?P<token>[-_~+/.a-zA-Z0-9]+=*)", re.ASCII)
_INVALID_TOKEN: Final = '{"status":"invalid_token"}'
_ACKNOWLEDGED: Final = b"\x01"


@attrs.define
class OauthBearerExchange:
    """One authentication with OAUTHBEARER.

    An invalid token is answered with an error document; the client acknowledges it, and the
    exchange fails then.
    """

    validate: ValidateToken
    identity: Identity | None = None
    _error: str = ""

    def evaluate(self, token: bytes, now_ms: int) -> bytes:
        """Validate the client's token, or end an exchange that failed. Raises SaslFailure."""
        if self._error and token == _ACKNOWLEDGED:
            raise SaslFailure(self._error, is_public=True)
        self._error = ""
        authorization_id, bearer = _parse(token)
        try:
            valid = self.validate(bearer, now_ms)
        except TokenError:
            self._error = _INVALID_TOKEN
            return _INVALID_TOKEN.encode()
        if authorization_id not in ("", valid.subject):
            raise SaslFailure(
                f"Authentication failed: Client requested an authorization id ({authorization_id}) "
                f"that is different from the token's principal name ({valid.subject})",
                is_public=True,
            )
        self.identity = Identity(valid.subject, valid.expires_at_ms)
        return b""


def _parse(response: bytes) -> tuple[str, str]:
    """Return the authorization id and the token of a client's response. Raises SaslFailure."""
    found = _RESPONSE.fullmatch(response.decode(errors="replace"))
    if found is None:
        raise SaslFailure("Invalid OAUTHBEARER client first message")
    pairs = dict(pair.split("=", 1) for pair in found["pairs"].split("\x01") if pair)
    auth = pairs.get("auth")
    if auth is None:
        raise SaslFailure("Invalid OAUTHBEARER client first message: 'auth' not specified")
    parts = _AUTH.fullmatch(auth)
    if parts is None or parts["scheme"].lower() != "bearer":
        raise SaslFailure("Invalid OAUTHBEARER client first message: invalid 'auth' format")
    return found["authzid"] or "", parts["token"]

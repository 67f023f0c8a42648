"""The tokens with which a client or a node logs in by OAUTHBEARER: from an issuer, or from a file.

The issuer gives them for client credentials (RFC 6749, 4.4). A token is used until most of its life
is over, as in Kafka (`sasl.login.refresh.window.factor`); a file is read for each login.
"""

import base64
import functools
import json
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import attrs

from barnabas.client.core.token_login import URL, TokenLogin
from barnabas.client.failures import AuthenticationError
from barnabas.json_documents import DocumentError, post_form

_USED_SHARE: Final = 0.8
_LOGINS_MAX: Final = 100


@attrs.frozen
class IssuedToken:
    """A token, and its end in seconds since 1970; 0 when it is unknown."""

    text: str = attrs.field(repr=False)
    ends_at_s: float


class IssuedTokens:
    """The tokens of one login, for threads."""

    def __init__(self, login: TokenLogin) -> None:
        self._login = login
        self._lock = threading.Lock()
        self._token = IssuedToken("", 0.0)
        self._used_until_s = 0.0

    def token(self) -> str:
        """Return a token that is valid now. Raises AuthenticationError when there is none."""
        return self.current().text

    def current(self) -> IssuedToken:
        """Return a token that is valid now. Raises AuthenticationError when there is none."""
        if self._login.file is not None:
            return self._from_file(self._login.file)
        with self._lock:
            if time.time() >= self._used_until_s:
                self._fetch()
            return self._token

    def _from_file(self, file: str) -> IssuedToken:
        try:
            text = Path(file).read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise AuthenticationError(
                f"cannot read the token in {file}: {error}; set {URL} to a file that has a token"
            ) from None
        return IssuedToken(text, _ends_at_s(text))

    def _fetch(self) -> None:
        login = self._login
        form = {"grant_type": "client_credentials"}
        if login.scope is not None:
            form["scope"] = login.scope
        try:
            answer = post_form(login.url, form, login.client_id, login.client_secret)
        except DocumentError as error:
            raise self._failure(str(error)) from None
        token = answer.get("access_token")
        if not isinstance(token, str) or not token:
            raise self._failure("its answer lacks access_token")
        now_s = time.time()
        self._token = IssuedToken(token, _ends_at_s(token) or _lifetime_s(answer, now_s))
        self._used_until_s = now_s + max(self._token.ends_at_s - now_s, 0.0) * _USED_SHARE

    def _failure(self, reason: str) -> AuthenticationError:
        login = self._login
        return AuthenticationError(
            f"no token from {login.url}: {reason}; check {URL}, and the client id "
            f"{login.client_id} and its secret at the issuer"
        )


@functools.lru_cache(_LOGINS_MAX)
def issued_tokens(login: TokenLogin) -> IssuedTokens:
    """Return the tokens of a login, which all clients of this process share."""
    return IssuedTokens(login)


def _lifetime_s(answer: Mapping[str, object], now_s: float) -> float:
    """Return when a token ends by the issuer's answer; 0 for one that does not say it."""
    expires_in_s = answer.get("expires_in")
    return now_s + expires_in_s if isinstance(expires_in_s, int | float) else 0.0


def _ends_at_s(token: str) -> float:
    """Return when a token ends by its own claim; 0 for one that does not say it.

    The server verifies the token; the client only decides when it needs the next one.
    """
    _, _, rest = token.partition(".")
    claims = rest.partition(".")[0]
    try:
        found: object = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
    except ValueError:
        return 0.0
    ends_at_s: object = found.get("exp") if isinstance(found, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return float(ends_at_s) if isinstance(ends_at_s, int | float) else 0.0

"""The tokens with which a node logs in at others by OAUTHBEARER: from its issuer, or from a file.

The issuer gives them for client credentials (RFC 6749, 4.4). A token is used until most of its life
is over, as in Kafka (`sasl.login.refresh.window.factor`); a file is read for each login.
"""

import base64
import json
import threading
import time
from pathlib import Path
from typing import Final

from barnabas.client.failures import AuthenticationError
from barnabas.json_documents import DocumentError, post_form
from barnabas.security.sasl.token_logins import TokenLogin

_USED_SHARE: Final = 0.8


class IssuedTokens:
    """The tokens of one login, for threads."""

    def __init__(self, login: TokenLogin) -> None:
        self._login = login
        self._lock = threading.Lock()
        self._token = ""
        self._used_until_s = 0.0

    def token(self) -> str:
        """Return a token that is valid now. Raises AuthenticationError when there is none."""
        if self._login.file is not None:
            return self._from_file(self._login.file)
        with self._lock:
            if time.time() >= self._used_until_s:
                self._fetch()
            return self._token

    def _from_file(self, file: str) -> str:
        try:
            return Path(file).read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise AuthenticationError(f"cannot read the token in {file}: {error}") from None

    def _fetch(self) -> None:
        login = self._login
        form = {"grant_type": "client_credentials"}
        if login.scope is not None:
            form["scope"] = login.scope
        try:
            answer = post_form(login.url, form, login.client_id, login.client_secret)
        except DocumentError as error:
            raise AuthenticationError(f"no token from {login.url}: {error}") from None
        token = answer.get("access_token")
        if not isinstance(token, str) or not token:
            raise AuthenticationError(f"no token from {login.url}: its answer lacks access_token")
        now_s = time.time()
        self._used_until_s = now_s + max(_ends_at_s(token) - now_s, 0.0) * _USED_SHARE
        self._token = token


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

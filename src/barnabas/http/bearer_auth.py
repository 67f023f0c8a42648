"""Bearer authentication with signed tokens (JWT) of one issuer for one audience.

Keys come from a file or a URL that the configuration names, never from a token. A key id that is
unknown makes the keys load again, at most once a minute.
"""

import json
import logging
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import trio

from barnabas.config import ConfigError
from barnabas.http.authentication import AuthenticationFailedError
from barnabas.http.http_settings import BearerSettings
from barnabas.http.optional_packages import require

if TYPE_CHECKING:
    from joserfc.jwk import KeySet

logger = logging.getLogger(__name__)

# Signatures with public keys: a shared secret or no signature is never accepted.
_ALGORITHMS: Final = [
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
]
_TOKEN_CHARACTERS_MAX: Final = 16_384
_DOCUMENT_BYTES_MAX: Final = 1 << 20
_FETCH_TIMEOUT_S: Final = 10.0
_RELOAD_S: Final = 60.0
_LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")


class TokenValidator:
    """Validates tokens with a set of keys: pure, the time is an argument."""

    def __init__(self, settings: BearerSettings, keys: "KeySet") -> None:
        self._settings = settings
        self._keys = keys
        self._key_ids = {key.kid for key in keys.keys}

    def knows_key_of(self, token: str) -> bool:
        """Return False when the token names a key that is not in the set."""
        from joserfc import jws
        from joserfc.errors import JoseError

        try:
            key_id = jws.extract_compact(token.encode()).headers().get("kid")
        except (JoseError, ValueError):
            return True
        return key_id is None or key_id in self._key_ids

    def principal(self, token: str, now_s: float) -> str:
        """Return the principal of a valid token. Raises AuthenticationFailedError."""
        from joserfc import jwt
        from joserfc.errors import JoseError

        settings = self._settings
        if len(token) > _TOKEN_CHARACTERS_MAX:
            raise AuthenticationFailedError("the token is too long")
        claims_of_token = jwt.JWTClaimsRegistry(
            now=int(now_s),
            leeway=round(settings.clock_skew_s),
            iss={"essential": True, "value": settings.issuer},
            aud={"essential": True, "value": settings.audience},
            exp={"essential": True},
        )
        try:
            claims = jwt.decode(token, self._keys, algorithms=_ALGORITHMS).claims
            claims_of_token.validate(claims)
        except (JoseError, ValueError, TypeError, KeyError) as error:
            raise AuthenticationFailedError(f"invalid token: {type(error).__name__}") from None
        principal = claims.get(settings.principal_claim)
        if not isinstance(principal, str) or not principal:
            raise AuthenticationFailedError(f"the token has no claim {settings.principal_claim}")
        return principal


class BearerAuth:
    """Checks tokens, and keeps the issuer's keys up to date."""

    scheme = "bearer"
    challenge = 'Bearer realm="barnabas"'

    def __init__(self, settings: BearerSettings, validator: TokenValidator) -> None:
        self._settings = settings
        self._validator = validator
        self._loading = trio.Lock()
        self._loaded_at = trio.current_time()

    async def principal(self, credentials: str) -> str:
        """Return the token's principal. Raises AuthenticationFailedError."""
        if not self._validator.knows_key_of(credentials):
            await self._reload()
        return self._validator.principal(credentials, time.time())

    async def _reload(self) -> None:
        async with self._loading:
            if trio.current_time() - self._loaded_at < _RELOAD_S:
                return
            self._loaded_at = trio.current_time()
            try:
                self._validator = await load_validator(self._settings)
            except ConfigError as error:
                logger.warning("cannot reload token keys error=%s", error)


async def load_validator(settings: BearerSettings) -> TokenValidator:
    """Load the keys. Raises ConfigError when there are none."""
    require("bearer authentication")
    from joserfc.errors import JoseError
    from joserfc.jwk import KeySet

    document = await trio.to_thread.run_sync(_key_document, settings)
    try:
        keys = KeySet.import_key_set(document)  # pyright: ignore[reportArgumentType]
    except (JoseError, ValueError, TypeError, KeyError) as error:
        raise ConfigError(f"{settings.keys} has no usable key set: {error}") from None
    return TokenValidator(settings, keys)


def _key_document(settings: BearerSettings) -> dict[str, Any]:
    """Read the key set, by way of an OIDC configuration document when that is what is named."""
    document = _document(settings.keys)
    if "jwks_uri" not in document:
        return document
    if document.get("issuer") != settings.issuer:
        given = document.get("issuer")
        raise ConfigError(f"{settings.keys} has the issuer {given}, not {settings.issuer}")
    return _document(str(document["jwks_uri"]))


def _document(source: str) -> dict[str, Any]:
    try:
        data = _fetched(source) if "://" in source else Path(source).read_bytes()
        document: object = json.loads(data)
    except (OSError, ValueError, urllib.error.URLError) as error:
        raise ConfigError(f"Cannot read the token keys {source}: {error}") from None
    if not isinstance(document, Mapping):
        raise ConfigError(f"Cannot read the token keys {source}: not a JSON object")
    return dict(document)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def _fetched(url: str) -> bytes:
    parts = urlsplit(url)
    if parts.scheme != "https" and (parts.scheme != "http" or parts.hostname not in _LOOPBACK):
        raise ConfigError(f"Invalid value {url}: token keys come over https, or http on loopback")
    opener = urllib.request.build_opener(_NoRedirects)
    with opener.open(url, timeout=_FETCH_TIMEOUT_S) as response:
        return response.read(_DOCUMENT_BYTES_MAX)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: keys come from the configured place and from no other."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Return None, which makes the redirect an error."""

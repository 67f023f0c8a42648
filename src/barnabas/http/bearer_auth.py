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
from typing import Any, Final
from urllib.parse import urlsplit

import trio

from barnabas.config import ConfigError
from barnabas.http.authentication import AuthenticationFailedError
from barnabas.http.http_settings import BearerSettings
from barnabas.http.optional_packages import require
from barnabas.security.token_validation import TokenError, TokenRules, TokenValidator

logger = logging.getLogger(__name__)

_DOCUMENT_BYTES_MAX: Final = 1 << 20
_FETCH_TIMEOUT_S: Final = 10.0
_RELOAD_S: Final = 60.0
_LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")


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
        try:
            return self._validator.validate(credentials, time.time_ns() // 1_000_000).subject
        except TokenError as error:
            raise AuthenticationFailedError(str(error)) from None

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
    rules = TokenRules(
        issuer=settings.issuer,
        audiences=(settings.audience,),
        subject_claim=settings.principal_claim,
        clock_skew_s=settings.clock_skew_s,
    )
    return TokenValidator(rules, keys)


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

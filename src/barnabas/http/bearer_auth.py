"""Bearer authentication with signed tokens (JWT) of one issuer for one audience.

Keys come from a file or a URL that the configuration names, never from a token. A key id that is
unknown makes the keys load again, at most once a minute.
"""

import logging
import time
from pathlib import Path
from typing import Final

import trio

from barnabas.config import ConfigError
from barnabas.http.authentication import AuthenticationFailedError
from barnabas.http.http_settings import BearerSettings
from barnabas.http.optional_packages import require
from barnabas.json_documents import DocumentError, as_object, fetch_object
from barnabas.security.token_validation import (
    KeySetError,
    TokenError,
    TokenRules,
    TokenValidator,
)

logger = logging.getLogger(__name__)

_RELOAD_S: Final = 60.0


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
    document = await trio.to_thread.run_sync(_key_document, settings)
    rules = TokenRules(
        issuer=settings.issuer,
        audiences=(settings.audience,),
        subject_claim=settings.principal_claim,
        clock_skew_s=settings.clock_skew_s,
    )
    try:
        return TokenValidator.of_key_set(rules, document)
    except KeySetError as error:
        raise ConfigError(f"{settings.keys} has no usable key set: {error}") from None


def _key_document(settings: BearerSettings) -> dict[str, object]:
    """Read the key set, by way of an OIDC configuration document when that is what is named."""
    document = _document(settings.keys)
    if "jwks_uri" not in document:
        return document
    if document.get("issuer") != settings.issuer:
        given = document.get("issuer")
        raise ConfigError(f"{settings.keys} has the issuer {given}, not {settings.issuer}")
    return _document(str(document["jwks_uri"]))


def _document(source: str) -> dict[str, object]:
    try:
        return fetch_object(source) if "://" in source else as_object(Path(source).read_bytes())
    except (OSError, DocumentError) as error:
        raise ConfigError(f"Cannot read the token keys {source}: {error}") from None

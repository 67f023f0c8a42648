"""The keys of an issuer of tokens, in a file or at an address.

Keys in a file are read once. Those at an address are fetched again while the node runs; a login
never waits for the issuer, but is decided with the keys that are there. As in Kafka's
`RefreshingHttpsJwks`, the node does not start without keys, and a token with an unknown key makes
them be fetched again.
"""

import logging
from collections.abc import Mapping
from pathlib import Path

import trio

from barnabas.config import ConfigError
from barnabas.json_documents import DocumentError, as_object, fetch_object
from barnabas.security.sasl.sasl_settings import JWKS, KeysAddress, TokenSettings
from barnabas.security.token_validation import (
    KeySetError,
    TokenError,
    TokenRules,
    TokenValidator,
    ValidToken,
)

logger = logging.getLogger(__name__)


def token_keys(settings: TokenSettings) -> "TokenValidator | FetchedKeys":
    """Return what validates the tokens of a listener. Raises ConfigError."""
    if isinstance(settings.keys, KeysAddress):
        return FetchedKeys(settings.keys, settings.rules)
    try:
        document = as_object(Path(settings.keys).read_bytes())
    except (OSError, DocumentError) as error:
        raise _unusable(f"file:{settings.keys}", error) from None
    return _validator(f"file:{settings.keys}", document, settings.rules)


class FetchedKeys:
    """Validates tokens with the keys that `run` fetches."""

    def __init__(self, address: KeysAddress, rules: TokenRules) -> None:
        self._address = address
        self._rules = rules
        self._validator: TokenValidator | None = None
        self._is_wanted = trio.Event()
        self._fetched_at_s = 0.0  # the end of the last fetch

    def validate(self, token: str, now_ms: int) -> ValidToken:
        """Return what a valid token says, at a time in milliseconds. Raises TokenError."""
        validator = self._validator
        if validator is None:
            raise TokenError("the keys are not there yet")
        if not validator.knows_key_of(token):
            self._is_wanted.set()
        return validator.validate(token, now_ms)

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Fetch the keys, and again after each interval and for unknown keys, until cancelled.

        It has started when keys are there. Raises ConfigError when the first fetch fails.
        """
        self._validator = await self._fetch()
        task_status.started()
        while True:
            with trio.move_on_after(self._address.interval_s):
                await self._is_wanted.wait()
                # Clients that name unknown keys do not decide how often keys are fetched.
                await trio.sleep_until(self._fetched_at_s + self._address.backoff_max_s)
            await self._fetch_again()
            self._is_wanted = trio.Event()

    async def _fetch_again(self) -> None:
        """Replace the keys; while the issuer does not answer, the present ones stay."""
        backoff_s = self._address.backoff_s
        has_failed = False
        while True:
            try:
                self._validator = await self._fetch()
            except ConfigError as error:
                if not has_failed:
                    logger.warning(
                        "cannot refresh the keys that sign tokens, using those that are there"
                        " url=%s error=%s",
                        self._address.url,
                        error,
                    )
                has_failed = True
                await trio.sleep(backoff_s)
                backoff_s = min(2 * backoff_s, self._address.backoff_max_s)
            else:
                if has_failed:
                    logger.info("refreshed the keys that sign tokens url=%s", self._address.url)
                return

    async def _fetch(self) -> TokenValidator:
        """Return a validator with the keys at the address. Raises ConfigError."""
        url = self._address.url
        try:
            document = await trio.to_thread.run_sync(fetch_object, url, abandon_on_cancel=True)
        except DocumentError as error:
            raise _unusable(url, error) from None
        finally:
            self._fetched_at_s = trio.current_time()
        return _validator(url, document, self._rules)


def _validator(source: str, document: Mapping[str, object], rules: TokenRules) -> TokenValidator:
    """Return the validator with the keys of a document. Raises ConfigError."""
    try:
        return TokenValidator.of_key_set(rules, document)
    except ImportError:
        raise ConfigError(
            "OAUTHBEARER needs the package joserfc: install barnabas[oauth]",
            name="sasl.enabled.mechanisms",
        ) from None
    except KeySetError as error:
        raise _unusable(source, error) from None


def _unusable(value: str, error: Exception) -> ConfigError:
    return ConfigError(
        f"Invalid value {value} for configuration {JWKS}: there is no usable set of keys (JWKS): "
        f"{error}",
        name=JWKS,
    )

"""Basic authentication against an htpasswd file with bcrypt hashes (`htpasswd -B`).

The file is read at start-up. A bcrypt check takes tens of milliseconds of CPU, so it runs in a
thread, two at a time at most, and credentials that passed are remembered for a while under a keyed
hash.
"""

from pathlib import Path
from typing import Final

import trio

from barnabas.config import ConfigError
from barnabas.http.authentication import AuthenticationFailedError, parse_basic
from barnabas.http.optional_packages import require
from barnabas.http.remembered_credentials import RememberedCredentials

_BCRYPT_PREFIXES: Final = ("$2a$", "$2b$", "$2y$")
_REMEMBERED_S: Final = 300.0
_CHECKS_AT_ONCE: Final = 2
_BCRYPT_BYTES_MAX: Final = 72
# A hash of a random password: users that do not exist take as long as those that do.
_NO_USER_HASH: Final = b"$2b$10$N9qo8uLOickgx2ZMRZoMyeIjZAgcfl7p92ldGxad68LJZdL17lhWy"


def read_password_file(path: Path) -> dict[str, bytes]:
    """Return the bcrypt hashes of a file by user. Raises ConfigError."""
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"Cannot read the password file {path}: {error}") from None
    hashes: dict[str, bytes] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        user, colon, hashed = line.strip().partition(":")
        if not colon or not user or not hashed.startswith(_BCRYPT_PREFIXES):
            raise ConfigError(
                f"{path}:{number} is not USER:BCRYPT_HASH; htpasswd -B writes such lines"
            )
        hashes[user] = hashed.encode()
    return hashes


class BasicAuth:
    """Checks user and password."""

    scheme = "basic"
    challenge = 'Basic realm="barnabas", charset="UTF-8"'

    def __init__(self, hashes: dict[str, bytes]) -> None:
        require("basic authentication")
        self._hashes = hashes
        self._remembered = RememberedCredentials(_REMEMBERED_S)
        self._limiter = trio.CapacityLimiter(_CHECKS_AT_ONCE)

    async def principal(self, credentials: str) -> str:
        """Return the user's name. Raises AuthenticationFailedError."""
        user, password = parse_basic(credentials)
        if self._remembered.has(user, password):
            return user
        hashed = self._hashes.get(user)
        matches = await trio.to_thread.run_sync(
            _matches, password.encode(), hashed or _NO_USER_HASH, limiter=self._limiter
        )
        if hashed is None or not matches:
            raise AuthenticationFailedError("wrong user or password")
        self._remembered.add(user, password)
        return user


def _matches(password: bytes, hashed: bytes) -> bool:
    import bcrypt

    # htpasswd cuts longer passwords too; bcrypt refuses them.
    return bcrypt.checkpw(password[:_BCRYPT_BYTES_MAX], hashed)

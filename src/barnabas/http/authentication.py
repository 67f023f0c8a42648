"""Authentication of requests: the principal that basic or bearer credentials prove."""

import base64
import binascii
from typing import Final, Protocol

from barnabas.http.asgi import Scope, header

ANONYMOUS: Final = "ANONYMOUS"
_PRINCIPAL: Final = "barnabas.principal"


class AuthenticationFailedError(Exception):
    """The request's credentials are missing or wrong: status 401."""


class AccessUnavailableError(Exception):
    """The credentials or the rights of a caller cannot be checked now: status 503."""


class Credentials(Protocol):
    """Checks the credentials of one scheme."""

    scheme: str
    """The scheme's name in lower case, as in the Authorization header."""
    challenge: str
    """The value of WWW-Authenticate."""

    async def principal(self, credentials: str) -> str:
        """Return the principal's name.

        Raises AuthenticationFailedError or AccessUnavailableError.
        """
        ...


class Authentication:
    """Accepts the credentials of several schemes."""

    def __init__(self, schemes: list[Credentials]) -> None:
        self._schemes = {scheme.scheme: scheme for scheme in schemes}

    @property
    def challenges(self) -> list[tuple[bytes, bytes]]:
        """Return the headers of a 401 response."""
        return [
            (b"www-authenticate", scheme.challenge.encode()) for scheme in self._schemes.values()
        ]

    async def authenticate(self, scope: Scope) -> None:
        """Note the request's principal in its scope.

        Raises AuthenticationFailedError or AccessUnavailableError.
        """
        value = header(scope, b"authorization")
        if value is None:
            raise AuthenticationFailedError("credentials are required")
        name, _, credentials = value.decode("latin-1").partition(" ")
        scheme = self._schemes.get(name.lower())
        if scheme is None:
            raise AuthenticationFailedError("this kind of credentials is not accepted")
        scope[_PRINCIPAL] = await scheme.principal(credentials.strip())


def principal_of(scope: Scope) -> str:
    """Return the name of the principal that sent a request, `ANONYMOUS` without credentials."""
    return scope.get(_PRINCIPAL, ANONYMOUS)


def parse_basic(credentials: str) -> tuple[str, str]:
    """Return user and password of basic credentials. Raises AuthenticationFailedError."""
    try:
        text = base64.b64decode(credentials, validate=True).decode()
    except (binascii.Error, ValueError):
        raise AuthenticationFailedError("malformed credentials") from None
    user, colon, password = text.partition(":")
    if not colon:
        raise AuthenticationFailedError("malformed credentials")
    return user, password

"""The client's side of SASL: tokens in and out.

PLAIN (RFC 4616), SCRAM (RFC 5802, RFC 7677) and OAUTHBEARER (RFC 7628).

Each exchange makes its first token, then answers the server's until `respond` returns None. The
nonce comes from the caller. SCRAM's key derivation takes milliseconds of CPU: the caller may run
`respond` in a thread.
"""

import base64
import binascii
import hashlib
import hmac
from typing import Final, Protocol

from barnabas.client.failures import AuthenticationError

_ITERATIONS_MIN: Final = 4096
_ITERATIONS_MAX: Final = 1_000_000
_GS2_HEADER: Final = "n,,"
_CHANNEL_BINDING: Final = base64.b64encode(_GS2_HEADER.encode()).decode()
_HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}

MECHANISMS: Final = ("PLAIN", *_HASHES)


class SaslExchange(Protocol):
    """One authentication."""

    def first(self) -> bytes:
        """Return the first token to send."""
        ...

    def respond(self, challenge: bytes) -> bytes | None:
        """Return the answer to the server's token, None when the exchange is complete.

        Raises AuthenticationError when the server's token is wrong.
        """
        ...


def start_exchange(
    mechanism: str, username: str, password: str, nonce: str, *, is_token: bool = False
) -> SaslExchange:
    """Return a new exchange of one of `MECHANISMS`.

    With `is_token`, which needs SCRAM, the user name is the id of a delegation token, and the
    password its HMAC in base64.
    """
    if mechanism == "PLAIN":
        return PlainExchange(username, password)
    return ScramExchange(_HASHES[mechanism], username, password, nonce, is_token=is_token)


class PlainExchange:
    """User name and password in one token."""

    def __init__(self, username: str, password: str) -> None:
        self._token = f"\0{username}\0{password}".encode()

    def first(self) -> bytes:
        """Return the only token."""
        return self._token

    def respond(self, challenge: bytes) -> bytes | None:
        """Return None: the server's answer is empty."""
        return None


class BearerExchange:
    """A signed token of an issuer."""

    def __init__(self, token: str) -> None:
        self._token = token

    def first(self) -> bytes:
        """Return the token in its message."""
        return f"n,,\x01auth=Bearer {self._token}\x01\x01".encode()

    def respond(self, challenge: bytes) -> bytes | None:
        """Return None after success. The server answers a refused token with a document first."""
        return b"\x01" if challenge else None


class ScramExchange:
    """Proof of the password without sending it; the server proves that it knows it too."""

    def __init__(
        self,
        algorithm: str,
        username: str,
        password: str,
        nonce: str,
        *,
        is_token: bool = False,
    ) -> None:
        self._algorithm = algorithm
        self._password = password.encode()
        self._nonce = nonce
        name = username.replace("=", "=3D").replace(",", "=2C")
        extension = ",tokenauth=true" if is_token else ""
        self._client_first_bare = f"n={name},r={nonce}{extension}"
        self._server_signature: bytes | None = None

    def first(self) -> bytes:
        """Return the client-first-message."""
        return (_GS2_HEADER + self._client_first_bare).encode()

    def respond(self, challenge: bytes) -> bytes | None:
        """Answer the server-first-message, then check the server-final-message."""
        fields = _parse(challenge)
        if self._server_signature is None:
            return self._client_final(challenge, fields)
        if "e" in fields:
            raise AuthenticationError(f"SCRAM authentication failed: {fields['e']}")
        if not hmac.compare_digest(_decode(fields.get("v", "")), self._server_signature):
            raise AuthenticationError("the broker did not prove that it knows the password")
        return None

    def _client_final(self, challenge: bytes, fields: dict[str, str]) -> bytes:
        nonce, salt = fields.get("r", ""), _decode(fields.get("s", ""))
        iterations = int(fields["i"]) if fields.get("i", "").isdecimal() else 0
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise AuthenticationError("the broker's SCRAM nonce does not extend the client's")
        if not salt or not _ITERATIONS_MIN <= iterations <= _ITERATIONS_MAX:
            raise AuthenticationError(f"the broker asks for {iterations} SCRAM iterations")
        salted = hashlib.pbkdf2_hmac(self._algorithm, self._password, salt, iterations)
        without_proof = f"c={_CHANNEL_BINDING},r={nonce}"
        signed = f"{self._client_first_bare},{challenge.decode()},{without_proof}".encode()
        client_key = self._hmac(salted, b"Client Key")
        stored_key = hashlib.new(self._algorithm, client_key).digest()
        signature = self._hmac(stored_key, signed)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self._server_signature = self._hmac(self._hmac(salted, b"Server Key"), signed)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.new(key, message, self._algorithm).digest()


def _parse(token: bytes) -> dict[str, str]:
    try:
        text = token.decode()
    except UnicodeDecodeError:
        raise AuthenticationError("the broker's SCRAM token is not UTF-8") from None
    fields = dict(part.split("=", 1) for part in text.split(",") if "=" in part)
    if not fields:
        raise AuthenticationError("the broker's SCRAM token has no fields")
    return fields


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise AuthenticationError("the broker's SCRAM token is not base64") from None

"""SASL SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677), with Kafka's checks.

A user without a credential gets a salt too, and fails at the end as for a wrong password: the steps
and their lengths do not show which users exist. Kafka fails at the first message. The same holds
for delegation tokens: with the extension `tokenauth`, the user name is the id of a token and the
client becomes the token's owner.
"""

import hmac
from collections.abc import Callable
from functools import partial
from typing import Final

import attrs

from barnabas.cluster.metadata.scram_credentials import (
    ITERATIONS_MIN,
    ScramCredential,
    ScramMechanism,
)
from barnabas.security.sasl.sasl_mechanism import Identity, SaslFailure, WorkNeeded
from barnabas.security.sasl.token_credentials import TokenLogin
from barnabas.security.scram_messages import (
    ClientFinal,
    ClientFirst,
    ScramFormatError,
    server_final,
    server_first,
)

FindCredential = Callable[[str], ScramCredential | None]
"""Returns the credential of a user for the mechanism of the exchange."""
FindToken = Callable[[ScramMechanism, str, bytes], TokenLogin | None]
"""Returns the login of a mechanism, the id of a token, and the salt of a new credential."""

# Kafka's tools make salts of 130 random bits as text in this base.
_SALT_BITS: Final = 130
_SALT_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"


@attrs.define
class ScramExchange:
    """One authentication with SCRAM.

    `server_nonce` is fresh and random. `mock_key` is a secret of the node, from which unknown users
    get the same salt each time. Without `find_token` every delegation token is unknown.
    """

    mechanism: ScramMechanism
    find: FindCredential
    server_nonce: str
    mock_key: bytes = attrs.field(repr=False)
    find_token: FindToken | None = None
    identity: Identity | None = None
    _proved: Identity | None = None
    _first: ClientFirst | None = None
    _server_first: str = ""
    _credential: ScramCredential | None = attrs.field(default=None, repr=False)
    _is_known: bool = False

    def evaluate(self, token: bytes, now_ms: int) -> bytes:
        """Answer the client's first or final message. Raises SaslFailure and WorkNeeded."""
        try:
            if self._first is None:
                return self._answer_first(ClientFirst.parse(token))
            return self._answer_final(self._first, ClientFinal.parse(token))
        except ScramFormatError as error:
            raise SaslFailure(str(error)) from None

    def _answer_first(self, first: ClientFirst) -> bytes:
        if first.authorization_id not in ("", first.user):
            raise SaslFailure(
                "Authentication failed: Client requested an authorization id that is different "
                "from username",
                is_public=True,
            )
        shown = f"tokenauth {first.user}" if first.is_token else first.user
        mock = mock_credential(self.mechanism, self.mock_key, shown)
        if first.is_token:
            found = self._find_token(first.user, mock.salt)
        else:
            found, self._proved = self.find(first.user), Identity(first.user)
        self._is_known = found is not None and found.iterations >= ITERATIONS_MIN
        self._credential = found if found is not None and self._is_known else mock
        self._first = first
        self._server_first = server_first(
            first.nonce + self.server_nonce, self._credential.salt, self._credential.iterations
        )
        return self._server_first.encode()

    def _find_token(self, token_id: str, salt: bytes) -> ScramCredential | None:
        """Return the credential of a token. Raises WorkNeeded when it is not derived yet."""
        login = self.find_token and self.find_token(self.mechanism, token_id, salt)
        if login is None:
            return None
        if login.credential is None:
            raise WorkNeeded(partial(_derived, login))
        self._proved = Identity(login.owner, login.expires_at_ms, token_authenticated=True)
        return login.credential

    def _answer_final(self, first: ClientFirst, final: ClientFinal) -> bytes:
        credential = self._credential
        if credential is None or self.identity is not None:
            raise SaslFailure("the exchange is complete")
        if not hmac.compare_digest(final.nonce, first.nonce + self.server_nonce):
            raise SaslFailure("Invalid client nonce in the final client message.")
        if final.channel_binding != first.gs2_header.encode():
            raise SaslFailure("the channel binding is not the header of the first message")
        mechanism = self.mechanism
        signed = f"{first.bare},{self._server_first},{final.signed}".encode()
        signature = mechanism.hmac(credential.stored_key, signed)
        is_proved = len(final.proof) == len(signature)
        client_key = bytes(a ^ b for a, b in zip(signature, final.proof, strict=False))
        is_proved &= hmac.compare_digest(mechanism.hash(client_key), credential.stored_key)
        if not (is_proved and self._is_known):
            raise SaslFailure("Invalid client credentials")
        self.identity = self._proved
        return server_final(mechanism.hmac(credential.server_key, signed))


def _derived(login: TokenLogin) -> Callable[[], None]:
    """Derive the credential of a token; return what keeps it."""
    return partial(login.keep, login.derive())


def mock_credential(mechanism: ScramMechanism, key: bytes, user: str) -> ScramCredential:
    """Return the credential shown for a user that does not exist; no password fits it."""
    seed = mechanism.hmac(key, f"{mechanism.name} salt {user}".encode())
    number = int.from_bytes(seed, "big") & ((1 << _SALT_BITS) - 1)
    return ScramCredential(
        salt=_in_base_36(number).encode(),
        stored_key=mechanism.hmac(key, f"{mechanism.name} stored {user}".encode()),
        server_key=mechanism.hmac(key, f"{mechanism.name} server {user}".encode()),
        iterations=ITERATIONS_MIN,
    )


def _in_base_36(number: int) -> str:
    digits = ""
    while number:
        number, digit = divmod(number, len(_SALT_DIGITS))
        digits = _SALT_DIGITS[digit] + digits
    return digits or "0"

"""The SCRAM credentials of delegation tokens: the password of a token is its HMAC in base64.

Apache Kafka derives the credentials of each token when it is created, on every node. Here one is
derived when a client first authenticates with the token, and kept.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import attrs

from barnabas.cluster.metadata.delegation_tokens import DelegationToken, password_of, token_hmac
from barnabas.cluster.metadata.scram_credentials import (
    ITERATIONS_MIN,
    ScramCredential,
    ScramMechanism,
)
from barnabas.security.principals import Principal

CREDENTIALS_MAX: Final = 10_000
"""How many credentials are kept; the oldest goes first, and is derived again when it is used."""


@attrs.frozen
class TokenLogin:
    """A delegation token with which a client authenticates.

    `owner` is the name of the user that the client becomes. Without a `credential`, `derive` makes
    it, which takes milliseconds of CPU, and `keep` keeps it for the next call.
    """

    owner: str
    expires_at_ms: int
    credential: ScramCredential | None = attrs.field(repr=False)
    derive: Callable[[], ScramCredential] = attrs.field(repr=False)
    keep: Callable[[ScramCredential], None] = attrs.field(repr=False)


class TokenCredentials:
    """The credentials of the tokens that `tokens` returns, by id, under the cluster's secret."""

    def __init__(
        self,
        tokens: Callable[[], Mapping[str, DelegationToken]],
        secret: str,
        *,
        capacity: int = CREDENTIALS_MAX,
    ) -> None:
        self._tokens = tokens
        self._secret = secret
        self._capacity = capacity
        self._kept: dict[tuple[str, str], ScramCredential] = {}

    def find(self, mechanism: ScramMechanism, token_id: str, salt: bytes) -> TokenLogin | None:
        """Return what a client authenticates with; None when there is no such token.

        A credential that is derived has the `salt`.
        """
        token = self._tokens().get(token_id)
        if token is None:
            return None
        key = mechanism.name, token_id
        return TokenLogin(
            owner=Principal.parse(token.owner).name,
            expires_at_ms=token.expiry_timestamp_ms,
            credential=self._kept.get(key),
            derive=partial(_derived, mechanism, self._secret, token_id, salt),
            keep=partial(self._keep, key),
        )

    def _keep(self, key: tuple[str, str], credential: ScramCredential) -> None:
        self._kept[key] = credential
        if len(self._kept) > self._capacity:
            del self._kept[next(iter(self._kept))]


def _derived(mechanism: ScramMechanism, secret: str, token_id: str, salt: bytes) -> ScramCredential:
    password = password_of(token_hmac(secret, token_id))
    salted = mechanism.salted_password(password, salt, ITERATIONS_MIN)
    return mechanism.credential(salt, salted, ITERATIONS_MIN)

"""Delegation tokens: who owns each, until when it is valid, and the HMAC that proves it (KIP-48).

The log has no HMAC: each node computes it from the id of a token and the cluster's secret,
`delegation.token.secret.key`. Principals are texts, such as `User:alice`.
"""

import base64
import hmac
from collections.abc import Mapping
from typing import Final

import attrs

from barnabas.protocol.records.metadata_records import DelegationTokenRecord

SECRET_KEY: Final = "delegation.token.secret.key"
"""The property with the secret; without it, or with an empty one, there are no tokens."""


@attrs.frozen(slots=True)
class DelegationToken:
    """A delegation token without its id. Times are in milliseconds since the epoch."""

    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_timestamp_ms: int
    max_timestamp_ms: int
    """Until then the token can be renewed."""
    expiry_timestamp_ms: int

    @classmethod
    def of(cls, record: DelegationTokenRecord) -> "DelegationToken":
        """Return the token in a record."""
        return cls(
            owner=record.owner,
            requester=record.requester,
            renewers=tuple(record.renewers),
            issue_timestamp_ms=record.issue_timestamp,
            max_timestamp_ms=record.max_timestamp,
            expiry_timestamp_ms=record.expiration_timestamp,
        )

    def record(self, token_id: str) -> DelegationTokenRecord:
        """Return the record that sets the token."""
        return DelegationTokenRecord(
            owner=self.owner,
            requester=self.requester,
            renewers=list(self.renewers),
            issue_timestamp=self.issue_timestamp_ms,
            max_timestamp=self.max_timestamp_ms,
            expiration_timestamp=self.expiry_timestamp_ms,
            token_id=token_id,
        )

    def is_expired(self, now_ms: int) -> bool:
        """True when the token is no longer valid."""
        return min(self.max_timestamp_ms, self.expiry_timestamp_ms) < now_ms

    def belongs_to(self, principal: str) -> bool:
        """True when a principal is the owner or a renewer."""
        return principal == self.owner or principal in self.renewers


def token_hmac(secret: str, token_id: str) -> bytes:
    """Return the HMAC that proves a token, 64 bytes."""
    return hmac.digest(secret.encode(), token_id.encode(), "sha512")


def password_of(proof: bytes) -> str:
    """Return the password with which a client authenticates, from the HMAC of its token."""
    return base64.b64encode(proof).decode()


class TokenProofs:
    """Finds tokens by their HMAC. The HMAC of each token is computed once."""

    def __init__(self) -> None:
        self._ids: dict[bytes, str] = {}

    def find(self, tokens: Mapping[str, DelegationToken], secret: str, proof: bytes) -> str | None:
        """Return the id of the token that an HMAC proves, or None."""
        if proof not in self._ids:
            known = {token_id: each for each, token_id in self._ids.items()}
            self._ids = {
                known.get(token_id) or token_hmac(secret, token_id): token_id for token_id in tokens
            }
        found = self._ids.get(proof)
        return found if found in tokens else None

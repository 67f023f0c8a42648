"""SCRAM credentials of users, and the keys that they hold (RFC 5802).

The log and the image have the salt, the iterations and two keys: with them a server checks a proof
and proves itself, but cannot authenticate as the user.
"""

import hashlib
import hmac
from collections.abc import Iterator, Mapping
from typing import Final

import attrs

from barnabas.protocol.records.metadata_records import UserScramCredentialRecord

ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 16_384


@attrs.frozen
class ScramMechanism:
    """A SCRAM mechanism: its name, its code in messages and records, its hash."""

    name: str
    code: int
    hash_name: str

    def hmac(self, key: bytes, message: bytes) -> bytes:
        """Return the HMAC of a message."""
        return hmac.digest(key, message, self.hash_name)

    def hash(self, data: bytes) -> bytes:
        """Return the hash of bytes."""
        return hashlib.new(self.hash_name, data).digest()

    def salted_password(self, password: str, salt: bytes, iterations: int) -> bytes:
        """Return the salted password; takes milliseconds of CPU. As in Kafka, without SASLprep."""
        return hashlib.pbkdf2_hmac(self.hash_name, password.encode(), salt, iterations)

    def credential(self, salt: bytes, salted_password: bytes, iterations: int) -> "ScramCredential":
        """Return the credential that a salted password makes."""
        return ScramCredential(
            salt=salt,
            stored_key=self.hash(self.hmac(salted_password, b"Client Key")),
            server_key=self.hmac(salted_password, b"Server Key"),
            iterations=iterations,
        )


SCRAM_MECHANISMS: Final = (
    ScramMechanism("SCRAM-SHA-256", 1, "sha256"),
    ScramMechanism("SCRAM-SHA-512", 2, "sha512"),
)
SCRAM_BY_NAME: Final = {mechanism.name: mechanism for mechanism in SCRAM_MECHANISMS}
SCRAM_BY_CODE: Final = {mechanism.code: mechanism for mechanism in SCRAM_MECHANISMS}


@attrs.frozen(slots=True)
class ScramCredential:
    """The credential of one user for one mechanism."""

    salt: bytes = attrs.field(repr=False)
    stored_key: bytes = attrs.field(repr=False)
    server_key: bytes = attrs.field(repr=False)
    iterations: int

    @classmethod
    def of(cls, record: UserScramCredentialRecord) -> "ScramCredential":
        """Return the credential in a record."""
        return cls(
            bytes(record.salt),
            bytes(record.stored_key),
            bytes(record.server_key),
            record.iterations,
        )

    def record(self, user: str, mechanism_code: int) -> UserScramCredentialRecord:
        """Return the record that sets the credential."""
        return UserScramCredentialRecord(
            name=user,
            mechanism=mechanism_code,
            salt=self.salt,
            stored_key=self.stored_key,
            server_key=self.server_key,
            iterations=self.iterations,
        )


ScramKey = tuple[str, int]
"""A user and the code of a mechanism."""


def credentials_of_user(
    credentials: Mapping[ScramKey, ScramCredential], user: str
) -> Iterator[tuple[int, ScramCredential]]:
    """Yield a user's credentials, each with the code of its mechanism."""
    for mechanism in SCRAM_MECHANISMS:
        credential = credentials.get((user, mechanism.code))
        if credential is not None:
            yield mechanism.code, credential

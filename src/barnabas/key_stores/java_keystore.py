"""Java's own key store format, JKS: certificates, and keys under Sun's protection.

The integrity of a store is a SHA-1 over the password, a phrase and the contents. A key is encrypted
with a stream of SHA-1 digests of the password and a salt (`sun.security.provider.KeyProtector`).
"""

import hashlib
import hmac
from struct import Struct
from typing import Final

import attrs

from barnabas.key_stores.der import SEQUENCE, elements, only

MAGIC: Final = bytes.fromhex("feedfeed")
JCEKS_MAGIC: Final = bytes.fromhex("cececece")
_PHRASE: Final = b"Mighty Aphrodite"
_DIGEST_BYTES: Final = 20
_HEAD: Final = Struct(">4sII")
_INT: Final = Struct(">I")
_SHORT: Final = Struct(">H")
_KEY, _CERTIFICATE = 1, 2


class WrongPasswordError(ValueError):
    """The password does not open the store, or a key in it."""


@attrs.frozen
class JavaKeyStore:
    """The contents of a store, in the order of its entries."""

    keys: list[tuple[bytes, list[bytes]]]
    """Private keys, for `recover_key`, and their certificate chains in DER."""
    trusted: list[bytes]
    """Trusted certificates in DER."""


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def take(self, size: int) -> bytes:
        end = self._position + size
        if end > len(self._data):
            raise ValueError("the store ends within an entry")
        taken = self._data[self._position : end]
        self._position = end
        return taken

    def number(self) -> int:
        return _INT.unpack(self.take(4))[0]

    def text(self) -> bytes:
        return self.take(_SHORT.unpack(self.take(2))[0])

    def certificate(self, version: int) -> bytes:
        if version == 2:
            self.text()  # the type of the certificate: X.509
        return self.take(self.number())


def read_java_keystore(data: bytes, password: str | None) -> JavaKeyStore:
    """Return the contents of a JKS store; without a password, its integrity is not checked.

    Raises WrongPasswordError, and ValueError when the data is malformed.
    """
    body, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if password is not None:
        expected = hashlib.sha1(_secret(password) + _PHRASE + body).digest()
        if not hmac.compare_digest(expected, digest):
            raise WrongPasswordError("the password is wrong, or the store was changed")
    reader = _Reader(body)
    magic, version, count = _HEAD.unpack(reader.take(_HEAD.size))
    if magic != MAGIC or version not in (1, 2):
        raise ValueError("the data is not a JKS store")
    store = JavaKeyStore([], [])
    for _ in range(count):
        _read_entry(reader, version, store)
    return store


def _read_entry(reader: _Reader, version: int, store: JavaKeyStore) -> None:
    kind = reader.number()
    reader.text()  # the alias
    reader.take(8)  # the time of its creation
    if kind == _CERTIFICATE:
        store.trusted.append(reader.certificate(version))
    elif kind == _KEY:
        protected = reader.take(reader.number())
        chain = [reader.certificate(version) for _ in range(reader.number())]
        store.keys.append((protected, chain))
    else:
        raise ValueError(f"an entry of a JKS store has the unknown type {kind}")


def recover_key(protected: bytes, password: str) -> bytes:
    """Return a private key in PKCS#8. Raises WrongPasswordError, and ValueError."""
    _, encrypted = elements(only(protected, SEQUENCE))
    data, secret = encrypted.contents, _secret(password)
    digest = data[:_DIGEST_BYTES]
    coded, check = data[_DIGEST_BYTES:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    plain = bytearray()
    for start in range(0, len(coded), _DIGEST_BYTES):
        digest = hashlib.sha1(secret + digest).digest()
        piece = coded[start : start + _DIGEST_BYTES]
        plain += bytes(a ^ b for a, b in zip(piece, digest, strict=False))
    if not hmac.compare_digest(hashlib.sha1(secret + plain).digest(), check):
        raise WrongPasswordError("the password of the key is wrong")
    return bytes(plain)


def _secret(password: str) -> bytes:
    return password.encode("utf-16-be")

"""Key stores and trust stores as PEM, from PEM, PKCS12 and JKS.

A store's format is found by its first bytes: Java opens a PKCS12 file under the type JKS, too.
`cryptography` is imported for PKCS12 only.
"""

import base64
import re
from typing import Final

import attrs

from barnabas.key_stores.java_keystore import (
    JCEKS_MAGIC,
    MAGIC,
    WrongPasswordError,
    read_java_keystore,
    recover_key,
)

_BLOCK: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----\s.*?-----END \1-----", re.DOTALL)
_SEQUENCE: Final = 0x30


@attrs.frozen
class KeyMaterial:
    """A private key and its certificate chain as PEM, and the password that opens the key."""

    key: str = attrs.field(repr=False)
    chain: str
    password: str | None = attrs.field(default=None, repr=False)


def pem_blocks(text: str) -> list[tuple[str, str]]:
    """Return the blocks of a PEM text, each with its label."""
    return [(found[1], found[0]) for found in _BLOCK.finditer(text)]


def first_certificate(chain: str) -> bytes:
    """Return the first certificate of a PEM chain in DER. Raises ValueError when there is none."""
    for label, block in pem_blocks(chain):
        if label == "CERTIFICATE":
            return base64.b64decode("".join(block.splitlines()[1:-1]))
    raise ValueError("it has no certificate")


def key_of_pem(text: str, password: str | None) -> KeyMaterial:
    """Return the key and chain of a PEM text. Raises ValueError when one is missing."""
    blocks = pem_blocks(text)
    key = next((block for label, block in blocks if label.endswith("PRIVATE KEY")), None)
    chain = [block for label, block in blocks if label == "CERTIFICATE"]
    if key is None:
        raise ValueError("it has no private key")
    if not chain:
        raise ValueError("it has no certificate")
    return KeyMaterial(key, "\n".join(chain) + "\n", password)


def key_of_store(data: bytes, password: str | None, key_password: str | None) -> KeyMaterial:
    """Return the key and chain of a PKCS12 or JKS store.

    Raises WrongPasswordError, and ValueError when the store cannot be used.
    """
    if data.startswith(MAGIC):
        keys = read_java_keystore(data, password).keys
        if not keys:
            raise ValueError("it has no private key")
        protected, chain = keys[0]
        key = recover_key(protected, key_password or password or "")
        return KeyMaterial(
            _pem("PRIVATE KEY", key), "".join(_pem("CERTIFICATE", each) for each in chain)
        )
    key_pem, chain = _read_pkcs12(data, password)
    if key_pem is None or not chain:
        raise ValueError("it has no private key")
    return KeyMaterial(key_pem, "".join(chain))


def trust_of_pem(text: str) -> str:
    """Return the certificates of a PEM text. Raises ValueError when there are none."""
    found = [block for label, block in pem_blocks(text) if label == "CERTIFICATE"]
    if not found:
        raise ValueError("it has no certificate")
    return "\n".join(found) + "\n"


def trust_of_store(data: bytes, password: str | None) -> str:
    """Return the trusted certificates of a PKCS12 or JKS store as PEM.

    Raises WrongPasswordError, and ValueError when the store cannot be used.
    """
    if data.startswith(MAGIC):
        found = [_pem("CERTIFICATE", each) for each in read_java_keystore(data, password).trusted]
    else:
        _, found = _read_pkcs12(data, password)
    if not found:
        raise ValueError("it has no certificate")
    return "".join(found)


def _read_pkcs12(data: bytes, password: str | None) -> tuple[str | None, list[str]]:
    """Return the key, if there is one, and the certificates of a PKCS12 store, as PEM."""
    if data.startswith(JCEKS_MAGIC):
        raise ValueError("it is a JCEKS store; convert it with keytool to PKCS12")
    if not data or data[0] != _SEQUENCE:
        raise ValueError("it is neither a PKCS12 nor a JKS store")
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError:
        raise ValueError(
            "a PKCS12 store needs the package cryptography: pip install 'barnabas[tls]'"
        ) from None
    try:
        store = pkcs12.load_pkcs12(data, None if password is None else password.encode())
    except ValueError as error:
        raise WrongPasswordError(str(error)) from None
    certificates = [each.certificate for each in store.additional_certs]
    key = None
    if store.key is not None and store.cert is not None:
        certificates.insert(0, store.cert.certificate)
        key = store.key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ).decode()
    elif store.cert is not None:
        certificates.insert(0, store.cert.certificate)
    return key, [each.public_bytes(serialization.Encoding.PEM).decode() for each in certificates]


def _pem(label: str, der: bytes) -> str:
    text = base64.b64encode(der).decode()
    lines = [text[start : start + 64] for start in range(0, len(text), 64)]
    return "\n".join([f"-----BEGIN {label}-----", *lines, f"-----END {label}-----", ""])

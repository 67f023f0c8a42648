"""Java's key stores and trust stores among the properties of a client: PKCS12 and JKS.

A store is read when a connection needs it, or for a client that reads PEM only. Each error names
the property, the file and the remedy.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

import attrs

from barnabas.config import ConfigError
from barnabas.key_stores.java_keystore import MAGIC, WrongPasswordError
from barnabas.key_stores.stores import KeyMaterial, key_of_store, trust_of_store

JKS: Final = "JKS"
PKCS12: Final = "PKCS12"
PEM: Final = "PEM"
KINDS: Final = (JKS, PKCS12, PEM)
_SEQUENCE: Final = b"\x30"
_BYTES_MAX: Final = 16 << 20
_T = TypeVar("_T")


@attrs.frozen
class JavaStore:
    """A file in PKCS12 or JKS. The property of its path is `ssl.{side}.location`."""

    side: str
    """keystore or truststore."""
    location: str
    kind: str
    password: str | None = attrs.field(default=None, repr=False)
    key_password: str | None = attrs.field(default=None, repr=False)

    def key(self) -> KeyMaterial:
        """Return the key and its certificate chain as PEM. Raises ConfigError."""
        return self._read(
            lambda data: key_of_store(data, self.password, self.key_password),
            "set it to a key store with a private key and its certificate",
        )

    def trusted(self) -> str:
        """Return the trusted certificates as PEM. Raises ConfigError."""
        return self._read(
            lambda data: trust_of_store(data, self.password),
            "set it to a trust store with the certificate of the brokers' authority",
        )

    def _read(self, parse: Callable[[bytes], _T], remedy: str) -> _T:
        name = f"ssl.{self.side}.location"
        start = f"Invalid value {self.location} for {name}"
        try:
            with Path(self.location).open("rb") as file:
                return parse(file.read(_BYTES_MAX))
        except OSError as error:
            raise ConfigError(
                f"{start}: {error.strerror}; set it to a file that this process can read"
            ) from None
        except WrongPasswordError as error:
            raise ConfigError(f"{start}: {self._password_fault(error)}") from None
        except ValueError as error:
            raise ConfigError(
                f"{start}: {error}; {remedy}, or set ssl.{self.side}.type=PEM for a PEM file"
            ) from None

    def _password_fault(self, error: WrongPasswordError) -> str:
        password = f"ssl.{self.side}.password"
        if self.password is None:
            return f"it needs a password; set {password}"
        if "of the key" in str(error):
            return f"{error}; set ssl.key.password, where it differs from {password}"
        return f"its password is not the one in {password}, or the file is damaged; correct one"


def kind_of(location: str, given: str | None) -> str:
    """Return the format of a store: the given one, or else what its first bytes say.

    A file that cannot be read has the format that its name says.
    """
    if given is not None:
        return given
    try:
        with Path(location).open("rb") as file:
            start = file.read(len(MAGIC))
    except OSError:
        suffix = Path(location).suffix.lower()
        return {".jks": JKS, ".p12": PKCS12, ".pfx": PKCS12}.get(suffix, PEM)
    if start == MAGIC:
        return JKS
    return PKCS12 if start[:1] == _SEQUENCE else PEM

"""The package `gssapi`, as far as barnabas uses it.

It is an extra, so type checks must pass without it.
"""

import importlib
from collections.abc import Callable, Mapping
from typing import Final, Protocol, cast

EXTRA: Final = "pip install 'barnabas[kerberos]'"


class GssapiMissingError(Exception):
    """The package, or the C library below it, is not installed."""


class GssName(Protocol):
    """A name of the library; `str` shows it."""

    def canonicalize(self, mech: object) -> "GssName":
        """Return the name as a mechanism writes it."""
        ...


class GssCredentials(Protocol):
    """Keys, or tickets."""

    @property
    def lifetime(self) -> int | None:
        """The seconds until the end."""
        ...


class Message(Protocol):
    """The result of `wrap` and `unwrap`."""

    @property
    def message(self) -> bytes:
        """The bytes."""
        ...


class GssContext(Protocol):
    """One authentication."""

    @property
    def complete(self) -> bool:
        """True when both sides have proved who they are."""
        ...

    @property
    def initiator_name(self) -> GssName:
        """The client."""
        ...

    def step(self, token: bytes | None = None) -> bytes | None:
        """Take the other side's token; return the next one."""
        ...

    def wrap(self, message: bytes, encrypt: bool) -> Message:
        """Protect a message."""
        ...

    def unwrap(self, message: bytes) -> Message:
        """Check and open a message."""
        ...


class Flag(Protocol):
    """A flag of a context; `|` joins two."""

    def __or__(self, other: "Flag") -> "Flag": ...


class _Flags(Protocol):
    mutual_authentication: Flag
    integrity: Flag


class _NameTypes(Protocol):
    hostbased_service: object
    kerberos_principal: object


class _Mechanisms(Protocol):
    kerberos: object


class _Exceptions(Protocol):
    GSSError: type[Exception]


class Library(Protocol):
    """The package."""

    Name: Callable[[str, object], GssName]
    NameType: _NameTypes
    MechType: _Mechanisms
    RequirementFlag: _Flags
    exceptions: _Exceptions

    def Credentials(  # noqa: N802 - the library's name
        self,
        *,
        name: GssName | None,
        usage: str,
        mechs: list[object],
        store: Mapping[str, str] | None,
    ) -> GssCredentials:
        """Acquire credentials."""
        ...

    def SecurityContext(  # noqa: N802 - the library's name
        self,
        *,
        creds: GssCredentials,
        usage: str,
        name: GssName | None = None,
        mech: object = None,
        flags: Flag | None = None,
    ) -> GssContext:
        """Begin an authentication."""
        ...


def gssapi() -> Library:
    """Return the package. Raises GssapiMissingError."""
    try:
        found: object = importlib.import_module("gssapi")
    except (ImportError, OSError) as error:
        raise GssapiMissingError(
            f"GSSAPI (Kerberos) needs the package gssapi and the system's Kerberos library "
            f"({error}): {EXTRA}; building it needs a C compiler and libkrb5-dev"
        ) from None
    return cast("Library", found)

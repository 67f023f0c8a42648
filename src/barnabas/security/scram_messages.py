"""The messages of SCRAM (RFC 5802) as Kafka's `ScramMessages` reads them.

Channel binding is not supported: the GS2 header starts with `n`. User names are not prepared
(SASLprep), as in Kafka.
"""

import base64
import binascii
import re
from typing import Final

import attrs

_VALUE: Final = r"[\x01-\x2b\x2d-\x7f]+"
_PRINTABLE: Final = r"[\x21-\x2b\x2d-\x7e]+"
_NAME: Final = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_BASE64: Final = r"(?:[a-zA-Z0-9/+]{4})*(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?"
_EXTENSIONS: Final = rf"(?:,[A-Za-z]+={_VALUE})*"
_CLIENT_FIRST: Final = re.compile(
    rf"(?P<gs2>n,(?:a=(?P<authzid>{_NAME}))?,)(?P<bare>(?:m={_VALUE},)?"
    rf"n=(?P<name>{_NAME}),r=(?P<nonce>{_PRINTABLE})(?P<extensions>{_EXTENSIONS}))"
)
_CLIENT_FINAL: Final = re.compile(
    rf"(?P<signed>c=(?P<channel>{_BASE64}),r=(?P<nonce>{_PRINTABLE}){_EXTENSIONS}),"
    rf"p=(?P<proof>{_BASE64})"
)


class ScramFormatError(Exception):
    """Bytes that are not a SCRAM message."""


@attrs.frozen
class ClientFirst:
    """The client's first message; `bare` is the part that both sides sign."""

    gs2_header: str
    authorization_id: str
    user: str
    nonce: str
    is_token: bool
    bare: str

    @classmethod
    def parse(cls, token: bytes) -> "ClientFirst":
        """Read a message. Raises ScramFormatError."""
        found = _CLIENT_FIRST.fullmatch(_text(token))
        if found is None:
            raise ScramFormatError("Invalid SCRAM client first message format")
        extensions = dict(part.split("=", 1) for part in found["extensions"].split(",") if part)
        return cls(
            gs2_header=found["gs2"],
            authorization_id=found["authzid"] or "",
            user=found["name"].replace("=2C", ",").replace("=3D", "="),
            nonce=found["nonce"],
            is_token=extensions.get("tokenauth", "").lower() == "true",
            bare=found["bare"],
        )


@attrs.frozen
class ClientFinal:
    """The client's final message; `signed` is the message without the proof."""

    channel_binding: bytes
    nonce: str
    proof: bytes = attrs.field(repr=False)
    signed: str

    @classmethod
    def parse(cls, token: bytes) -> "ClientFinal":
        """Read a message. Raises ScramFormatError."""
        found = _CLIENT_FINAL.fullmatch(_text(token))
        if found is None:
            raise ScramFormatError("Invalid SCRAM client final message format")
        return cls(
            channel_binding=_decoded(found["channel"]),
            nonce=found["nonce"],
            proof=_decoded(found["proof"]),
            signed=found["signed"],
        )


def server_first(nonce: str, salt: bytes, iterations: int) -> str:
    """Return the server's first message."""
    return f"r={nonce},s={base64.b64encode(salt).decode()},i={iterations}"


def server_final(signature: bytes) -> bytes:
    """Return the server's final message."""
    return b"v=" + base64.b64encode(signature)


def _text(token: bytes) -> str:
    return token.decode(errors="replace")


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text)
    except (binascii.Error, ValueError):
        raise ScramFormatError("a SCRAM message has invalid base64") from None

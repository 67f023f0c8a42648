"""SaslAuthenticate: carry the tokens of a SASL exchange."""

from __future__ import annotations

from barnabas.protocol.fields import binary, int16, int64, string
from barnabas.protocol.messages_base import Message


class SaslAuthenticateRequest(Message, api="SaslAuthenticate"):
    """The client's next token."""

    auth_bytes: bytes = binary(secret=True)


class SaslAuthenticateResponse(Message, api="SaslAuthenticate"):
    """The server's next token, or the reason why authentication failed."""

    error_code: int = int16()
    error_message: str | None = string(nullable=True)
    auth_bytes: bytes = binary(secret=True)
    session_lifetime_ms: int = int64(versions="1+", ignorable=True)

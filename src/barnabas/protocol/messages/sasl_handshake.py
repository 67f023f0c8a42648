"""SaslHandshake."""

from __future__ import annotations

from barnabas.protocol.fields import Kind, array, int16, string
from barnabas.protocol.messages_base import Message


class SaslHandshakeRequest(Message, api_key=17, versions="0-1"):
    """The sasl handshake request."""

    mechanism: str = string()


class SaslHandshakeResponse(Message, api_key=17, versions="0-1"):
    """The sasl handshake response."""

    error_code: int = int16()
    mechanisms: list[str] = array(Kind.STRING)

"""SaslHandshake: agree on a SASL mechanism."""

from __future__ import annotations

from barnabas.protocol.fields import Kind, array, int16, string
from barnabas.protocol.messages_base import Message


class SaslHandshakeRequest(Message, api_key=17, versions="0-1"):
    """Name the client's mechanism."""

    mechanism: str = string()


class SaslHandshakeResponse(Message, api_key=17, versions="0-1"):
    """Accept the mechanism, or list the enabled ones."""

    error_code: int = int16()
    mechanisms: list[str] = array(Kind.STRING)

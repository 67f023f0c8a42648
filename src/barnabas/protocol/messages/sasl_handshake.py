"""SaslHandshake: agree on a SASL mechanism."""

from __future__ import annotations

from barnabas.protocol.fields import Kind, array, int16, string
from barnabas.protocol.messages_base import Message


class SaslHandshakeRequest(Message, api="SaslHandshake"):
    """The client's mechanism."""

    mechanism: str = string()


class SaslHandshakeResponse(Message, api="SaslHandshake"):
    """The result, with the enabled mechanisms."""

    error_code: int = int16()
    mechanisms: list[str] = array(Kind.STRING)

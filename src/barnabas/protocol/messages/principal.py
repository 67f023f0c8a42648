"""The principal of a request that a broker forwards."""

from __future__ import annotations

from barnabas.protocol.fields import boolean, string
from barnabas.protocol.messages_base import Message


class DefaultPrincipalData(Message, versions="0", flexible="0+"):
    """A principal inside an Envelope, from a broker to the controller."""

    type: str = string()
    name: str = string()
    token_authenticated: bool = boolean()

"""P"""

from __future__ import annotations

from barnabas.protocol.fields import boolean, string
from barnabas.protocol.messages_base import Message


class DefaultPrincipalData(Message, versions="0", flexible="0+"):
    """The default principal data."""

    type: str = string()
    name: str = string()
    token_authenticated: bool = boolean()

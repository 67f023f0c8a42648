"""The headers of requests and responses, as declarations.

`barnabas.protocol.framing` reads and writes them by hand; a test holds the two equal.
"""

from __future__ import annotations

from barnabas.protocol.fields import int16, int32, string
from barnabas.protocol.messages_base import Message


class RequestHeader(Message, versions="1-2", flexible="2+"):
    """The header of every request."""

    request_api_key: int = int16()
    request_api_version: int = int16()
    correlation_id: int = int32()
    client_id: str | None = string(nullable=True, flexible=False)


class ResponseHeader(Message, versions="0-1", flexible="1+"):
    """The header of every response."""

    correlation_id: int = int32()

"""Envelope: a broker forwards a client's request to the controller."""

from __future__ import annotations

from barnabas.protocol.fields import binary, int16
from barnabas.protocol.messages_base import Message


class EnvelopeRequest(Message, api="Envelope"):
    """A request with the principal and address of its client."""

    request_data: bytes = binary()
    request_principal: bytes | None = binary(nullable=True)
    client_host_address: bytes = binary()


class EnvelopeResponse(Message, api="Envelope"):
    """The controller's response to the request in the envelope."""

    response_data: bytes | None = binary(nullable=True, default=None)
    error_code: int = int16()

"""UnregisterBroker: remove a broker's registration."""

from __future__ import annotations

from barnabas.protocol.fields import int16, int32, string
from barnabas.protocol.messages_base import Message


class UnregisterBrokerRequest(Message, api="UnregisterBroker"):
    """The broker."""

    broker_id: int = int32()


class UnregisterBrokerResponse(Message, api="UnregisterBroker"):
    """The result: whether the broker was unregistered."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True)

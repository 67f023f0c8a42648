"""PushTelemetry: push client metrics (KIP-714)."""

from __future__ import annotations

from barnabas.protocol.fields import binary, boolean, int8, int16, int32, uuid
from barnabas.protocol.messages_base import Message
from barnabas.protocol.types import Uuid


class PushTelemetryRequest(Message, api="PushTelemetry"):
    """Compressed metrics in OpenTelemetry's format."""

    client_instance_id: Uuid = uuid()
    subscription_id: int = int32()
    terminating: bool = boolean()
    compression_type: int = int8()
    metrics: bytes = binary()


class PushTelemetryResponse(Message, api="PushTelemetry"):
    """The result: whether the metrics were accepted."""

    throttle_time_ms: int = int32()
    error_code: int = int16()

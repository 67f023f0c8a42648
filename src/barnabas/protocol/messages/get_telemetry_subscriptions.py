"""GetTelemetrySubscriptions: request the cluster's client metrics subscriptions (KIP-714)."""

from __future__ import annotations

from barnabas.protocol.fields import Kind, array, boolean, int16, int32, uuid
from barnabas.protocol.messages_base import Message
from barnabas.protocol.types import Uuid


class GetTelemetrySubscriptionsRequest(Message, api="GetTelemetrySubscriptions"):
    """The client instance; the zero id requests a new one."""

    client_instance_id: Uuid = uuid()


class GetTelemetrySubscriptionsResponse(Message, api="GetTelemetrySubscriptions"):
    """The metrics to push, how often, and their compression types."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    client_instance_id: Uuid = uuid()
    subscription_id: int = int32()
    accepted_compression_types: list[int] = array(Kind.INT8)
    push_interval_ms: int = int32()
    telemetry_max_bytes: int = int32()
    delta_temporality: bool = boolean()
    requested_metrics: list[str] = array(Kind.STRING)

"""BrokerHeartbeat: a broker's heartbeat to the controller."""

from __future__ import annotations

from barnabas.protocol.fields import Kind, array, boolean, int16, int32, int64
from barnabas.protocol.messages_base import Message
from barnabas.protocol.types import Uuid


class BrokerHeartbeatRequest(Message, api="BrokerHeartbeat"):
    """The metadata offset that the broker has applied, and the state that it requests."""

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    current_metadata_offset: int = int64()
    want_fence: bool = boolean()
    want_shut_down: bool = boolean()
    offline_log_dirs: list[Uuid] = array(Kind.UUID, versions="1+", tag=0)
    cordoned_log_dirs: list[Uuid] | None = array(
        Kind.UUID, versions="2+", nullable=True, default=None, tag=1
    )


class BrokerHeartbeatResponse(Message, api="BrokerHeartbeat"):
    """The result: whether the broker is fenced, caught up, and may shut down."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    is_caught_up: bool = boolean()
    is_fenced: bool = boolean(default=True)
    should_shut_down: bool = boolean()

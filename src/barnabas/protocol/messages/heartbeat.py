"""Heartbeat: keep a member of a classic group alive."""

from __future__ import annotations

from barnabas.protocol.fields import int16, int32, string
from barnabas.protocol.messages_base import Message


class HeartbeatRequest(Message, api="Heartbeat"):
    """The member and its generation."""

    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string(versions="3+", nullable=True, default=None)


class HeartbeatResponse(Message, api="Heartbeat"):
    """The result, which says whether the group rebalances."""

    throttle_time_ms: int = int32(versions="1+", ignorable=True)
    error_code: int = int16()

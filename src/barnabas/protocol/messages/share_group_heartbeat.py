"""ShareGroupHeartbeat: membership in a share group (KIP-932)."""

from __future__ import annotations

from barnabas.protocol.fields import Kind, array, int16, int32, string, struct, uuid
from barnabas.protocol.messages_base import Message, Struct
from barnabas.protocol.types import Uuid


class ShareGroupHeartbeatRequest(Message, api="ShareGroupHeartbeat"):
    """A member that joins, stays or leaves, with the changes of its subscription."""

    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    rack_id: str | None = string(nullable=True, default=None)
    subscribed_topic_names: list[str] | None = array(Kind.STRING, nullable=True, default=None)


class ShareGroupHeartbeatResponse(Message, api="ShareGroupHeartbeat"):
    """The member epoch and, when it changed, the assignment."""

    class TopicPartitions(Struct):
        topic_id: Uuid = uuid()
        partitions: list[int] = array(Kind.INT32)

    class Assignment(Struct):
        topic_partitions: list[ShareGroupHeartbeatResponse.TopicPartitions] = array(
            "TopicPartitions"
        )

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    member_id: str | None = string(nullable=True, default=None)
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: ShareGroupHeartbeatResponse.Assignment | None = struct(
        "Assignment", nullable=True, default=None
    )

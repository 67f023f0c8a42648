"""ConsumerGroupHeartbeat: membership in a group of the consumer protocol (KIP-848)."""

from __future__ import annotations

from barnabas.protocol.fields import Kind, array, int16, int32, string, struct, uuid
from barnabas.protocol.messages_base import Message, Struct
from barnabas.protocol.types import Uuid


class ConsumerGroupHeartbeatRequest(Message, api="ConsumerGroupHeartbeat"):
    """A member that joins, stays or leaves, with the changes of its subscription and partitions."""

    class TopicPartitions(Struct):
        topic_id: Uuid = uuid()
        partitions: list[int] = array(Kind.INT32)

    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    instance_id: str | None = string(nullable=True, default=None)
    rack_id: str | None = string(nullable=True, default=None)
    rebalance_timeout_ms: int = int32(default=-1)
    subscribed_topic_names: list[str] | None = array(Kind.STRING, nullable=True, default=None)
    subscribed_topic_regex: str | None = string(versions="1+", nullable=True, default=None)
    server_assignor: str | None = string(nullable=True, default=None)
    topic_partitions: list[ConsumerGroupHeartbeatRequest.TopicPartitions] | None = array(
        "TopicPartitions", nullable=True, default=None
    )


class ConsumerGroupHeartbeatResponse(Message, api="ConsumerGroupHeartbeat"):
    """The member epoch and, when it changed, the assignment."""

    class TopicPartitions(Struct):
        topic_id: Uuid = uuid()
        partitions: list[int] = array(Kind.INT32)

    class Assignment(Struct):
        topic_partitions: list[ConsumerGroupHeartbeatResponse.TopicPartitions] = array(
            "TopicPartitions"
        )

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    member_id: str | None = string(nullable=True, default=None)
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: ConsumerGroupHeartbeatResponse.Assignment | None = struct(
        "Assignment", nullable=True, default=None
    )

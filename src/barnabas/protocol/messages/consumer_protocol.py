"""The subscription and assignment of consumers inside JoinGroup and SyncGroup.

Each starts with its version, an int16 that is not part of the message.
"""

from __future__ import annotations

from barnabas.protocol.fields import Kind, array, binary, int32, string
from barnabas.protocol.messages_base import Message, Struct


class ConsumerProtocolSubscription(Message, versions="0-3"):
    """The subscription of a member of a classic group: topics and owned partitions."""

    class TopicPartition(Struct):
        topic: str = string()
        partitions: list[int] = array(Kind.INT32)

    topics: list[str] = array(Kind.STRING)
    user_data: bytes | None = binary(nullable=True, default=None)
    owned_partitions: list[ConsumerProtocolSubscription.TopicPartition] = array(
        "TopicPartition", versions="1+", ignorable=True
    )
    generation_id: int = int32(versions="2+", default=-1, ignorable=True)
    rack_id: str | None = string(versions="3+", nullable=True, default=None, ignorable=True)


class ConsumerProtocolAssignment(Message, versions="0-3"):
    """The assignment of a member of a classic group: partitions."""

    class TopicPartition(Struct):
        topic: str = string()
        partitions: list[int] = array(Kind.INT32)

    assigned_partitions: list[ConsumerProtocolAssignment.TopicPartition] = array("TopicPartition")
    user_data: bytes | None = binary(nullable=True, default=None)

"""AlterPartitionReassignments: start and cancel reassignments of partitions."""

from __future__ import annotations

from barnabas.protocol.fields import Kind, array, boolean, int16, int32, string
from barnabas.protocol.messages_base import Message, Struct


class AlterPartitionReassignmentsRequest(Message, api="AlterPartitionReassignments"):
    """The new replicas of each partition; null cancels a reassignment."""

    class ReassignablePartition(Struct):
        partition_index: int = int32()
        replicas: list[int] | None = array(Kind.INT32, nullable=True, default=None)

    class ReassignableTopic(Struct):
        name: str = string()
        partitions: list[AlterPartitionReassignmentsRequest.ReassignablePartition] = array(
            "ReassignablePartition"
        )

    timeout_ms: int = int32(default=60000)
    allow_replication_factor_change: bool = boolean(versions="1+", default=True)
    topics: list[AlterPartitionReassignmentsRequest.ReassignableTopic] = array("ReassignableTopic")


class AlterPartitionReassignmentsResponse(Message, api="AlterPartitionReassignments"):
    """The result of each partition: whether its reassignment was started or cancelled."""

    class ReassignablePartitionResponse(Struct):
        partition_index: int = int32()
        error_code: int = int16()
        error_message: str | None = string(nullable=True)

    class ReassignableTopicResponse(Struct):
        name: str = string()
        partitions: list[AlterPartitionReassignmentsResponse.ReassignablePartitionResponse] = array(
            "ReassignablePartitionResponse"
        )

    throttle_time_ms: int = int32()
    allow_replication_factor_change: bool = boolean(versions="1+", default=True, ignorable=True)
    error_code: int = int16()
    error_message: str | None = string(nullable=True)
    responses: list[AlterPartitionReassignmentsResponse.ReassignableTopicResponse] = array(
        "ReassignableTopicResponse"
    )

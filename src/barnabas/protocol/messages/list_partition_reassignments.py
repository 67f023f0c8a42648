"""ListPartitionReassignments: list the ongoing reassignments."""

from __future__ import annotations

from barnabas.protocol.fields import Kind, array, int16, int32, string
from barnabas.protocol.messages_base import Message, Struct


class ListPartitionReassignmentsRequest(Message, api="ListPartitionReassignments"):
    """The partitions; null for all."""

    class ListPartitionReassignmentsTopics(Struct):
        name: str = string()
        partition_indexes: list[int] = array(Kind.INT32)

    timeout_ms: int = int32(default=60000)
    topics: list[ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics] | None = array(
        "ListPartitionReassignmentsTopics", nullable=True, default=None
    )


class ListPartitionReassignmentsResponse(Message, api="ListPartitionReassignments"):
    """The replicas of each reassignment, with those added and removed."""

    class OngoingPartitionReassignment(Struct):
        partition_index: int = int32()
        replicas: list[int] = array(Kind.INT32)
        adding_replicas: list[int] = array(Kind.INT32)
        removing_replicas: list[int] = array(Kind.INT32)

    class OngoingTopicReassignment(Struct):
        name: str = string()
        partitions: list[ListPartitionReassignmentsResponse.OngoingPartitionReassignment] = array(
            "OngoingPartitionReassignment"
        )

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True)
    topics: list[ListPartitionReassignmentsResponse.OngoingTopicReassignment] = array(
        "OngoingTopicReassignment"
    )

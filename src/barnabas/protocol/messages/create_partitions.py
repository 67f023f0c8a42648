"""CreatePartitions: add partitions to topics."""

from __future__ import annotations

from barnabas.protocol.fields import Kind, array, boolean, int16, int32, string
from barnabas.protocol.messages_base import Message, Struct


class CreatePartitionsRequest(Message, api="CreatePartitions"):
    """Each topic's new partition count and the replicas of the new partitions."""

    class CreatePartitionsAssignment(Struct):
        broker_ids: list[int] = array(Kind.INT32)

    class CreatePartitionsTopic(Struct):
        name: str = string()
        count: int = int32()
        assignments: list[CreatePartitionsRequest.CreatePartitionsAssignment] | None = array(
            "CreatePartitionsAssignment", nullable=True
        )

    topics: list[CreatePartitionsRequest.CreatePartitionsTopic] = array("CreatePartitionsTopic")
    timeout_ms: int = int32()
    validate_only: bool = boolean()


class CreatePartitionsResponse(Message, api="CreatePartitions"):
    """The result of each topic: whether partitions were added."""

    class CreatePartitionsTopicResult(Struct):
        name: str = string()
        error_code: int = int16()
        error_message: str | None = string(nullable=True, default=None)

    throttle_time_ms: int = int32()
    results: list[CreatePartitionsResponse.CreatePartitionsTopicResult] = array(
        "CreatePartitionsTopicResult"
    )

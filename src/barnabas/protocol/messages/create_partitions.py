"""Giving topics more partitions."""

from __future__ import annotations

from barnabas.protocol.fields import Kind, array, boolean, int16, int32, string
from barnabas.protocol.messages_base import Message, Struct


class CreatePartitionsRequest(Message, api_key=37, versions="0-3", flexible="2+"):
    """Says how many partitions each topic shall have, and where new ones go."""

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


class CreatePartitionsResponse(Message, api_key=37, versions="0-3", flexible="2+"):
    """Tells for each topic whether it grew."""

    class CreatePartitionsTopicResult(Struct):
        name: str = string()
        error_code: int = int16()
        error_message: str | None = string(nullable=True, default=None)

    throttle_time_ms: int = int32()
    results: list[CreatePartitionsResponse.CreatePartitionsTopicResult] = array(
        "CreatePartitionsTopicResult"
    )

"""AlterShareGroupOffsets: change the start offsets of a share group."""

from __future__ import annotations

from barnabas.protocol.fields import array, int16, int32, int64, string, uuid
from barnabas.protocol.messages_base import Message, Struct
from barnabas.protocol.types import Uuid


class AlterShareGroupOffsetsRequest(Message, api="AlterShareGroupOffsets"):
    """New start offsets for an empty group."""

    class AlterShareGroupOffsetsRequestPartition(Struct):
        partition_index: int = int32()
        start_offset: int = int64()

    class AlterShareGroupOffsetsRequestTopic(Struct):
        topic_name: str = string()
        partitions: list[AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestPartition] = (
            array("AlterShareGroupOffsetsRequestPartition")
        )

    group_id: str = string()
    topics: list[AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestTopic] = array(
        "AlterShareGroupOffsetsRequestTopic"
    )


class AlterShareGroupOffsetsResponse(Message, api="AlterShareGroupOffsets"):
    """The result of each partition: whether its start offset was changed."""

    class AlterShareGroupOffsetsResponsePartition(Struct):
        partition_index: int = int32()
        error_code: int = int16()
        error_message: str | None = string(nullable=True, default=None)

    class AlterShareGroupOffsetsResponseTopic(Struct):
        topic_name: str = string()
        topic_id: Uuid = uuid()
        partitions: list[AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponsePartition] = (
            array("AlterShareGroupOffsetsResponsePartition")
        )

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    responses: list[AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponseTopic] = array(
        "AlterShareGroupOffsetsResponseTopic"
    )

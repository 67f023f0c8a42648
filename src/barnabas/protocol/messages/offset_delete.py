"""OffsetDelete: delete committed offsets of a group."""

from __future__ import annotations

from barnabas.protocol.fields import array, int16, int32, string
from barnabas.protocol.messages_base import Message, Struct


class OffsetDeleteRequest(Message, api="OffsetDelete"):
    """The partitions."""

    class OffsetDeleteRequestPartition(Struct):
        partition_index: int = int32()

    class OffsetDeleteRequestTopic(Struct):
        name: str = string()
        partitions: list[OffsetDeleteRequest.OffsetDeleteRequestPartition] = array(
            "OffsetDeleteRequestPartition"
        )

    group_id: str = string()
    topics: list[OffsetDeleteRequest.OffsetDeleteRequestTopic] = array("OffsetDeleteRequestTopic")


class OffsetDeleteResponse(Message, api="OffsetDelete"):
    """The result of each partition: whether its offset was deleted."""

    class OffsetDeleteResponsePartition(Struct):
        partition_index: int = int32()
        error_code: int = int16()

    class OffsetDeleteResponseTopic(Struct):
        name: str = string()
        partitions: list[OffsetDeleteResponse.OffsetDeleteResponsePartition] = array(
            "OffsetDeleteResponsePartition"
        )

    error_code: int = int16()
    throttle_time_ms: int = int32(ignorable=True)
    topics: list[OffsetDeleteResponse.OffsetDeleteResponseTopic] = array(
        "OffsetDeleteResponseTopic"
    )

"""ListOffsets: find offsets by timestamp, or the start and end of a partition."""

from __future__ import annotations

from barnabas.protocol.fields import array, int8, int16, int32, int64, string
from barnabas.protocol.messages_base import Message, Struct


class ListOffsetsRequest(Message, api="ListOffsets"):
    """A timestamp (ms) for each partition, or a negative constant for a special offset."""

    class ListOffsetsPartition(Struct):
        partition_index: int = int32()
        current_leader_epoch: int = int32(versions="4+", default=-1, ignorable=True)
        timestamp: int = int64()

    class ListOffsetsTopic(Struct):
        name: str = string()
        partitions: list[ListOffsetsRequest.ListOffsetsPartition] = array("ListOffsetsPartition")

    replica_id: int = int32()
    isolation_level: int = int8(versions="2+")
    topics: list[ListOffsetsRequest.ListOffsetsTopic] = array("ListOffsetsTopic")
    timeout_ms: int = int32(versions="10+", ignorable=True)


class ListOffsetsResponse(Message, api="ListOffsets"):
    """The offset and timestamp found in each partition."""

    class ListOffsetsPartitionResponse(Struct):
        partition_index: int = int32()
        error_code: int = int16()
        timestamp: int = int64(default=-1)
        offset: int = int64(default=-1)
        leader_epoch: int = int32(versions="4+", default=-1)

    class ListOffsetsTopicResponse(Struct):
        name: str = string()
        partitions: list[ListOffsetsResponse.ListOffsetsPartitionResponse] = array(
            "ListOffsetsPartitionResponse"
        )

    throttle_time_ms: int = int32(versions="2+", ignorable=True)
    topics: list[ListOffsetsResponse.ListOffsetsTopicResponse] = array("ListOffsetsTopicResponse")

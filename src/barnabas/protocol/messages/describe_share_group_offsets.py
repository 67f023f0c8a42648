"""DescribeShareGroupOffsets: read the start offsets of share groups."""

from __future__ import annotations

from barnabas.protocol.fields import Kind, array, int16, int32, int64, string, uuid
from barnabas.protocol.messages_base import Message, Struct
from barnabas.protocol.types import Uuid


class DescribeShareGroupOffsetsRequest(Message, api="DescribeShareGroupOffsets"):
    """The groups and, optionally, their partitions."""

    class DescribeShareGroupOffsetsRequestTopic(Struct):
        topic_name: str = string()
        partitions: list[int] = array(Kind.INT32)

    class DescribeShareGroupOffsetsRequestGroup(Struct):
        group_id: str = string()
        topics: (
            list[DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestTopic] | None
        ) = array("DescribeShareGroupOffsetsRequestTopic", nullable=True)

    groups: list[DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup] = array(
        "DescribeShareGroupOffsetsRequestGroup"
    )


class DescribeShareGroupOffsetsResponse(Message, api="DescribeShareGroupOffsets"):
    """Each partition's start offset and lag."""

    class DescribeShareGroupOffsetsResponsePartition(Struct):
        partition_index: int = int32()
        start_offset: int = int64()
        leader_epoch: int = int32()
        lag: int = int64(versions="1+", default=-1, ignorable=True)
        error_code: int = int16()
        error_message: str | None = string(nullable=True, default=None)

    class DescribeShareGroupOffsetsResponseTopic(Struct):
        topic_name: str = string()
        topic_id: Uuid = uuid()
        partitions: list[
            DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponsePartition
        ] = array("DescribeShareGroupOffsetsResponsePartition")

    class DescribeShareGroupOffsetsResponseGroup(Struct):
        group_id: str = string()
        topics: list[DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseTopic] = (
            array("DescribeShareGroupOffsetsResponseTopic")
        )
        error_code: int = int16()
        error_message: str | None = string(nullable=True, default=None)

    throttle_time_ms: int = int32()
    groups: list[DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseGroup] = array(
        "DescribeShareGroupOffsetsResponseGroup"
    )

"""DescribeTopicPartitions: describe topics page by page."""

from __future__ import annotations

from barnabas.protocol.fields import Kind, array, boolean, int16, int32, string, struct, uuid
from barnabas.protocol.messages_base import Message, Struct
from barnabas.protocol.types import Uuid


class DescribeTopicPartitionsRequest(Message, api="DescribeTopicPartitions"):
    """The topics, and the cursor of the next page."""

    class TopicRequest(Struct):
        name: str = string()

    class Cursor(Struct):
        topic_name: str = string()
        partition_index: int = int32()

    topics: list[DescribeTopicPartitionsRequest.TopicRequest] = array("TopicRequest")
    response_partition_limit: int = int32(default=2000)
    cursor: DescribeTopicPartitionsRequest.Cursor | None = struct(
        "Cursor", nullable=True, default=None
    )


class DescribeTopicPartitionsResponse(Message, api="DescribeTopicPartitions"):
    """The partitions with their eligible leader replicas, and the next cursor."""

    class DescribeTopicPartitionsResponsePartition(Struct):
        error_code: int = int16()
        partition_index: int = int32()
        leader_id: int = int32()
        leader_epoch: int = int32(default=-1, ignorable=True)
        replica_nodes: list[int] = array(Kind.INT32)
        isr_nodes: list[int] = array(Kind.INT32)
        eligible_leader_replicas: list[int] | None = array(Kind.INT32, nullable=True, default=None)
        last_known_elr: list[int] | None = array(Kind.INT32, nullable=True, default=None)
        offline_replicas: list[int] = array(Kind.INT32, ignorable=True)

    class DescribeTopicPartitionsResponseTopic(Struct):
        error_code: int = int16()
        name: str | None = string(nullable=True)
        topic_id: Uuid = uuid(ignorable=True)
        is_internal: bool = boolean(ignorable=True)
        partitions: list[
            DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition
        ] = array("DescribeTopicPartitionsResponsePartition")
        topic_authorized_operations: int = int32(default=-2147483648)

    class Cursor(Struct):
        topic_name: str = string()
        partition_index: int = int32()

    throttle_time_ms: int = int32(ignorable=True)
    topics: list[DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic] = array(
        "DescribeTopicPartitionsResponseTopic"
    )
    next_cursor: DescribeTopicPartitionsResponse.Cursor | None = struct(
        "Cursor", nullable=True, default=None
    )

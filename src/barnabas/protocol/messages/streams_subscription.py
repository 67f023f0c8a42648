"""The subscription of Kafka Streams inside JoinGroup, in the classic protocol."""

from __future__ import annotations

from barnabas.protocol.fields import array, binary, int8, int32, int64, string, uuid
from barnabas.protocol.messages_base import Message, Struct
from barnabas.protocol.types import Uuid


class SubscriptionInfoData(Message, versions="1-11"):
    """The subscription of a Kafka Streams instance in a classic group."""

    class TaskId(Struct):
        topic_group_id: int = int32()
        partition: int = int32()

    class PartitionToOffsetSum(Struct):
        partition: int = int32()
        offset_sum: int = int64()

    class TaskOffsetSum(Struct):
        topic_group_id: int = int32()
        partition: int = int32(versions="10+")
        offset_sum: int = int64(versions="10+")
        named_topology: str | None = string(versions="10+", nullable=True, ignorable=True)
        partition_to_offset_sum: list[SubscriptionInfoData.PartitionToOffsetSum] = array(
            "PartitionToOffsetSum", versions="7-9"
        )

    class ClientTag(Struct):
        key: bytes = binary()
        value: bytes = binary()

    version: int = int32()
    latest_supported_version: int = int32(versions="3+", default=-1)
    process_id: Uuid = uuid()
    prev_tasks: list[SubscriptionInfoData.TaskId] = array("TaskId", versions="1-6")
    standby_tasks: list[SubscriptionInfoData.TaskId] = array("TaskId", versions="1-6")
    user_end_point: bytes = binary(versions="2+")
    task_offset_sums: list[SubscriptionInfoData.TaskOffsetSum] = array(
        "TaskOffsetSum", versions="7+"
    )
    unique_field: int = int8(versions="8+")
    error_code: int = int32(versions="9+")
    client_tags: list[SubscriptionInfoData.ClientTag] = array("ClientTag", versions="11+")

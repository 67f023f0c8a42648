"""ShareGroupDescribe: describe share groups."""

from __future__ import annotations

from barnabas.protocol.fields import Kind, array, boolean, int16, int32, string, struct, uuid
from barnabas.protocol.messages_base import Message, Struct
from barnabas.protocol.types import Uuid


class ShareGroupDescribeRequest(Message, api="ShareGroupDescribe"):
    """The groups."""

    group_ids: list[str] = array(Kind.STRING)
    include_authorized_operations: bool = boolean()


class ShareGroupDescribeResponse(Message, api="ShareGroupDescribe"):
    """Each group's epochs, assignor and members."""

    class TopicPartitions(Struct):
        topic_id: Uuid = uuid()
        topic_name: str = string()
        partitions: list[int] = array(Kind.INT32)

    class Assignment(Struct):
        topic_partitions: list[ShareGroupDescribeResponse.TopicPartitions] = array(
            "TopicPartitions"
        )

    class Member(Struct):
        member_id: str = string()
        rack_id: str | None = string(nullable=True, default=None)
        member_epoch: int = int32()
        client_id: str = string()
        client_host: str = string()
        subscribed_topic_names: list[str] = array(Kind.STRING)
        assignment: ShareGroupDescribeResponse.Assignment = struct("Assignment")

    class DescribedGroup(Struct):
        error_code: int = int16()
        error_message: str | None = string(nullable=True, default=None)
        group_id: str = string()
        group_state: str = string()
        group_epoch: int = int32()
        assignment_epoch: int = int32()
        assignor_name: str = string()
        members: list[ShareGroupDescribeResponse.Member] = array("Member")
        authorized_operations: int = int32(default=-2147483648)

    throttle_time_ms: int = int32()
    groups: list[ShareGroupDescribeResponse.DescribedGroup] = array("DescribedGroup")

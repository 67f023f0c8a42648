"""ConsumerGroupDescribe: describe consumer groups of the consumer protocol (KIP-848)."""

from __future__ import annotations

from barnabas.protocol.fields import Kind, array, boolean, int8, int16, int32, string, struct, uuid
from barnabas.protocol.messages_base import Message, Struct
from barnabas.protocol.types import Uuid


class ConsumerGroupDescribeRequest(Message, api="ConsumerGroupDescribe"):
    """The groups."""

    group_ids: list[str] = array(Kind.STRING)
    include_authorized_operations: bool = boolean()


class ConsumerGroupDescribeResponse(Message, api="ConsumerGroupDescribe"):
    """Each group's epochs, assignor and members, with current and target assignment."""

    class TopicPartitions(Struct):
        topic_id: Uuid = uuid()
        topic_name: str = string()
        partitions: list[int] = array(Kind.INT32)

    class Assignment(Struct):
        topic_partitions: list[ConsumerGroupDescribeResponse.TopicPartitions] = array(
            "TopicPartitions"
        )

    class Member(Struct):
        member_id: str = string()
        instance_id: str | None = string(nullable=True, default=None)
        rack_id: str | None = string(nullable=True, default=None)
        member_epoch: int = int32()
        client_id: str = string()
        client_host: str = string()
        subscribed_topic_names: list[str] = array(Kind.STRING)
        subscribed_topic_regex: str | None = string(nullable=True, default=None)
        assignment: ConsumerGroupDescribeResponse.Assignment = struct("Assignment")
        target_assignment: ConsumerGroupDescribeResponse.Assignment = struct("Assignment")
        member_type: int = int8(versions="1+", default=-1, ignorable=True)

    class DescribedGroup(Struct):
        error_code: int = int16()
        error_message: str | None = string(nullable=True, default=None)
        group_id: str = string()
        group_state: str = string()
        group_epoch: int = int32()
        assignment_epoch: int = int32()
        assignor_name: str = string()
        members: list[ConsumerGroupDescribeResponse.Member] = array("Member")
        authorized_operations: int = int32(default=-2147483648)

    throttle_time_ms: int = int32()
    groups: list[ConsumerGroupDescribeResponse.DescribedGroup] = array("DescribedGroup")

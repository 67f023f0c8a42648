"""StreamsGroupDescribe: describe streams groups."""

from __future__ import annotations

from barnabas.protocol.fields import (
    Kind,
    array,
    boolean,
    int16,
    int32,
    int64,
    string,
    struct,
    uint16,
)
from barnabas.protocol.messages_base import Message, Struct


class StreamsGroupDescribeRequest(Message, api="StreamsGroupDescribe"):
    """The groups."""

    group_ids: list[str] = array(Kind.STRING)
    include_authorized_operations: bool = boolean()


class StreamsGroupDescribeResponse(Message, api="StreamsGroupDescribe"):
    """Each group's topology, epochs, and members with their tasks."""

    class KeyValue(Struct):
        key: str = string()
        value: str = string()

    class TopicInfo(Struct):
        name: str = string()
        partitions: int = int32()
        replication_factor: int = int16()
        topic_configs: list[StreamsGroupDescribeResponse.KeyValue] = array("KeyValue")

    class Subtopology(Struct):
        subtopology_id: str = string()
        source_topics: list[str] = array(Kind.STRING)
        repartition_sink_topics: list[str] = array(Kind.STRING)
        state_changelog_topics: list[StreamsGroupDescribeResponse.TopicInfo] = array("TopicInfo")
        repartition_source_topics: list[StreamsGroupDescribeResponse.TopicInfo] = array("TopicInfo")

    class Topology(Struct):
        epoch: int = int32()
        subtopologies: list[StreamsGroupDescribeResponse.Subtopology] | None = array(
            "Subtopology", nullable=True, default=None
        )

    class Endpoint(Struct):
        host: str = string()
        port: int = uint16()

    class TaskOffset(Struct):
        subtopology_id: str = string()
        partition: int = int32()
        offset: int = int64()

    class TaskIds(Struct):
        subtopology_id: str = string()
        partitions: list[int] = array(Kind.INT32)

    class Assignment(Struct):
        active_tasks: list[StreamsGroupDescribeResponse.TaskIds] = array("TaskIds")
        standby_tasks: list[StreamsGroupDescribeResponse.TaskIds] = array("TaskIds")
        warmup_tasks: list[StreamsGroupDescribeResponse.TaskIds] = array("TaskIds")

    class Member(Struct):
        member_id: str = string()
        member_epoch: int = int32()
        instance_id: str | None = string(nullable=True, default=None)
        rack_id: str | None = string(nullable=True, default=None)
        client_id: str = string()
        client_host: str = string()
        topology_epoch: int = int32()
        process_id: str = string()
        user_endpoint: StreamsGroupDescribeResponse.Endpoint | None = struct(
            "Endpoint", nullable=True, default=None
        )
        client_tags: list[StreamsGroupDescribeResponse.KeyValue] = array("KeyValue")
        task_offsets: list[StreamsGroupDescribeResponse.TaskOffset] = array("TaskOffset")
        task_end_offsets: list[StreamsGroupDescribeResponse.TaskOffset] = array("TaskOffset")
        assignment: StreamsGroupDescribeResponse.Assignment = struct("Assignment")
        target_assignment: StreamsGroupDescribeResponse.Assignment = struct("Assignment")
        is_classic: bool = boolean()

    class DescribedGroup(Struct):
        error_code: int = int16()
        error_message: str | None = string(nullable=True, default=None)
        group_id: str = string()
        group_state: str = string()
        group_epoch: int = int32()
        assignment_epoch: int = int32()
        topology: StreamsGroupDescribeResponse.Topology | None = struct(
            "Topology", nullable=True, default=None
        )
        members: list[StreamsGroupDescribeResponse.Member] = array("Member")
        authorized_operations: int = int32(default=-2147483648)

    throttle_time_ms: int = int32()
    groups: list[StreamsGroupDescribeResponse.DescribedGroup] = array("DescribedGroup")

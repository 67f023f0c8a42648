"""StreamsGroupHeartbeat: membership in a streams group (KIP-1071); the server assigns tasks."""

from __future__ import annotations

from barnabas.protocol.fields import (
    Kind,
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    string,
    struct,
    uint16,
)
from barnabas.protocol.messages_base import Message, Struct


class StreamsGroupHeartbeatRequest(Message, api="StreamsGroupHeartbeat"):
    """A member that joins, stays or leaves, with changes of topology, tasks and offsets."""

    class KeyValue(Struct):
        key: str = string()
        value: str = string()

    class TopicInfo(Struct):
        name: str = string()
        partitions: int = int32()
        replication_factor: int = int16()
        topic_configs: list[StreamsGroupHeartbeatRequest.KeyValue] = array("KeyValue")

    class CopartitionGroup(Struct):
        source_topics: list[int] = array(Kind.INT16)
        source_topic_regex: list[int] = array(Kind.INT16)
        repartition_source_topics: list[int] = array(Kind.INT16)

    class Subtopology(Struct):
        subtopology_id: str = string()
        source_topics: list[str] = array(Kind.STRING)
        source_topic_regex: list[str] = array(Kind.STRING)
        state_changelog_topics: list[StreamsGroupHeartbeatRequest.TopicInfo] = array("TopicInfo")
        repartition_sink_topics: list[str] = array(Kind.STRING)
        repartition_source_topics: list[StreamsGroupHeartbeatRequest.TopicInfo] = array("TopicInfo")
        copartition_groups: list[StreamsGroupHeartbeatRequest.CopartitionGroup] = array(
            "CopartitionGroup"
        )

    class Topology(Struct):
        epoch: int = int32()
        subtopologies: list[StreamsGroupHeartbeatRequest.Subtopology] = array("Subtopology")

    class TaskIds(Struct):
        subtopology_id: str = string()
        partitions: list[int] = array(Kind.INT32)

    class Endpoint(Struct):
        host: str = string()
        port: int = uint16()

    class TaskOffset(Struct):
        subtopology_id: str = string()
        partition: int = int32()
        offset: int = int64()

    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    endpoint_information_epoch: int = int32()
    instance_id: str | None = string(nullable=True, default=None)
    rack_id: str | None = string(nullable=True, default=None)
    rebalance_timeout_ms: int = int32(default=-1)
    topology: StreamsGroupHeartbeatRequest.Topology | None = struct(
        "Topology", nullable=True, default=None
    )
    active_tasks: list[StreamsGroupHeartbeatRequest.TaskIds] | None = array(
        "TaskIds", nullable=True, default=None
    )
    standby_tasks: list[StreamsGroupHeartbeatRequest.TaskIds] | None = array(
        "TaskIds", nullable=True, default=None
    )
    warmup_tasks: list[StreamsGroupHeartbeatRequest.TaskIds] | None = array(
        "TaskIds", nullable=True, default=None
    )
    process_id: str | None = string(nullable=True, default=None)
    user_endpoint: StreamsGroupHeartbeatRequest.Endpoint | None = struct(
        "Endpoint", nullable=True, default=None
    )
    client_tags: list[StreamsGroupHeartbeatRequest.KeyValue] | None = array(
        "KeyValue", nullable=True, default=None
    )
    task_offsets: list[StreamsGroupHeartbeatRequest.TaskOffset] | None = array(
        "TaskOffset", nullable=True, default=None
    )
    task_end_offsets: list[StreamsGroupHeartbeatRequest.TaskOffset] | None = array(
        "TaskOffset", nullable=True, default=None
    )
    shutdown_application: bool = boolean()


class StreamsGroupHeartbeatResponse(Message, api="StreamsGroupHeartbeat"):
    """The member epoch, the tasks, and the endpoints of other members."""

    class Status(Struct):
        status_code: int = int8()
        status_detail: str = string()

    class TaskIds(Struct):
        subtopology_id: str = string()
        partitions: list[int] = array(Kind.INT32)

    class Endpoint(Struct):
        host: str = string()
        port: int = uint16()

    class TopicPartition(Struct):
        topic: str = string()
        partitions: list[int] = array(Kind.INT32)

    class EndpointToPartitions(Struct):
        user_endpoint: StreamsGroupHeartbeatResponse.Endpoint = struct("Endpoint")
        active_partitions: list[StreamsGroupHeartbeatResponse.TopicPartition] = array(
            "TopicPartition"
        )
        standby_partitions: list[StreamsGroupHeartbeatResponse.TopicPartition] = array(
            "TopicPartition"
        )

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    member_id: str = string()
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    acceptable_recovery_lag: int = int32()
    task_offset_interval_ms: int = int32()
    status: list[StreamsGroupHeartbeatResponse.Status] | None = array("Status", nullable=True)
    active_tasks: list[StreamsGroupHeartbeatResponse.TaskIds] | None = array(
        "TaskIds", nullable=True, default=None
    )
    standby_tasks: list[StreamsGroupHeartbeatResponse.TaskIds] | None = array(
        "TaskIds", nullable=True, default=None
    )
    warmup_tasks: list[StreamsGroupHeartbeatResponse.TaskIds] | None = array(
        "TaskIds", nullable=True, default=None
    )
    endpoint_information_epoch: int = int32()
    partitions_by_user_endpoint: list[StreamsGroupHeartbeatResponse.EndpointToPartitions] | None = (
        array("EndpointToPartitions", nullable=True, default=None)
    )

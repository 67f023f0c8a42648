"""Records of streams groups (KIP-1071)."""

from __future__ import annotations

from barnabas.protocol.fields import Kind, array, int8, int16, int32, int64, string, struct, uint16
from barnabas.protocol.messages_base import Message, Struct


class StreamsGroupMetadataKey(Message, record_type=17, versions="0"):
    """The key of a streams group's epoch record."""

    group_id: str = string()


class StreamsGroupMetadataValue(Message, record_type=17, versions="0", flexible="0+"):
    """A streams group's epoch, and the metadata and topology that it is based on."""

    class LastAssignmentConfig(Struct):
        key: str = string()
        value: str = string()

    epoch: int = int32()
    metadata_hash: int = int64()
    validated_topology_epoch: int = int32(default=-1, tag=0)
    last_assignment_configs: list[StreamsGroupMetadataValue.LastAssignmentConfig] | None = array(
        "LastAssignmentConfig", nullable=True, tag=1
    )


class StreamsGroupMemberMetadataKey(Message, record_type=19, versions="0"):
    """The key of a member of a streams group."""

    group_id: str = string()
    member_id: str = string()


class StreamsGroupMemberMetadataValue(Message, record_type=19, versions="0", flexible="0+"):
    """A member's client and process information."""

    class Endpoint(Struct):
        host: str = string()
        port: int = uint16()

    class KeyValue(Struct):
        key: str = string()
        value: str = string()

    instance_id: str | None = string(nullable=True)
    rack_id: str | None = string(nullable=True)
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout_ms: int = int32(default=-1)
    topology_epoch: int = int32()
    process_id: str = string()
    user_endpoint: StreamsGroupMemberMetadataValue.Endpoint | None = struct(
        "Endpoint", nullable=True, default=None
    )
    client_tags: list[StreamsGroupMemberMetadataValue.KeyValue] = array("KeyValue")


class StreamsGroupTargetAssignmentMetadataKey(Message, record_type=20, versions="0"):
    """The key of a streams group's target assignment epoch."""

    group_id: str = string()


class StreamsGroupTargetAssignmentMetadataValue(
    Message, record_type=20, versions="0", flexible="0+"
):
    """The epoch of a streams group's target assignment."""

    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(tag=0, ignorable=True)


class StreamsGroupTargetAssignmentMemberKey(Message, record_type=21, versions="0"):
    """The key of a member's target assignment."""

    group_id: str = string()
    member_id: str = string()


class StreamsGroupTargetAssignmentMemberValue(Message, record_type=21, versions="0", flexible="0+"):
    """The tasks of a member's target assignment."""

    class TaskIds(Struct):
        subtopology_id: str = string()
        partitions: list[int] = array(Kind.INT32)

    active_tasks: list[StreamsGroupTargetAssignmentMemberValue.TaskIds] = array("TaskIds")
    standby_tasks: list[StreamsGroupTargetAssignmentMemberValue.TaskIds] = array("TaskIds")
    warmup_tasks: list[StreamsGroupTargetAssignmentMemberValue.TaskIds] = array("TaskIds")


class StreamsGroupCurrentMemberAssignmentKey(Message, record_type=22, versions="0"):
    """The key of a member's current assignment."""

    group_id: str = string()
    member_id: str = string()


class StreamsGroupCurrentMemberAssignmentValue(
    Message, record_type=22, versions="0", flexible="0+"
):
    """The tasks that a member owns or must still revoke, and its epochs."""

    class TaskIds(Struct):
        subtopology_id: str = string()
        partitions: list[int] = array(Kind.INT32)
        assignment_epochs: list[int] | None = array(Kind.INT32, nullable=True, tag=0)

    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    active_tasks: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = array("TaskIds")
    standby_tasks: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = array("TaskIds")
    warmup_tasks: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = array("TaskIds")
    active_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = array(
        "TaskIds"
    )
    standby_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = (
        array("TaskIds")
    )
    warmup_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = array(
        "TaskIds"
    )


class StreamsGroupTopologyKey(Message, record_type=23, versions="0"):
    """The key of a streams group's topology."""

    group_id: str = string()


class StreamsGroupTopologyValue(Message, record_type=23, versions="0", flexible="0+"):
    """The subtopologies of a streams group, with their source and sink topics."""

    class TopicConfig(Struct):
        key: str = string()
        value: str = string()

    class TopicInfo(Struct):
        name: str = string()
        partitions: int = int32()
        replication_factor: int = int16()
        topic_configs: list[StreamsGroupTopologyValue.TopicConfig] = array("TopicConfig")

    class CopartitionGroup(Struct):
        source_topics: list[int] = array(Kind.INT16)
        source_topic_regex: list[int] = array(Kind.INT16)
        repartition_source_topics: list[int] = array(Kind.INT16)

    class Subtopology(Struct):
        subtopology_id: str = string()
        source_topics: list[str] = array(Kind.STRING)
        source_topic_regex: list[str] = array(Kind.STRING)
        state_changelog_topics: list[StreamsGroupTopologyValue.TopicInfo] = array("TopicInfo")
        repartition_sink_topics: list[str] = array(Kind.STRING)
        repartition_source_topics: list[StreamsGroupTopologyValue.TopicInfo] = array("TopicInfo")
        copartition_groups: list[StreamsGroupTopologyValue.CopartitionGroup] = array(
            "CopartitionGroup"
        )

    epoch: int = int32()
    subtopologies: list[StreamsGroupTopologyValue.Subtopology] = array("Subtopology")

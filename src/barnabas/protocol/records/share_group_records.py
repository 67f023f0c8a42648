"""Records of share groups in `__consumer_offsets` (KIP-932)."""

from __future__ import annotations

from barnabas.protocol.fields import Kind, array, int8, int32, int64, string, uuid
from barnabas.protocol.messages_base import Message, Struct
from barnabas.protocol.types import Uuid


class ShareGroupMemberMetadataKey(Message, record_type=10, versions="0"):
    """The key of a member of a share group."""

    group_id: str = string()
    member_id: str = string()


class ShareGroupMemberMetadataValue(Message, record_type=10, versions="0", flexible="0+"):
    """A member's subscription and client information."""

    rack_id: str | None = string(nullable=True)
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(Kind.STRING)


class ShareGroupMetadataKey(Message, record_type=11, versions="0"):
    """The key of a share group's epoch record."""

    group_id: str = string()


class ShareGroupMetadataValue(Message, record_type=11, versions="0", flexible="0+"):
    """A share group's epoch, and the hash of the topic metadata that it is based on."""

    epoch: int = int32()
    metadata_hash: int = int64()


class ShareGroupTargetAssignmentMetadataKey(Message, record_type=12, versions="0"):
    """The key of a share group's target assignment epoch."""

    group_id: str = string()


class ShareGroupTargetAssignmentMetadataValue(Message, record_type=12, versions="0", flexible="0+"):
    """The epoch of a share group's target assignment."""

    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(tag=0, ignorable=True)


class ShareGroupTargetAssignmentMemberKey(Message, record_type=13, versions="0"):
    """The key of a member's target assignment."""

    group_id: str = string()
    member_id: str = string()


class ShareGroupTargetAssignmentMemberValue(Message, record_type=13, versions="0", flexible="0+"):
    """The partitions of a member's target assignment."""

    class TopicPartition(Struct):
        topic_id: Uuid = uuid()
        partitions: list[int] = array(Kind.INT32)

    topic_partitions: list[ShareGroupTargetAssignmentMemberValue.TopicPartition] = array(
        "TopicPartition"
    )


class ShareGroupCurrentMemberAssignmentKey(Message, record_type=14, versions="0"):
    """The key of a member's current assignment."""

    group_id: str = string()
    member_id: str = string()


class ShareGroupCurrentMemberAssignmentValue(Message, record_type=14, versions="0", flexible="0+"):
    """The partitions of a member's current assignment, and its epochs."""

    class TopicPartitions(Struct):
        topic_id: Uuid = uuid()
        partitions: list[int] = array(Kind.INT32)

    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: list[ShareGroupCurrentMemberAssignmentValue.TopicPartitions] = array(
        "TopicPartitions"
    )


class ShareGroupStatePartitionMetadataKey(Message, record_type=15, versions="0"):
    """The key of a share group's state partition metadata."""

    group_id: str = string()


class ShareGroupStatePartitionMetadataValue(Message, record_type=15, versions="0", flexible="0+"):
    """The topics whose share state is being initialized, is initialized, or is being deleted."""

    class TopicPartitionsInfo(Struct):
        topic_id: Uuid = uuid()
        topic_name: str = string()
        partitions: list[int] = array(Kind.INT32)

    class TopicInfo(Struct):
        topic_id: Uuid = uuid()
        topic_name: str = string()

    initializing_topics: list[ShareGroupStatePartitionMetadataValue.TopicPartitionsInfo] = array(
        "TopicPartitionsInfo"
    )
    initialized_topics: list[ShareGroupStatePartitionMetadataValue.TopicPartitionsInfo] = array(
        "TopicPartitionsInfo"
    )
    deleting_topics: list[ShareGroupStatePartitionMetadataValue.TopicInfo] = array("TopicInfo")

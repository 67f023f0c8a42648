"""Records of consumer groups of the consumer protocol (KIP-848)."""

from __future__ import annotations

from barnabas.protocol.fields import Kind, array, binary, int8, int32, int64, string, struct, uuid
from barnabas.protocol.messages_base import Message, Struct
from barnabas.protocol.types import Uuid


class ConsumerGroupMetadataKey(Message, record_type=3, versions="0"):
    """The key of a consumer group's epoch record."""

    group_id: str = string()


class ConsumerGroupMetadataValue(Message, record_type=3, versions="0", flexible="0+"):
    """A consumer group's epoch, and the hash of the topic metadata that it is based on."""

    epoch: int = int32()
    metadata_hash: int = int64(tag=0)


class ConsumerGroupPartitionMetadataKey(Message, record_type=4, versions="0"):
    """The key of a group's topic metadata; only brokers before 4.1 write it."""

    group_id: str = string()


class ConsumerGroupPartitionMetadataValue(Message, record_type=4, versions="0", flexible="0+"):
    """The partitions and racks of a group's topics; only brokers before 4.1 write it."""

    class PartitionMetadata(Struct):
        partition: int = int32()
        racks: list[str] = array(Kind.STRING)

    class TopicMetadata(Struct):
        topic_id: Uuid = uuid()
        topic_name: str = string()
        num_partitions: int = int32()
        partition_metadata: list[ConsumerGroupPartitionMetadataValue.PartitionMetadata] = array(
            "PartitionMetadata"
        )

    topics: list[ConsumerGroupPartitionMetadataValue.TopicMetadata] = array("TopicMetadata")


class ConsumerGroupMemberMetadataKey(Message, record_type=5, versions="0"):
    """The key of a member of a consumer group."""

    group_id: str = string()
    member_id: str = string()


class ConsumerGroupMemberMetadataValue(Message, record_type=5, versions="0", flexible="0+"):
    """A member's subscription and client information."""

    class ClassicProtocol(Struct):
        name: str = string()
        metadata: bytes = binary()

    class ClassicMemberMetadata(Struct):
        session_timeout_ms: int = int32()
        supported_protocols: list[ConsumerGroupMemberMetadataValue.ClassicProtocol] = array(
            "ClassicProtocol"
        )

    instance_id: str | None = string(nullable=True)
    rack_id: str | None = string(nullable=True)
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(Kind.STRING)
    subscribed_topic_regex: str | None = string(nullable=True)
    rebalance_timeout_ms: int = int32(default=-1)
    server_assignor: str | None = string(nullable=True)
    classic_member_metadata: ConsumerGroupMemberMetadataValue.ClassicMemberMetadata | None = struct(
        "ClassicMemberMetadata", nullable=True, tag=0, varint_marker=True
    )


class ConsumerGroupTargetAssignmentMetadataKey(Message, record_type=6, versions="0"):
    """The key of a consumer group's target assignment epoch."""

    group_id: str = string()


class ConsumerGroupTargetAssignmentMetadataValue(
    Message, record_type=6, versions="0", flexible="0+"
):
    """The epoch of a consumer group's target assignment."""

    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(tag=0, ignorable=True)


class ConsumerGroupTargetAssignmentMemberKey(Message, record_type=7, versions="0"):
    """The key of a member's target assignment."""

    group_id: str = string()
    member_id: str = string()


class ConsumerGroupTargetAssignmentMemberValue(Message, record_type=7, versions="0", flexible="0+"):
    """The partitions of a member's target assignment."""

    class TopicPartition(Struct):
        topic_id: Uuid = uuid()
        partitions: list[int] = array(Kind.INT32)

    topic_partitions: list[ConsumerGroupTargetAssignmentMemberValue.TopicPartition] = array(
        "TopicPartition"
    )


class ConsumerGroupCurrentMemberAssignmentKey(Message, record_type=8, versions="0"):
    """The key of a member's current assignment."""

    group_id: str = string()
    member_id: str = string()


class ConsumerGroupCurrentMemberAssignmentValue(
    Message, record_type=8, versions="0", flexible="0+"
):
    """The partitions that a member owns or must still revoke, and its epochs."""

    class TopicPartitions(Struct):
        topic_id: Uuid = uuid()
        partitions: list[int] = array(Kind.INT32)
        assignment_epochs: list[int] | None = array(Kind.INT32, nullable=True, tag=0)

    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: list[ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions] = array(
        "TopicPartitions"
    )
    partitions_pending_revocation: list[
        ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions
    ] = array("TopicPartitions")


class ConsumerGroupRegularExpressionKey(Message, record_type=16, versions="0"):
    """The key of a regular expression that members subscribe to."""

    group_id: str = string()
    regular_expression: str = string()


class ConsumerGroupRegularExpressionValue(Message, record_type=16, versions="0", flexible="0+"):
    """The topics that a regular expression matched, and when."""

    topics: list[str] = array(Kind.STRING)
    version: int = int64()
    timestamp: int = int64()

"""Records of `__remote_log_metadata`, the catalogue of tiered storage (KIP-405)."""

from __future__ import annotations

from barnabas.protocol.fields import (
    array,
    binary,
    boolean,
    int8,
    int32,
    int64,
    string,
    struct,
    uuid,
)
from barnabas.protocol.messages_base import Message, Struct
from barnabas.protocol.types import Uuid


class RemoteLogSegmentMetadataRecord(Message, record_type=0, versions="0", flexible="0+"):
    """A segment's copy to remote storage starts or has finished."""

    class TopicIdPartitionEntry(Struct):
        name: str = string()
        id: Uuid = uuid()
        partition: int = int32()

    class RemoteLogSegmentIdEntry(Struct):
        topic_id_partition: RemoteLogSegmentMetadataRecord.TopicIdPartitionEntry = struct(
            "TopicIdPartitionEntry"
        )
        id: Uuid = uuid()

    class SegmentLeaderEpochEntry(Struct):
        leader_epoch: int = int32()
        offset: int = int64()

    remote_log_segment_id: RemoteLogSegmentMetadataRecord.RemoteLogSegmentIdEntry = struct(
        "RemoteLogSegmentIdEntry"
    )
    start_offset: int = int64()
    end_offset: int = int64()
    broker_id: int = int32()
    max_timestamp_ms: int = int64()
    event_timestamp_ms: int = int64()
    segment_leader_epochs: list[RemoteLogSegmentMetadataRecord.SegmentLeaderEpochEntry] = array(
        "SegmentLeaderEpochEntry"
    )
    segment_size_in_bytes: int = int32()
    custom_metadata: bytes | None = binary(nullable=True, default=None)
    remote_log_segment_state: int = int8()
    txn_index_empty: bool = boolean(tag=0)


class RemoteLogSegmentMetadataUpdateRecord(Message, record_type=1, versions="0", flexible="0+"):
    """The state of a remote segment changes."""

    class TopicIdPartitionEntry(Struct):
        name: str = string()
        id: Uuid = uuid()
        partition: int = int32()

    class RemoteLogSegmentIdEntry(Struct):
        topic_id_partition: RemoteLogSegmentMetadataUpdateRecord.TopicIdPartitionEntry = struct(
            "TopicIdPartitionEntry"
        )
        id: Uuid = uuid()

    remote_log_segment_id: RemoteLogSegmentMetadataUpdateRecord.RemoteLogSegmentIdEntry = struct(
        "RemoteLogSegmentIdEntry"
    )
    broker_id: int = int32()
    event_timestamp_ms: int = int64()
    custom_metadata: bytes | None = binary(nullable=True, default=None)
    remote_log_segment_state: int = int8()


class RemotePartitionDeleteMetadataRecord(Message, record_type=2, versions="0", flexible="0+"):
    """The deletion of a partition's remote segments changes state."""

    class TopicIdPartitionEntry(Struct):
        name: str = string()
        id: Uuid = uuid()
        partition: int = int32()

    topic_id_partition: RemotePartitionDeleteMetadataRecord.TopicIdPartitionEntry = struct(
        "TopicIdPartitionEntry"
    )
    broker_id: int = int32()
    event_timestamp_ms: int = int64()
    remote_partition_delete_state: int = int8()


class RemoteLogSegmentMetadataSnapshotRecord(Message, record_type=3, versions="0", flexible="0+"):
    """A remote segment in a snapshot of a broker's cache."""

    class SegmentLeaderEpochEntry(Struct):
        leader_epoch: int = int32()
        offset: int = int64()

    segment_id: Uuid = uuid()
    start_offset: int = int64()
    end_offset: int = int64()
    broker_id: int = int32()
    max_timestamp_ms: int = int64()
    event_timestamp_ms: int = int64()
    segment_leader_epochs: list[RemoteLogSegmentMetadataSnapshotRecord.SegmentLeaderEpochEntry] = (
        array("SegmentLeaderEpochEntry")
    )
    segment_size_in_bytes: int = int32()
    custom_metadata: bytes | None = binary(nullable=True, default=None)
    remote_log_segment_state: int = int8()
    txn_index_empty: bool = boolean(tag=0)

"""FetchSnapshot: read a snapshot of the metadata log in pieces."""

from __future__ import annotations

from barnabas.protocol.fields import (
    Records,
    array,
    int16,
    int32,
    int64,
    records,
    string,
    struct,
    uint16,
    uuid,
)
from barnabas.protocol.messages_base import Message, Struct
from barnabas.protocol.types import Uuid


class FetchSnapshotRequest(Message, api="FetchSnapshot"):
    """The position in a snapshot to read from."""

    class SnapshotId(Struct):
        end_offset: int = int64()
        epoch: int = int32()

    class PartitionSnapshot(Struct):
        partition: int = int32()
        current_leader_epoch: int = int32()
        snapshot_id: FetchSnapshotRequest.SnapshotId = struct("SnapshotId")
        position: int = int64()
        replica_directory_id: Uuid = uuid(versions="1+", tag=0, ignorable=True)

    class TopicSnapshot(Struct):
        name: str = string()
        partitions: list[FetchSnapshotRequest.PartitionSnapshot] = array("PartitionSnapshot")

    cluster_id: str | None = string(nullable=True, default=None, tag=0)
    replica_id: int = int32(default=-1)
    max_bytes: int = int32(default=0x7FFFFFFF)
    topics: list[FetchSnapshotRequest.TopicSnapshot] = array("TopicSnapshot")


class FetchSnapshotResponse(Message, api="FetchSnapshot"):
    """A part of each snapshot: its bytes, its position, and the size of the snapshot."""

    class SnapshotId(Struct):
        end_offset: int = int64()
        epoch: int = int32()

    class LeaderIdAndEpoch(Struct):
        leader_id: int = int32()
        leader_epoch: int = int32()

    class PartitionSnapshot(Struct):
        index: int = int32()
        error_code: int = int16()
        snapshot_id: FetchSnapshotResponse.SnapshotId = struct("SnapshotId")
        current_leader: FetchSnapshotResponse.LeaderIdAndEpoch = struct("LeaderIdAndEpoch", tag=0)
        size: int = int64()
        position: int = int64()
        unaligned_records: Records = records()

    class TopicSnapshot(Struct):
        name: str = string()
        partitions: list[FetchSnapshotResponse.PartitionSnapshot] = array("PartitionSnapshot")

    class NodeEndpoint(Struct):
        node_id: int = int32()
        host: str = string()
        port: int = uint16()

    throttle_time_ms: int = int32(ignorable=True)
    error_code: int = int16()
    topics: list[FetchSnapshotResponse.TopicSnapshot] = array("TopicSnapshot")
    node_endpoints: list[FetchSnapshotResponse.NodeEndpoint] = array(
        "NodeEndpoint", versions="1+", tag=0
    )

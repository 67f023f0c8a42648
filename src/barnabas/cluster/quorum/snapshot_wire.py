"""FetchSnapshot: requests for a part of a snapshot, as messages of Kafka's protocol (KIP-630)."""

from typing import Any, NamedTuple

from barnabas.cluster.metadata.image import METADATA_TOPIC
from barnabas.cluster.quorum.epoch_history import OffsetAndEpoch
from barnabas.cluster.quorum.raft_wire import LeaderState, only_partition
from barnabas.cluster.quorum.voters import ReplicaKey
from barnabas.protocol.errors import ErrorCode, KafkaError, error_code
from barnabas.protocol.messages.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotResponse,
)


class SnapshotPart(NamedTuple):
    """A request of a replica for the bytes of a snapshot from a position."""

    replica: ReplicaKey
    epoch: int
    snapshot: OffsetAndEpoch
    position: int
    max_bytes: int


class SnapshotBytes(NamedTuple):
    """The response: the bytes, and the size of the whole snapshot; or an error."""

    error: ErrorCode
    size: int = 0
    data: bytes = b""


def snapshot_request(part: SnapshotPart, cluster_id: str) -> FetchSnapshotRequest:
    """Return the request of a replica."""
    request = FetchSnapshotRequest
    partition = request.PartitionSnapshot(
        current_leader_epoch=part.epoch,
        snapshot_id=request.SnapshotId(end_offset=part.snapshot.offset, epoch=part.snapshot.epoch),
        position=part.position,
        replica_directory_id=part.replica.directory_id,
    )
    topic = request.TopicSnapshot(name=METADATA_TOPIC, partitions=[partition])
    return request(
        cluster_id=cluster_id,
        replica_id=part.replica.id,
        max_bytes=part.max_bytes,
        topics=[topic],
    )


def read_snapshot_request(request: FetchSnapshotRequest, cluster_id: str) -> SnapshotPart:
    """Return the request of a replica.

    Raises KafkaError: INCONSISTENT_CLUSTER_ID for another cluster, UNKNOWN_TOPIC_OR_PARTITION for
    another log.
    """
    if request.cluster_id is not None and request.cluster_id != cluster_id:
        raise KafkaError(ErrorCode.INCONSISTENT_CLUSTER_ID, "The request is for another cluster")
    partition: FetchSnapshotRequest.PartitionSnapshot | None = only_partition(request.topics)
    if partition is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The request is not for the metadata log"
        )
    wanted = partition.snapshot_id
    return SnapshotPart(
        ReplicaKey(request.replica_id, partition.replica_directory_id),
        partition.current_leader_epoch,
        OffsetAndEpoch(wanted.end_offset, wanted.epoch),
        partition.position,
        request.max_bytes,
    )


def snapshot_response(
    part: SnapshotPart, answer: SnapshotBytes, leader: LeaderState
) -> FetchSnapshotResponse:
    """Return the response to a replica."""
    response = FetchSnapshotResponse
    partition = response.PartitionSnapshot(
        error_code=answer.error,
        snapshot_id=response.SnapshotId(end_offset=part.snapshot.offset, epoch=part.snapshot.epoch),
        current_leader=response.LeaderIdAndEpoch(
            leader_id=-1 if leader.leader_id is None else leader.leader_id,
            leader_epoch=leader.epoch,
        ),
        size=answer.size,
        position=part.position,
        unaligned_records=answer.data,
    )
    topic = response.TopicSnapshot(name=METADATA_TOPIC, partitions=[partition])
    message = response(topics=[topic])
    if leader.leader_id is not None and leader.endpoint is not None:
        host, port = leader.endpoint.host, leader.endpoint.port
        message.node_endpoints = [
            response.NodeEndpoint(node_id=leader.leader_id, host=host, port=port)
        ]
    return message


def read_snapshot_response(
    part: SnapshotPart, response: FetchSnapshotResponse
) -> tuple[SnapshotBytes, int, int | None] | None:
    """Return the bytes, the epoch and its leader; None when the response has no use."""
    found: Any = only_partition(response.topics)
    if response.error_code or found is None:
        return None
    partition: FetchSnapshotResponse.PartitionSnapshot = found
    snapshot = OffsetAndEpoch(partition.snapshot_id.end_offset, partition.snapshot_id.epoch)
    leader = partition.current_leader
    leader_id = leader.leader_id if leader.leader_id >= 0 else None
    error = error_code(partition.error_code)
    is_requested = snapshot == part.snapshot and partition.position == part.position
    if error is ErrorCode.NONE and not is_requested:
        return None
    data = bytes(partition.unaligned_records or b"")
    return SnapshotBytes(error, partition.size, data), leader.leader_epoch, leader_id

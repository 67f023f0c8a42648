"""The messages of the Raft core as requests and responses of Kafka's protocol.

Each has room for several partitions; the quorum has one, `__cluster_metadata-0`. A request for any
other is INVALID_REQUEST, and one for another cluster INCONSISTENT_CLUSTER_ID.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from barnabas.cluster.metadata.image import METADATA_TOPIC, METADATA_TOPIC_ID, Endpoint
from barnabas.cluster.quorum.epoch_history import OffsetAndEpoch
from barnabas.cluster.quorum.raft_messages import (
    BeginQuorumEpoch,
    EndQuorumEpoch,
    FetchRequest,
    FetchResponse,
    VoteRequest,
    VoteResponse,
)
from barnabas.cluster.quorum.voters import ReplicaKey
from barnabas.protocol.errors import ErrorCode, KafkaError, error_code
from barnabas.protocol.messages import (
    begin_quorum_epoch,
    end_quorum_epoch,
    fetch,
    vote,
)
from barnabas.protocol.types import ZERO_UUID

_NOBODY = -1
_UNKNOWN = -1


class LeaderState(NamedTuple):
    """The epoch, its leader and the leader's address, which every response states."""

    epoch: int
    leader_id: int | None
    endpoint: Endpoint | None


def partition_of(request: Any, cluster_id: str) -> Any:
    """Return the part of a request for the quorum's partition.

    Raises KafkaError: INCONSISTENT_CLUSTER_ID for another cluster (a request may state none),
    INVALID_REQUEST for other partitions.
    """
    if request.cluster_id is not None and request.cluster_id != cluster_id:
        raise KafkaError(ErrorCode.INCONSISTENT_CLUSTER_ID, "The request is for another cluster")
    found = only_partition(request.topics)
    if found is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "The request is not for the metadata log")
    return found


def only_partition(topics: Iterable[Any]) -> Any | None:
    """Return the only partition in an array of topics if it is the quorum's, otherwise None."""
    listed = list(topics)
    if len(listed) != 1 or len(listed[0].partitions) != 1 or not _is_metadata(listed[0]):
        return None
    partition = listed[0].partitions[0]
    index = getattr(partition, "partition_index", None)
    if index is None:
        index = getattr(partition, "partition", getattr(partition, "index", 0))
    return partition if index == 0 else None


def _is_metadata(topic: Any) -> bool:
    if getattr(topic, "topic_id", ZERO_UUID) == METADATA_TOPIC_ID:
        return True
    names = (getattr(topic, field, "") for field in ("topic_name", "topic", "name"))
    return METADATA_TOPIC in names


def _stated(node_id: int) -> int | None:
    return None if node_id < 0 else node_id


def _id(node_id: int | None) -> int:
    return _NOBODY if node_id is None else node_id


def _reachable_id(leader_id: int | None, leader: LeaderState) -> int:
    """Return the leader's id if its address is known: Kafka follows no leader without one."""
    is_reachable = leader.endpoint is not None and leader.leader_id == leader_id
    return _id(leader_id if is_reachable else None)


def _add_endpoint(response: Any, leader: LeaderState) -> Any:
    """State the leader's address, if it is known."""
    if leader.endpoint is not None and leader.leader_id is not None:
        host, port = leader.endpoint.host, leader.endpoint.port
        response.node_endpoints = [
            response.NodeEndpoint(node_id=leader.leader_id, host=host, port=port)
        ]
    return response


# Vote


def vote_request(message: VoteRequest, cluster_id: str) -> vote.VoteRequest:
    """Return the request of a candidate."""
    voter = message.voter or ReplicaKey(message.to)
    partition = vote.VoteRequest.PartitionData(
        replica_epoch=message.epoch,
        replica_id=message.candidate.id,
        replica_directory_id=message.candidate.directory_id,
        voter_directory_id=voter.directory_id,
        last_offset_epoch=message.last_epoch,
        last_offset=message.end_offset,
        pre_vote=message.pre_vote,
    )
    topic = vote.VoteRequest.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])
    return vote.VoteRequest(cluster_id=cluster_id, voter_id=voter.id, topics=[topic])


def read_vote_request(request: vote.VoteRequest, cluster_id: str, to: int) -> VoteRequest:
    """Return a candidate's request; raises KafkaError (see `partition_of`)."""
    partition: vote.VoteRequest.PartitionData = partition_of(request, cluster_id)
    voter = ReplicaKey(request.voter_id, partition.voter_directory_id)
    return VoteRequest(
        to=to,
        epoch=partition.replica_epoch,
        candidate=ReplicaKey(partition.replica_id, partition.replica_directory_id),
        last_epoch=partition.last_offset_epoch,
        end_offset=partition.last_offset,
        pre_vote=partition.pre_vote,
        voter=voter if voter.id >= 0 else None,
    )


def vote_response(message: VoteResponse, leader: LeaderState) -> vote.VoteResponse:
    """Return the voter's response."""
    partition = vote.VoteResponse.PartitionData(
        error_code=message.error,
        leader_id=_reachable_id(message.leader_id, leader),
        leader_epoch=message.epoch,
        vote_granted=message.granted,
    )
    topic = vote.VoteResponse.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])
    return _add_endpoint(vote.VoteResponse(topics=[topic]), leader)


def read_vote_response(request: VoteRequest, response: vote.VoteResponse) -> VoteResponse | None:
    """Return the response to a candidate; None when it has no use."""
    partition: vote.VoteResponse.PartitionData | None = only_partition(response.topics)
    if partition is None or partition.error_code == ErrorCode.INVALID_REQUEST:
        return None
    return VoteResponse(
        request,
        request.to,
        partition.leader_epoch,
        _stated(partition.leader_id),
        partition.vote_granted,
        error_code(partition.error_code),
    )


# BeginQuorumEpoch and EndQuorumEpoch


def begin_request(
    message: BeginQuorumEpoch, cluster_id: str, endpoints: Iterable[Endpoint]
) -> begin_quorum_epoch.BeginQuorumEpochRequest:
    """Return a leader's announcement, with the leader's endpoints."""
    request = begin_quorum_epoch.BeginQuorumEpochRequest
    voter = message.voter or ReplicaKey(message.to)
    partition = request.PartitionData(
        voter_directory_id=voter.directory_id,
        leader_id=message.leader_id,
        leader_epoch=message.epoch,
    )
    return request(
        cluster_id=cluster_id,
        voter_id=voter.id,
        topics=[request.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])],
        leader_endpoints=_listeners(request.LeaderEndpoint, endpoints),
    )


def read_begin_request(
    request: begin_quorum_epoch.BeginQuorumEpochRequest, cluster_id: str, to: int
) -> BeginQuorumEpoch:
    """Return a leader's announcement; raises KafkaError (see `partition_of`)."""
    partition: begin_quorum_epoch.BeginQuorumEpochRequest.PartitionData
    partition = partition_of(request, cluster_id)
    voter = ReplicaKey(request.voter_id, partition.voter_directory_id)
    return BeginQuorumEpoch(
        to, partition.leader_epoch, partition.leader_id, voter if voter.id >= 0 else None
    )


def end_request(
    message: EndQuorumEpoch, cluster_id: str, endpoints: Iterable[Endpoint]
) -> end_quorum_epoch.EndQuorumEpochRequest:
    """Return a leader's resignation, with its successors in the fields of every version."""
    request = end_quorum_epoch.EndQuorumEpochRequest
    partition = request.PartitionData(
        leader_id=message.leader_id,
        leader_epoch=message.epoch,
        preferred_successors=[each.id for each in message.preferred],
        preferred_candidates=[
            request.ReplicaInfo(candidate_id=each.id, candidate_directory_id=each.directory_id)
            for each in message.preferred
        ],
    )
    return request(
        cluster_id=cluster_id,
        topics=[request.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])],
        leader_endpoints=_listeners(request.LeaderEndpoint, endpoints),
    )


def read_end_request(
    request: end_quorum_epoch.EndQuorumEpochRequest, cluster_id: str, to: int
) -> EndQuorumEpoch:
    """Return a leader's resignation; raises KafkaError (see `partition_of`)."""
    partition: end_quorum_epoch.EndQuorumEpochRequest.PartitionData
    partition = partition_of(request, cluster_id)
    preferred = tuple(
        ReplicaKey(each.candidate_id, each.candidate_directory_id)
        for each in partition.preferred_candidates
    ) or tuple(ReplicaKey(voter_id) for voter_id in partition.preferred_successors)
    return EndQuorumEpoch(to, partition.leader_epoch, partition.leader_id, preferred)


def epoch_response(response_type: Any, error: ErrorCode, leader: LeaderState) -> Any:
    """Return the response to BeginQuorumEpoch or EndQuorumEpoch."""
    partition = response_type.PartitionData(
        error_code=error, leader_id=_id(leader.leader_id), leader_epoch=leader.epoch
    )
    topic = response_type.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])
    return _add_endpoint(response_type(topics=[topic]), leader)


def read_epoch_response(response: Any) -> tuple[int, int | None] | None:
    """Return the epoch and the leader that such a response states; None when it states none."""
    partition = only_partition(response.topics)
    if partition is None:
        return None
    return partition.leader_epoch, _stated(partition.leader_id)


def _listeners(listener: Any, endpoints: Iterable[Endpoint]) -> list[Any]:
    return [listener(name=each.name, host=each.host, port=each.port) for each in endpoints]


# Fetch


class FetchLimits(NamedTuple):
    """The limits of a Fetch, in addition to the core's message."""

    max_bytes: int
    max_wait_ms: int
    high_watermark: int
    """The high watermark that the replica knows; -1 for none."""


def fetch_request(
    message: FetchRequest, cluster_id: str, limits: FetchLimits
) -> fetch.FetchRequest:
    """Return the request of a replica."""
    request = fetch.FetchRequest
    partition = request.FetchPartition(
        current_leader_epoch=message.epoch,
        fetch_offset=message.offset,
        last_fetched_epoch=message.last_epoch,
        partition_max_bytes=limits.max_bytes,
        replica_directory_id=message.replica.directory_id,
        high_watermark=limits.high_watermark,
    )
    topic = request.FetchTopic(
        topic=METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[partition]
    )
    return request(
        cluster_id=cluster_id,
        replica_state=request.ReplicaState(replica_id=message.replica.id),
        max_wait_ms=limits.max_wait_ms,
        max_bytes=limits.max_bytes,
        topics=[topic],
    )


def read_fetch_request(
    request: fetch.FetchRequest, cluster_id: str
) -> tuple[FetchRequest, FetchLimits]:
    """Return the request of a replica; raises KafkaError (see `partition_of`)."""
    partition: fetch.FetchRequest.FetchPartition = partition_of(request, cluster_id)
    if request.max_wait_ms < 0 or partition.current_leader_epoch < 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "A wait time or an epoch is negative")
    replica_id = max(request.replica_id, request.replica_state.replica_id)
    message = FetchRequest(
        None,
        partition.current_leader_epoch,
        ReplicaKey(replica_id, partition.replica_directory_id),
        partition.fetch_offset,
        partition.last_fetched_epoch,
    )
    limits = FetchLimits(request.max_bytes, request.max_wait_ms, partition.high_watermark)
    return message, limits


def fetch_response(
    message: FetchResponse, records: bytes, log_start_offset: int, leader: LeaderState
) -> fetch.FetchResponse:
    """Return the response to a replica."""
    response = fetch.FetchResponse
    partition = response.PartitionData(
        error_code=message.error,
        high_watermark=message.high_watermark,
        log_start_offset=log_start_offset,
        current_leader=response.LeaderIdAndEpoch(
            leader_id=_reachable_id(message.leader_id, leader), leader_epoch=message.epoch
        ),
        records=records,
    )
    if message.diverging is not None:
        partition.diverging_epoch = response.EpochEndOffset(
            epoch=message.diverging.epoch, end_offset=message.diverging.offset
        )
    if message.snapshot is not None:
        partition.snapshot_id = response.SnapshotId(
            end_offset=message.snapshot.offset, epoch=message.snapshot.epoch
        )
    topic = response.FetchableTopicResponse(
        topic=METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[partition]
    )
    return _add_endpoint(response(responses=[topic]), leader)


def read_fetch_response(response: fetch.FetchResponse) -> tuple[FetchResponse, bytes] | None:
    """Return a response and its records; None when it is an error without an epoch."""
    partition: fetch.FetchResponse.PartitionData | None = only_partition(response.responses)
    if response.error_code or partition is None:
        return None
    diverging, snapshot = partition.diverging_epoch, partition.snapshot_id
    message = FetchResponse(
        partition.current_leader.leader_epoch,
        _stated(partition.current_leader.leader_id),
        error_code(partition.error_code),
        partition.high_watermark,
        _offset(diverging.end_offset, diverging.epoch),
        _offset(snapshot.end_offset, snapshot.epoch),
    )
    return message, bytes(partition.records or b"")


def _offset(offset: int, epoch: int) -> OffsetAndEpoch | None:
    """Return an offset with its epoch; None where either is unknown."""
    return None if offset == _UNKNOWN or epoch == _UNKNOWN else OffsetAndEpoch(offset, epoch)

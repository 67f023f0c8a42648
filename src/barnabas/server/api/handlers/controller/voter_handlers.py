"""AddRaftVoter, RemoveRaftVoter and UpdateRaftVoter: the leader changes the voters (KIP-853)."""

from typing import TYPE_CHECKING, Any

from barnabas.cluster.metadata.image import Endpoint
from barnabas.cluster.quorum.voters import ReplicaKey, Voter
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from barnabas.protocol.messages.remove_raft_voter import (
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)
from barnabas.protocol.messages.update_raft_voter import (
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
)
from barnabas.server.api.context import RequestContext

if TYPE_CHECKING:
    from barnabas.server.quorum.quorum import Quorum


async def add_raft_voter(
    ctx: "RequestContext[Quorum]", request: AddRaftVoterRequest
) -> AddRaftVoterResponse:
    """Make an observer a voter."""
    quorum = ctx.services
    _check_cluster(quorum, request.cluster_id)
    await quorum.voter_changes.add(
        ReplicaKey(request.voter_id, request.voter_directory_id),
        _endpoints(request.listeners),
        timeout_s=request.timeout_ms / 1000,
        wait_for_commit=request.ack_when_committed,
    )
    return AddRaftVoterResponse()


async def remove_raft_voter(
    ctx: "RequestContext[Quorum]", request: RemoveRaftVoterRequest
) -> RemoveRaftVoterResponse:
    """Remove a voter."""
    quorum = ctx.services
    _check_cluster(quorum, request.cluster_id)
    await quorum.voter_changes.remove(ReplicaKey(request.voter_id, request.voter_directory_id))
    return RemoveRaftVoterResponse()


async def update_raft_voter(
    ctx: "RequestContext[Quorum]", request: UpdateRaftVoterRequest
) -> UpdateRaftVoterResponse:
    """Note a voter's endpoints and versions; the response names the current leader."""
    quorum = ctx.services
    response = UpdateRaftVoterResponse()
    try:
        _check_cluster(quorum, request.cluster_id)
        quorum.check_leader_epoch(request.current_leader_epoch)
        key = ReplicaKey(request.voter_id, request.voter_directory_id)
        versions = request.kraft_version_feature
        low, high = versions.min_supported_version, versions.max_supported_version
        await quorum.voter_changes.update(Voter(key, _endpoints(request.listeners), low, high))
    except KafkaError as error:
        response.error_code = error.code
    leader = quorum.addresses.leader_state(ctx.connection.listener_name)
    if leader.endpoint is not None and leader.leader_id is not None:
        response.current_leader = UpdateRaftVoterResponse.CurrentLeader(
            leader_id=leader.leader_id,
            leader_epoch=leader.epoch,
            host=leader.endpoint.host,
            port=leader.endpoint.port,
        )
    return response


def _check_cluster(quorum: "Quorum", cluster_id: str | None) -> None:
    if cluster_id is not None and cluster_id != quorum.cluster_id:
        raise KafkaError(ErrorCode.INCONSISTENT_CLUSTER_ID, "The request is for another cluster")


def _endpoints(listeners: list[Any]) -> tuple[Endpoint, ...]:
    return tuple(Endpoint(each.name, each.host, each.port) for each in listeners)

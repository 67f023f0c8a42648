"""Requests between replicas of the quorum: Fetch, FetchSnapshot, Vote, Begin- and EndQuorumEpoch.

They come through the controller listener (KIP-595). The node's Raft core decides; the responses
name the leader of the epoch and its address.
"""

from contextlib import nullcontext
from typing import TYPE_CHECKING

from barnabas.cluster.metadata.image import Endpoint
from barnabas.cluster.quorum import raft_wire, snapshot_wire
from barnabas.protocol.messages.begin_quorum_epoch import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
)
from barnabas.protocol.messages.end_quorum_epoch import (
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
)
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.messages.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotResponse,
)
from barnabas.protocol.messages.vote import VoteRequest, VoteResponse
from barnabas.server.api.context import RequestContext

if TYPE_CHECKING:
    from barnabas.server.quorum.quorum import Quorum


async def vote(ctx: "RequestContext[Quorum]", request: VoteRequest) -> VoteResponse:
    """Answer a candidate, once the vote is durable."""
    quorum = ctx.services
    message = raft_wire.read_vote_request(request, quorum.cluster_id, quorum.core.local.key.id)
    response = await quorum.raft.vote(message)
    return raft_wire.vote_response(
        response, quorum.addresses.leader_state(ctx.connection.listener_name)
    )


async def begin_quorum_epoch(
    ctx: "RequestContext[Quorum]", request: BeginQuorumEpochRequest
) -> BeginQuorumEpochResponse:
    """Follow a leader that announces itself."""
    quorum = ctx.services
    message = raft_wire.read_begin_request(request, quorum.cluster_id, quorum.core.local.key.id)
    endpoints = [Endpoint(each.name, each.host, each.port) for each in request.leader_endpoints]
    quorum.addresses.learn_leader(message.epoch, message.leader_id, endpoints)
    error = await quorum.raft.follow_announcement(message)
    leader = quorum.addresses.leader_state(ctx.connection.listener_name)
    return raft_wire.epoch_response(BeginQuorumEpochResponse, error, leader)


async def end_quorum_epoch(
    ctx: "RequestContext[Quorum]", request: EndQuorumEpochRequest
) -> EndQuorumEpochResponse:
    """Take note that the leader resigned."""
    quorum = ctx.services
    message = raft_wire.read_end_request(request, quorum.cluster_id, quorum.core.local.key.id)
    error = await quorum.raft.follow_announcement(message)
    leader = quorum.addresses.leader_state(ctx.connection.listener_name)
    return raft_wire.epoch_response(EndQuorumEpochResponse, error, leader)


async def fetch(ctx: "RequestContext[Quorum]", request: FetchRequest) -> FetchResponse:
    """Answer a replica that fetches the metadata log."""
    quorum = ctx.services
    message, limits = raft_wire.read_fetch_request(request, quorum.cluster_id)
    is_broker = message.replica.id in quorum.image.brokers
    follower = quorum.followers.fetching(message.replica.id, limits.high_watermark)
    with follower if is_broker else nullcontext():
        response, records = await quorum.raft.answer_fetch(message, limits)
    leader = quorum.addresses.leader_state(ctx.connection.listener_name)
    return raft_wire.fetch_response(response, records, quorum.core.log.start_offset, leader)


def fetch_snapshot(
    ctx: "RequestContext[Quorum]", request: FetchSnapshotRequest
) -> FetchSnapshotResponse:
    """Answer a replica that lacks records which only a snapshot has."""
    quorum = ctx.services
    part = snapshot_wire.read_snapshot_request(request, quorum.cluster_id)
    answer = quorum.raft.answer_snapshot(part)
    return snapshot_wire.snapshot_response(
        part, answer, quorum.addresses.leader_state(ctx.connection.listener_name)
    )

"""The leaders of partitions that a Fetch requested from the wrong broker (KIP-951)."""

from collections.abc import Iterable

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.server.api.handler_services import DataContext
from barnabas.server.api.handlers.data.current_leader import current_leader
from barnabas.server.replication.fetch_sessions import FetchedPartition


def add_leaders(
    context: DataContext, response: FetchResponse, answered: Iterable[FetchedPartition]
) -> None:
    """Add the leader and its endpoint to the answers that refuse for another leader or epoch."""
    topics = context.services.replicas.image.topics_by_id
    endpoints: dict[int, FetchResponse.NodeEndpoint] = {}
    for fetched in answered:
        answer = fetched.answer
        topic = topics.get(fetched.key[0])  # pyright: ignore[reportArgumentType]
        if topic is None or answer.error_code not in (
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ErrorCode.FENCED_LEADER_EPOCH,
        ):
            continue
        leader, epoch, endpoint, rack = current_leader(context, topic.name, fetched.key[1])
        answer.current_leader = FetchResponse.LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)
        if endpoint is not None:
            endpoints[leader] = FetchResponse.NodeEndpoint(
                node_id=leader, host=endpoint.host, port=endpoint.port, rack=rack
            )
    response.node_endpoints = list(endpoints.values())

"""FindCoordinator v0-6: the coordinators of groups and transactional ids.

Since v4 a request has many keys (KIP-699). The first request creates `__consumer_offsets` or
`__transaction_state`.
"""

import logging

from barnabas.cluster.metadata.image import Endpoint
from barnabas.coordinator.core.routing import partition_for
from barnabas.protocol.errors import ErrorCode, KafkaError, error_code
from barnabas.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from barnabas.server.api.handler_services import GroupsContext
from barnabas.server.coordinators.internal_topics import (
    OFFSETS_TOPIC,
    TRANSACTION_TOPIC,
)

logger = logging.getLogger(__name__)

# key type -> the topic to whose partitions the keys hash.
TOPICS = {0: OFFSETS_TOPIC, 1: TRANSACTION_TOPIC}
BATCHED_VERSION = 4


async def find_coordinator(
    ctx: GroupsContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse:
    """Return the coordinator of each key, or an error."""
    if ctx.version >= BATCHED_VERSION:
        return FindCoordinatorResponse(
            coordinators=[
                await _find(ctx, request.key_type, key) for key in request.coordinator_keys
            ]
        )
    found = await _find(ctx, request.key_type, request.key)
    return FindCoordinatorResponse(
        error_code=found.error_code,
        # Before v4 Kafka sends "NONE" with a success.
        error_message=found.error_message or error_code(found.error_code).name,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


async def _find(ctx: GroupsContext, key_type: int, key: str) -> FindCoordinatorResponse.Coordinator:
    try:
        node_id, endpoint = await _coordinator_of(ctx, key_type, key)
    except KafkaError as error:
        return FindCoordinatorResponse.Coordinator(
            key=key,
            node_id=-1,
            host="",
            port=-1,
            error_code=error.code,
            error_message=error.message,
        )
    return FindCoordinatorResponse.Coordinator(
        key=key, node_id=node_id, host=endpoint.host, port=endpoint.port
    )


async def _coordinator_of(ctx: GroupsContext, key_type: int, key: str) -> tuple[int, Endpoint]:
    name = TOPICS.get(key_type)
    if name is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"key type {key_type} is not supported")
    services = ctx.services
    if name not in services.image().topics_by_name:
        await services.create_internal_topic(name)
    image = services.image()
    topic = image.topics_by_name.get(name)
    if topic is not None:
        leader = topic.partitions[partition_for(key, len(topic.partitions))].leader
        broker = image.brokers.get(leader)
        if broker is not None and not broker.fenced:
            endpoint = broker.endpoints.get(ctx.connection.listener_name)
            if endpoint is not None:
                return leader, endpoint
    raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the partition has no leader")

"""Metadata v0-13: the brokers and topics that a client needs to start.

Brokers have the endpoint of the client's listener. The request names topics by name or id, or all
of them. A missing topic is created if client and broker both allow it.
"""

from collections.abc import Iterable, Mapping

from barnabas.cluster.metadata.image import BrokerImage, MetadataImage, PartitionImage, TopicImage
from barnabas.cluster.metadata.topic_names import refusal
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.types import ZERO_UUID
from barnabas.server.api.handler_services import MetadataContext
from barnabas.server.api.handlers.metadata.authorized_operations import (
    CLUSTER_OPERATIONS,
    TOPIC_OPERATIONS,
)

Topic = MetadataResponse.MetadataResponseTopic
Partition = MetadataResponse.MetadataResponsePartition

# The first version in which an empty list requests no topics instead of all.
_EMPTY_MEANS_NONE_SINCE = 1
# Before it, a leader without the client's listener is LEADER_NOT_AVAILABLE.
_LISTENER_NOT_FOUND_SINCE = 6
_AUTO_CREATION_FLAG_SINCE = 4
# The field exists since version 10, but requests may use it only since 12 (KAFKA-10774).
_TOPIC_IDS_SINCE = 12


async def metadata(ctx: MetadataContext, request: MetadataRequest) -> MetadataResponse:
    """Return the requested topics from one image, which lacks topics that this request creates.

    Kafka also answers UNKNOWN_TOPIC_OR_PARTITION for those, and clients retry.
    """
    wanted = request.topics or ()
    if ctx.version < _TOPIC_IDS_SINCE:
        check_named(wanted, ctx.version)
    await ctx.services.settle_failures()
    image = ctx.services.image()
    if lists_all_topics(ctx, request):
        topics = [_topic(ctx, image, topic) for topic in image.topics_by_name.values()]
    else:
        errors = await _create_missing(ctx, request)
        topics = list(_asked(ctx, image, wanted, errors))
    if request.include_topic_authorized_operations:
        for topic in topics:
            if topic.name is not None:
                topic.topic_authorized_operations = TOPIC_OPERATIONS
    response = MetadataResponse(
        brokers=list(_brokers(image, ctx.connection.listener_name, ctx.services.just_ended())),
        cluster_id=image.cluster_id,
        controller_id=alive_controller(image, ctx.services.settings.current.node_id),
        topics=topics,
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    return response


def lists_all_topics(ctx: MetadataContext, request: MetadataRequest) -> bool:
    """True when the request asks for all topics."""
    if request.topics is None:
        return True
    return not request.topics and ctx.version < _EMPTY_MEANS_NONE_SINCE


def check_named(wanted: Iterable[MetadataRequest.MetadataRequestTopic], version: int) -> None:
    """Raise KafkaError INVALID_REQUEST for topic ids in a version that does not allow them."""
    for topic in wanted:
        if topic.name is None:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"Topic name can not be null for version {version}"
            )
        if topic.topic_id != ZERO_UUID:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Topic IDs are not supported in requests for version {version}",
            )


def alive_controller(image: MetadataImage, node_id: int) -> int:
    """Return a broker for controller requests: this one, or any if it is fenced; -1 for none.

    Brokers forward those requests, so Kafka names a random one. librdkafka does not ask again while
    the named one is down, unless it opens a connection: the broker that answers is the one
    whose end it notices.
    """
    alive = sorted(broker.id for broker in image.brokers.values() if not broker.fenced)
    if node_id in alive:
        return node_id
    return alive[0] if alive else -1


def _brokers(
    image: MetadataImage, listener_name: str, just_ended: frozenset[int]
) -> Iterable[MetadataResponse.MetadataResponseBroker]:
    for broker in image.brokers.values():
        endpoint = broker.endpoints.get(listener_name)
        is_listed = not broker.fenced or broker.id in just_ended
        if is_listed and endpoint is not None:
            yield MetadataResponse.MetadataResponseBroker(
                node_id=broker.id, host=endpoint.host, port=endpoint.port, rack=broker.rack
            )


def may_create_topics(ctx: MetadataContext, request: MetadataRequest) -> bool:
    """True when client and broker allow that a missing topic is created."""
    if ctx.version >= _AUTO_CREATION_FLAG_SINCE and not request.allow_auto_topic_creation:
        return False
    return ctx.services.settings.current.get_bool("auto.create.topics.enable")


async def _create_missing(ctx: MetadataContext, request: MetadataRequest) -> dict[str, ErrorCode]:
    """Create the named topics that do not exist; return the errors by name."""
    if not may_create_topics(ctx, request):
        return {}
    known = ctx.services.image().topics_by_name
    missing = {
        topic.name: None
        for topic in request.topics or ()
        if topic.name is not None and topic.topic_id == ZERO_UUID and topic.name not in known
    }
    return await ctx.services.create_topics(list(missing), ctx) if missing else {}


def _asked(
    ctx: MetadataContext,
    image: MetadataImage,
    wanted: Iterable[MetadataRequest.MetadataRequestTopic],
    errors: dict[str, ErrorCode],
) -> Iterable[Topic]:
    answered: set[object] = set()
    wanted = [asked for asked in wanted if asked.topic_id != ZERO_UUID] or wanted
    for asked in wanted:
        key = asked.name if asked.topic_id == ZERO_UUID else asked.topic_id
        if key in answered:
            continue
        answered.add(key)
        if asked.topic_id != ZERO_UUID:
            topic = image.topics_by_id.get(asked.topic_id)
            yield (
                _topic(ctx, image, topic)
                if topic is not None
                else Topic(
                    name=None, topic_id=asked.topic_id, error_code=ErrorCode.UNKNOWN_TOPIC_ID
                )
            )
            continue
        name = asked.name or ""
        topic = image.topics_by_name.get(name)
        if topic is not None:
            yield _topic(ctx, image, topic)
        elif refusal(name) is not None:
            yield Topic(name=name, error_code=ErrorCode.INVALID_TOPIC_EXCEPTION)
        else:
            code = errors.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            yield Topic(name=name, error_code=code)


def _topic(ctx: MetadataContext, image: MetadataImage, topic: TopicImage) -> Topic:
    listener_name, version = ctx.connection.listener_name, ctx.version
    return Topic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.is_internal,
        partitions=[
            _partition(image.brokers, number, partition, listener_name, version)
            for number, partition in topic.partitions.items()
        ],
    )


def _partition(
    brokers: Mapping[int, BrokerImage],
    number: int,
    partition: PartitionImage,
    listener_name: str,
    version: int,
) -> Partition:
    leader = brokers.get(partition.leader)
    code = ErrorCode.NONE
    if leader is None or leader.fenced:
        code = ErrorCode.LEADER_NOT_AVAILABLE
    elif listener_name not in leader.endpoints:
        code = ErrorCode.LISTENER_NOT_FOUND
        if version < _LISTENER_NOT_FOUND_SINCE:
            code = ErrorCode.LEADER_NOT_AVAILABLE
    return Partition(
        error_code=code,
        partition_index=number,
        leader_id=-1 if code else partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        offline_replicas=offline_replicas(brokers, partition, listener_name),
    )


def offline_replicas(
    brokers: Mapping[int, BrokerImage], partition: PartitionImage, listener_name: str
) -> list[int]:
    """Return the replicas whose broker is fenced, or lacks the client's listener.

    Also those in directories that failed (`KRaftMetadataCache.isReplicaOffline`).
    """
    return [
        replica
        for replica in partition.replicas
        if (broker := brokers.get(replica)) is None
        or broker.fenced
        or listener_name not in broker.endpoints
        or not broker.has_online(partition.directory(replica))
    ]

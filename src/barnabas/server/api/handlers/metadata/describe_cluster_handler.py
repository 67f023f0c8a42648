"""DescribeCluster v0-2 and DescribeTopicPartitions v0: the cluster and its topics, in detail."""

from collections.abc import Iterable

from barnabas.cluster.metadata.image import MetadataImage, TopicImage
from barnabas.cluster.metadata.topic_names import refusal
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from barnabas.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from barnabas.server.api.handler_services import MetadataContext
from barnabas.server.api.handlers.metadata.authorized_operations import (
    CLUSTER_OPERATIONS,
    TOPIC_OPERATIONS,
)
from barnabas.server.api.handlers.metadata.metadata_handler import (
    alive_controller,
    offline_replicas,
)

# org.apache.kafka.clients.admin.EndpointType
_BROKERS, _CONTROLLERS = 1, 2

Broker = DescribeClusterResponse.DescribeClusterBroker
Topic = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic
Partition = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition


def describe_brokers(
    ctx: MetadataContext, request: DescribeClusterRequest
) -> DescribeClusterResponse:
    """Answer on a broker listener: the cluster's id, its controller and its brokers."""
    if request.endpoint_type != _BROKERS:
        return _wrong_endpoint_type(request.endpoint_type, _BROKERS)
    image, listener_name = ctx.services.image(), ctx.connection.listener_name
    response = _described(image, request)
    response.controller_id = alive_controller(image, ctx.services.settings.current.node_id)
    response.brokers = list(_brokers(image, listener_name, fenced=request.include_fenced_brokers))
    return response


def describe_controllers(
    ctx: MetadataContext, request: DescribeClusterRequest
) -> DescribeClusterResponse:
    """Answer on a controller listener: the cluster's id, its active controller and all of them."""
    if request.endpoint_type != _CONTROLLERS:
        return _wrong_endpoint_type(request.endpoint_type, _CONTROLLERS)
    image = ctx.services.image()
    response = _described(image, request)
    response.controller_id = image.controller_id
    response.brokers = list(_controllers(image, ctx.connection.listener_name))
    return response


def _described(image: MetadataImage, request: DescribeClusterRequest) -> DescribeClusterResponse:
    response = DescribeClusterResponse(
        endpoint_type=request.endpoint_type, cluster_id=image.cluster_id, error_message=None
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    return response


def _wrong_endpoint_type(requested: int, expected: int) -> DescribeClusterResponse:
    names = {_BROKERS: "BROKER", _CONTROLLERS: "CONTROLLER"}
    if requested not in names:
        code, message = (
            ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            f"Unsupported endpoint type {requested}",
        )
    else:
        code = ErrorCode.MISMATCHED_ENDPOINT_TYPE
        message = (
            f"The request was sent to an endpoint of type {names[expected]}, but we wanted an "
            f"endpoint of type {names[requested]}"
        )
    return DescribeClusterResponse(error_code=code, error_message=message, cluster_id="")


def _brokers(image: MetadataImage, listener_name: str, *, fenced: bool) -> Iterable[Broker]:
    for broker in image.brokers.values():
        endpoint = broker.endpoints.get(listener_name)
        if endpoint is not None and (fenced or not broker.fenced):
            yield Broker(
                broker_id=broker.id,
                host=endpoint.host,
                port=endpoint.port,
                rack=broker.rack,
                is_fenced=broker.fenced,
            )


def _controllers(image: MetadataImage, listener_name: str) -> Iterable[Broker]:
    for controller in image.controllers.values():
        endpoint = controller.endpoints.get(listener_name)
        if endpoint is not None:
            yield Broker(broker_id=controller.id, host=endpoint.host, port=endpoint.port)


# DescribeTopicPartitions


def describe_topic_partitions(
    ctx: MetadataContext, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    """Return topics sorted by name from the cursor on, up to a number of partitions."""
    return describe_topics(ctx, request, requested_topics(ctx, request))


def requested_topics(ctx: MetadataContext, request: DescribeTopicPartitionsRequest) -> list[str]:
    """Return the sorted names from the cursor on.

    Raises KafkaError INVALID_REQUEST for an invalid cursor.
    """
    image, cursor = ctx.services.image(), request.cursor
    start = cursor.topic_name if cursor is not None else ""
    requested = {topic.name for topic in request.topics}
    names = sorted(name for name in requested or image.topics_by_name if name >= start)
    if cursor is not None and requested and start not in requested:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"DescribeTopicPartitionsRequest topic list should contain the cursor topic: {start}",
        )
    if cursor is not None and cursor.partition_index < 0:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"DescribeTopicPartitionsRequest cursor partition must be valid: {cursor}",
        )
    return names


def describe_topics(
    ctx: MetadataContext, request: DescribeTopicPartitionsRequest, names: Iterable[str]
) -> DescribeTopicPartitionsResponse:
    """Return the named topics, up to the requested number of partitions."""
    image, cursor = ctx.services.image(), request.cursor
    start = cursor.topic_name if cursor is not None else ""
    limit = ctx.services.settings.current.get_int("max.request.partition.size.limit")
    left = max(min(limit, request.response_partition_limit), 1)
    response = DescribeTopicPartitionsResponse(topics=[])
    for name in names:
        topic = image.topics_by_name.get(name)
        first = cursor.partition_index if cursor and name == start else 0
        next_index: int | None = 0
        if left and topic is None:
            next_index = None
            if request.topics:
                response.topics.append(_unknown(name))
        elif left and topic is not None:
            left, next_index = _describe(ctx, response, topic, first, left)
        if next_index is not None:
            response.next_cursor = DescribeTopicPartitionsResponse.Cursor(
                topic_name=name, partition_index=next_index
            )
            break
    return response


def _unknown(name: str) -> Topic:
    invalid = refusal(name) is not None
    code = ErrorCode.INVALID_TOPIC_EXCEPTION if invalid else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return Topic(name=name, error_code=code, topic_authorized_operations=TOPIC_OPERATIONS)


def _describe(
    ctx: MetadataContext,
    response: DescribeTopicPartitionsResponse,
    topic: TopicImage,
    first: int,
    left: int,
) -> tuple[int, int | None]:
    """Add a topic's partitions from `first` on; return the rest of the limit and the next index."""
    brokers, listener_name = ctx.services.image().brokers, ctx.connection.listener_name
    numbers = sorted(number for number in topic.partitions if number >= first)
    answer = Topic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.is_internal,
        topic_authorized_operations=TOPIC_OPERATIONS,
    )
    response.topics.append(answer)
    for number in numbers[:left]:
        partition = topic.partitions[number]
        leader = brokers.get(partition.leader)
        code = ErrorCode.NONE
        if leader is None or leader.fenced:
            code = ErrorCode.LEADER_NOT_AVAILABLE
        elif listener_name not in leader.endpoints:
            code = ErrorCode.LISTENER_NOT_FOUND
        answer.partitions.append(
            Partition(
                error_code=code,
                partition_index=number,
                leader_id=-1 if code else partition.leader,
                leader_epoch=partition.leader_epoch,
                replica_nodes=list(partition.replicas),
                isr_nodes=list(partition.isr),
                eligible_leader_replicas=list(partition.elr),
                last_known_elr=list(partition.last_known_elr),
                offline_replicas=offline_replicas(brokers, partition, listener_name),
            )
        )
    rest = numbers[left:]
    return max(left - len(numbers), 0), rest[0] if rest else None

"""Guards of Metadata, DescribeCluster and DescribeTopicPartitions."""

from collections.abc import Container

from barnabas.cluster.metadata.acls import AclOperation, ResourceType
from barnabas.cluster.metadata.image import INTERNAL_TOPICS
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from barnabas.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.types import ZERO_UUID
from barnabas.server.api.guards.guarded_answers import Answer, completed
from barnabas.server.api.handler_services import MetadataContext
from barnabas.server.api.handlers.metadata.describe_cluster_handler import (
    describe_topics,
    requested_topics,
)
from barnabas.server.api.handlers.metadata.metadata_handler import (
    check_named,
    lists_all_topics,
    may_create_topics,
)
from barnabas.server.api.permissions import (
    may_on_cluster,
    operations_on,
    operations_on_cluster,
    permitted,
    require_on_cluster,
)
from barnabas.server.api.registry import Handler

Asked = MetadataRequest.MetadataRequestTopic
Topic = MetadataResponse.MetadataResponseTopic
TOPIC = ResourceType.TOPIC

_TOPIC_IDS_SINCE = 12
_NOT_REQUESTED = -(1 << 31)
_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


async def metadata(ctx: MetadataContext, request: MetadataRequest, handler: Handler) -> Answer:
    """DESCRIBE on each topic; CREATE on the cluster or the topic for one that is created.

    A topic that the sender may not describe is answered as a missing one is, except for its code.
    """
    denied: list[Topic] = []
    if lists_all_topics(ctx, request):
        response = await handler(ctx, request)
        names = [topic.name for topic in response.topics]
        shown: Container[str] = permitted(
            ctx, AclOperation.DESCRIBE, TOPIC, names, log_denied=False
        )
        response.topics = [topic for topic in response.topics if topic.name in shown]
    else:
        if ctx.version < _TOPIC_IDS_SINCE:
            check_named(request.topics or (), ctx.version)
        denied = _take_denied(ctx, request)
        has_topics = bool(request.topics)
        response = await handler(ctx, request)
        if not has_topics:  # in version 0 an empty list requests all of them
            response.topics = []
    for topic in response.topics:
        if topic.topic_authorized_operations != _NOT_REQUESTED:
            topic.topic_authorized_operations = operations_on(ctx, TOPIC, topic.name)
    if response.cluster_authorized_operations != _NOT_REQUESTED:
        response.cluster_authorized_operations = operations_on_cluster(ctx)
    response.topics += denied
    return response


def _take_denied(ctx: MetadataContext, request: MetadataRequest) -> list[Topic]:
    """Remove from the request what the sender may not do; return the answers to it."""
    image = ctx.services.image()
    asked = request.topics or []
    by_id = [each for each in asked if each.topic_id != ZERO_UUID]
    names: dict[str, Asked] = {}
    for each in by_id or asked:
        if not by_id:
            names.setdefault(each.name or "", each)
        elif (topic := image.topics_by_id.get(each.topic_id)) is not None:
            names.setdefault(topic.name, each)
    shown = permitted(ctx, AclOperation.DESCRIBE, TOPIC, names)
    refused = {name: each for name, each in names.items() if name not in shown}
    missing = [name for name in shown if name not in image.topics_by_name]
    uncreated = set[str]()
    if missing and may_create_topics(ctx, request):
        uncreated = _not_creatable(ctx, missing)
    kept = [each for name, each in names.items() if name in shown - uncreated]
    if by_id:
        unknown = [each for each in by_id if each.topic_id not in image.topics_by_id]
        request.topics = kept + unknown
        return [
            Topic(name=None, topic_id=each.topic_id, error_code=_DENIED)
            for each in refused.values()
        ]
    request.topics = kept
    return [
        *(Topic(name=name, error_code=_DENIED, is_internal=name in INTERNAL_TOPICS)
          for name in uncreated),
        *(Topic(name=name, error_code=_DENIED) for name in refused),
    ]  # fmt: skip


def _not_creatable(ctx: MetadataContext, names: list[str]) -> set[str]:
    if may_on_cluster(ctx, AclOperation.CREATE, log_denied=False):
        return set()
    return set(names) - permitted(ctx, AclOperation.CREATE, TOPIC, names)


def describe_cluster(
    ctx: MetadataContext, request: DescribeClusterRequest, handler: Handler
) -> Answer:
    """Every client may call it; the authorized operations need DESCRIBE on the cluster."""

    def complete(response: DescribeClusterResponse) -> None:
        if response.cluster_authorized_operations != _NOT_REQUESTED:
            response.cluster_authorized_operations = operations_on_cluster(ctx)

    return completed(handler(ctx, request), complete)


def describe_controllers(
    ctx: MetadataContext, request: DescribeClusterRequest, handler: Handler
) -> Answer:
    """ALTER on the cluster; the authorized operations need DESCRIBE, too."""
    require_on_cluster(ctx, AclOperation.ALTER)
    return describe_cluster(ctx, request, handler)


def describe_topic_partitions(
    ctx: MetadataContext, request: DescribeTopicPartitionsRequest, _handler: Handler
) -> DescribeTopicPartitionsResponse:
    """DESCRIBE on each topic."""
    names = requested_topics(ctx, request)
    shown = permitted(ctx, AclOperation.DESCRIBE, TOPIC, names)
    response = describe_topics(ctx, request, [name for name in names if name in shown])
    for topic in response.topics:
        topic.topic_authorized_operations = operations_on(ctx, TOPIC, topic.name or "")
    if request.topics:
        response.topics += [
            DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic(
                name=name, error_code=_DENIED
            )
            for name in names
            if name not in shown
        ]
    return response

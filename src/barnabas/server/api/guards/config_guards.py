"""Guards of DescribeConfigs, and of AlterConfigs and IncrementalAlterConfigs at the controller."""

from collections import Counter
from typing import Any, Final

from barnabas.cluster.metadata.acls import CLUSTER_NAME, AclOperation, ResourceType
from barnabas.cluster.metadata.image import (
    RESOURCE_BROKER,
    RESOURCE_BROKER_LOGGER,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_GROUP,
    RESOURCE_TOPIC,
)
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from barnabas.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
)
from barnabas.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from barnabas.server.api.context import AnyContext
from barnabas.server.api.guards.guarded_answers import Answer, completed
from barnabas.server.api.permissions import MESSAGES, may
from barnabas.server.api.registry import Handler

_CODES: Final = {
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
}


def _resource(kind: int, name: str) -> tuple[ResourceType, str] | None:
    """Return the resource whose ACLs concern a configuration; None for an unknown type."""
    if kind == RESOURCE_TOPIC:
        return ResourceType.TOPIC, name
    if kind == RESOURCE_GROUP:
        return ResourceType.GROUP, name
    if kind in (RESOURCE_BROKER, RESOURCE_BROKER_LOGGER, RESOURCE_CLIENT_METRICS):
        return ResourceType.CLUSTER, CLUSTER_NAME
    return None


def describe_configs(ctx: AnyContext, request: DescribeConfigsRequest, handler: Handler) -> Answer:
    """DESCRIBE_CONFIGS on the topic, the group, or the cluster for all other types.

    Raises KafkaError INVALID_REQUEST for an unknown type.
    """
    allowed: list[DescribeConfigsRequest.DescribeConfigsResource] = []
    denied: list[DescribeConfigsResponse.DescribeConfigsResult] = []
    for each in request.resources:
        resource = _resource(each.resource_type, each.resource_name)
        if resource is None:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Unexpected resource type UNKNOWN for resource {each.resource_name}",
            )
        if may(ctx, AclOperation.DESCRIBE_CONFIGS, *resource):
            allowed.append(each)
            continue
        code = _CODES[resource[0]]
        denied.append(
            DescribeConfigsResponse.DescribeConfigsResult(
                error_code=code,
                error_message=MESSAGES[code],
                resource_type=each.resource_type,
                resource_name=each.resource_name,
            )
        )
    request.resources = allowed
    return completed(handler(ctx, request), lambda response: response.results.extend(denied))


def alter_configs(ctx: AnyContext, request: AlterConfigsRequest, handler: Handler) -> Answer:
    """ALTER_CONFIGS on the topic, the group, or the cluster for all other types."""
    return _alter(ctx, request, handler, AlterConfigsResponse.AlterConfigsResourceResponse)


def incremental_alter_configs(
    ctx: AnyContext, request: IncrementalAlterConfigsRequest, handler: Handler
) -> Answer:
    """ALTER_CONFIGS as in AlterConfigs; CLUSTER_ACTION for loggers of the controller."""
    answer = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse
    return _alter(ctx, request, handler, answer)


def _alter(ctx: AnyContext, request: Any, handler: Handler, answer: Any) -> Answer:
    counts = Counter((each.resource_type, each.resource_name) for each in request.resources)
    denied: list[Any] = []
    kept: list[Any] = []
    for each in request.resources:
        resource = _resource(each.resource_type, each.resource_name)
        is_repeated = counts[each.resource_type, each.resource_name] > 1
        if resource is None or is_repeated:
            kept.append(each)  # the handler refuses it
            continue
        operation = AclOperation.ALTER_CONFIGS
        if each.resource_type == RESOURCE_BROKER_LOGGER:
            operation = AclOperation.CLUSTER_ACTION
        if may(ctx, operation, *resource):
            kept.append(each)
            continue
        code = _CODES[resource[0]]
        denied.append(
            answer(
                error_code=code,
                error_message=MESSAGES[code],
                resource_type=each.resource_type,
                resource_name=each.resource_name,
            )
        )
    request.resources = kept
    return completed(handler(ctx, request), lambda response: response.responses.extend(denied))

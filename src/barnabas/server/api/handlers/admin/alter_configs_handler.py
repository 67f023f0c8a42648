"""AlterConfigs v0-2 and IncrementalAlterConfigs v0-1, on a broker listener.

The broker changes its own log levels, refuses changes of other brokers' configurations, and
forwards the rest to the controller.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

from barnabas.cluster.controller.config_changes import broker_id_of
from barnabas.cluster.metadata.acls import AclOperation
from barnabas.cluster.metadata.image import (
    RESOURCE_BROKER,
    RESOURCE_BROKER_LOGGER,
)
from barnabas.config import ConfigError, NodeConfig
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from barnabas.protocol.messages.describe_configs import (
    DescribeConfigsResponse,
)
from barnabas.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from barnabas.server.api.handler_services import AdminContext, AdminServices
from barnabas.server.api.handlers.admin.forwarding_handler import send_on_behalf
from barnabas.server.api.handlers.admin.logger_changes import alter_log_levels
from barnabas.server.api.permissions import may_on_cluster

ResponseT = TypeVar("ResponseT", AlterConfigsResponse, IncrementalAlterConfigsResponse)
Result = DescribeConfigsResponse.DescribeConfigsResult

_CORDONED: Final = "cordoned.log.dirs"
_SET, _APPEND = 0, 2
"""Operations of IncrementalAlterConfigs (`org.apache.kafka.clients.admin.AlterConfigOp`)."""


async def alter_configs(
    ctx: AdminContext, request: AlterConfigsRequest
) -> AlterConfigsResponse | None:
    """Replace the overrides of each resource."""

    def decide(resource: Any) -> bool:
        return _refuse_wrong(ctx.services, resource)

    return await _forward_others(ctx, request, AlterConfigsResponse, decide)


async def incremental_alter_configs(
    ctx: AdminContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse | None:
    """Set or remove single properties, or change the members of list properties."""
    node_id = ctx.services.node_id

    def authorize() -> None:
        if ctx.route.authorizer is not None and not may_on_cluster(ctx, AclOperation.ALTER_CONFIGS):
            raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "")

    def decide(resource: Any) -> bool:
        if resource.resource_type == RESOURCE_BROKER_LOGGER:
            alter_log_levels(
                node_id, resource, validate_only=request.validate_only, authorize=authorize
            )
            return True
        return _refuse_wrong(ctx.services, resource)

    return await _forward_others(ctx, request, IncrementalAlterConfigsResponse, decide)


def _refuse_wrong(services: AdminServices, resource: Any) -> bool:
    """Raise KafkaError for another broker's configuration; otherwise leave it to the controller.

    A broker forwards only changes of its configuration (Kafka's `ConfigAdminManager`), after a
    check of the values that the controller cannot know.
    """
    node_id, name = services.node_id, resource.resource_name
    if resource.resource_type != RESOURCE_BROKER or not name:
        return False
    if broker_id_of(name) != node_id:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {node_id}, but received {name}",
        )
    for each in resource.configs:
        is_set = getattr(each, "config_operation", _SET) in (_SET, _APPEND)
        if each.name == _CORDONED and each.value and is_set:
            _check_cordoned(services.settings.current, each.value)
    return False


def _check_cordoned(config: NodeConfig, text: str) -> None:
    """Raise KafkaError INVALID_REQUEST for a directory that this broker does not have."""
    own = {**config.broker_dynamic, _CORDONED: text}
    try:
        config.with_dynamic(config.cluster_dynamic, own).cordoned_log_dirs()
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, error.message) from error


async def _forward_others(
    ctx: AdminContext,
    request: Any,
    response_type: type[ResponseT],
    decide: Callable[[Any], bool],
) -> ResponseT | None:
    """Forward what `decide` leaves to the controller; merge the results in the request's order.

    `decide` returns True for a resource that it has changed, and raises KafkaError for one that it
    refuses. A resource that the request names twice is left to the controller, which refuses it.
    """
    resources = request.resources
    decided = _decide_each(resources, response_type, decide)
    request.resources = [r for position, r in enumerate(resources) if position not in decided]
    response: Any = response_type()
    if request.resources or not decided:
        response = await send_on_behalf(ctx, request, response_type)
        if response is None:
            return None
    results = iter(response.responses)
    response.responses = [
        decided[position] if position in decided else next(results)
        for position in range(len(resources))
    ]
    return response


def _decide_each(
    resources: Iterable[Any], response_type: Any, decide: Callable[[Any], bool]
) -> dict[int, Any]:
    """Return the results of the resources that are not forwarded, by their position."""
    counts = Counter((each.resource_type, each.resource_name) for each in resources)
    decided: dict[int, Any] = {}
    for position, resource in enumerate(resources):
        kind, name = resource.resource_type, resource.resource_name
        if counts[kind, name] > 1:
            continue
        result = response_type.AlterConfigsResourceResponse(
            resource_type=kind, resource_name=name, error_message=None
        )
        try:
            if not decide(resource):
                continue
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.message or None
        decided[position] = result
    return decided

"""AlterConfigs v0-2 and IncrementalAlterConfigs v0-1, on a broker listener.

The broker refuses changes of other brokers' configurations and forwards the rest to the controller.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from barnabas.cluster.controller.config_changes import broker_id_of
from barnabas.cluster.metadata.image import (
    RESOURCE_BROKER,
)
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from barnabas.protocol.messages.describe_configs import (
    DescribeConfigsResponse,
)
from barnabas.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from barnabas.server.api.handler_services import AdminContext

ResponseT = TypeVar("ResponseT", AlterConfigsResponse, IncrementalAlterConfigsResponse)
Result = DescribeConfigsResponse.DescribeConfigsResult


async def alter_configs(ctx: AdminContext, request: AlterConfigsRequest) -> AlterConfigsResponse:
    """Replace the overrides of each resource."""
    answer = AlterConfigsResponse.AlterConfigsResourceResponse
    refused = _refuse_other_brokers(ctx.services.node_id, request.resources, answer)
    return await _forward_others(ctx, request, AlterConfigsResponse, refused)


async def incremental_alter_configs(
    ctx: AdminContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    """Set or remove single properties, or change the members of list properties."""
    answer = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse
    refused = _refuse_other_brokers(ctx.services.node_id, request.resources, answer)
    return await _forward_others(ctx, request, IncrementalAlterConfigsResponse, refused)


def _refuse_other_brokers(
    node_id: int, resources: Iterable[Any], answer: Callable[..., Any]
) -> dict[int, Any]:
    """Return the answers to resources that this broker must not forward, by their position.

    A broker forwards changes of its own configuration, but not of another broker's (Kafka's
    `ConfigAdminManager#preprocess`). A resource that the request names twice is left to the
    controller, which refuses it.
    """
    counts = Counter((each.resource_type, each.resource_name) for each in resources)
    refused: dict[int, Any] = {}
    for position, resource in enumerate(resources):
        kind, name = resource.resource_type, resource.resource_name
        if kind != RESOURCE_BROKER or not name or counts[kind, name] > 1:
            continue
        try:
            if broker_id_of(name) != node_id:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    f"Unexpected broker id, expected {node_id}, but received {name}",
                )
        except KafkaError as error:
            refused[position] = answer(
                resource_type=kind,
                resource_name=name,
                error_code=error.code,
                error_message=error.message,
            )
    return refused


async def _forward_others(
    ctx: AdminContext, request: Any, response_type: type[ResponseT], refused: dict[int, Any]
) -> ResponseT:
    """Forward what is not refused, and merge both kinds of answers in the request's order."""
    resources = request.resources
    request.resources = [r for position, r in enumerate(resources) if position not in refused]
    response: Any = response_type()
    if request.resources or not refused:
        response = await ctx.services.channel.send(
            request, response_type, version=ctx.version, on_behalf_of=ctx.connection
        )
    answers = iter(response.responses)
    response.responses = [
        refused[position] if position in refused else next(answers)
        for position in range(len(resources))
    ]
    return response

"""DescribeConfigs v1-4 and ListConfigResources v0-1.

`barnabas.config` declares the properties, their validators and the sources of their values. The
metadata holds the altered values.
"""

from collections.abc import Collection
from typing import TypeVar

from barnabas.cluster.controller.config_changes import parse_id
from barnabas.cluster.metadata.image import (
    RESOURCE_BROKER,
    RESOURCE_BROKER_LOGGER,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_GROUP,
    RESOURCE_TOPIC,
)
from barnabas.cluster.metadata.topic_names import refusal
from barnabas.config import TopicConfig
from barnabas.config.config_description import (
    ConfigEntry,
    describe_broker,
    describe_broker_defaults,
    describe_client_metrics,
    describe_group,
    describe_topic,
)
from barnabas.config.schema import Source
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.alter_configs import AlterConfigsResponse
from barnabas.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
)
from barnabas.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsResponse,
)
from barnabas.protocol.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from barnabas.server.api.handler_services import ConfigContext
from barnabas.server.monitoring.broker_loggers import levels

ResponseT = TypeVar("ResponseT", AlterConfigsResponse, IncrementalAlterConfigsResponse)
Result = DescribeConfigsResponse.DescribeConfigsResult


def describe_configs(
    ctx: ConfigContext, request: DescribeConfigsRequest
) -> DescribeConfigsResponse:
    """Return the effective properties of each resource, all or the requested ones."""
    results: list[Result] = []
    for resource in request.resources:
        result = Result(resource_type=resource.resource_type, resource_name=resource.resource_name)
        results.append(result)
        keys = resource.configuration_keys or None  # an empty list also requests all
        try:
            entries = _describe(ctx, resource.resource_type, resource.resource_name, keys)
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.message
            continue
        result.configs = [_result_entry(entry, request) for entry in entries]
    return DescribeConfigsResponse(results=results)


def _describe(
    ctx: ConfigContext, kind: int, name: str, keys: Collection[str] | None
) -> list[ConfigEntry]:
    config, image = ctx.services.settings.current, ctx.services.image()
    if kind == RESOURCE_TOPIC:
        reason = refusal(name)
        if reason is not None:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)
        if name not in image.topics_by_name:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
        return describe_topic(TopicConfig(config, image.topic_config(name)), config, keys)
    if kind == RESOURCE_BROKER:
        return _describe_broker(ctx, name, keys)
    if kind in (RESOURCE_GROUP, RESOURCE_CLIENT_METRICS):
        if not name:
            what = "Group name" if kind == RESOURCE_GROUP else "Client metrics subscription name"
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{what} must not be empty")
        overrides = image.configs.get((kind, name), {})
        if kind == RESOURCE_GROUP:
            return describe_group(overrides, config, keys)
        return describe_client_metrics(overrides, keys)
    if kind == RESOURCE_BROKER_LOGGER:
        return _describe_loggers(ctx.services.node_id, name, keys)
    raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {kind}")


def _describe_broker(
    ctx: ConfigContext, name: str, keys: Collection[str] | None
) -> list[ConfigEntry]:
    config, node_id = ctx.services.settings.current, ctx.services.node_id
    if not name:
        return describe_broker_defaults(config, keys)
    if _broker_id(name) != node_id:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {node_id} or empty string, but received {name}",
        )
    return describe_broker(config, keys)


def _describe_loggers(node_id: int, name: str, keys: Collection[str] | None) -> list[ConfigEntry]:
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
    if _broker_id(name) != node_id:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {node_id} but received {name}",
        )
    return [
        ConfigEntry(
            name=logger,
            value=level,
            source=Source.DYNAMIC_BROKER_LOGGER_CONFIG,
            read_only=False,
            sensitive=False,
            type=0,
            synonyms=(),
            documentation="",
        )
        for logger, level in levels().items()
        if keys is None or logger in keys
    ]


def _broker_id(name: str) -> int:
    broker_id = parse_id(name)
    if broker_id is None:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}"
        )
    return broker_id


def _result_entry(
    entry: ConfigEntry, request: DescribeConfigsRequest
) -> DescribeConfigsResponse.DescribeConfigsResourceResult:
    synonyms = entry.synonyms if request.include_synonyms else ()
    return DescribeConfigsResponse.DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.sensitive,
        synonyms=[
            DescribeConfigsResponse.DescribeConfigsSynonym(
                name=synonym.name, value=synonym.value, source=synonym.source
            )
            for synonym in synonyms
        ],
        config_type=entry.type,
        documentation=entry.documentation if request.include_documentation else None,
    )


# The types that v1 lists when the request has none; v0 is ListClientMetricsResources.
_LISTED = (
    RESOURCE_TOPIC,
    RESOURCE_BROKER,
    RESOURCE_BROKER_LOGGER,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_GROUP,
)


def list_config_resources(
    ctx: ConfigContext, request: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    """Return the resources of some types that have a configuration (KIP-1142)."""
    if ctx.version == 0:
        kinds: Collection[int] = (RESOURCE_CLIENT_METRICS,)
    else:
        kinds = dict.fromkeys(request.resource_types or _LISTED)
    if not set(kinds) <= set(_LISTED):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    resource = ListConfigResourcesResponse.ConfigResource
    return ListConfigResourcesResponse(
        config_resources=[
            resource(resource_name=name, resource_type=kind)
            for kind in kinds
            for name in _resources(ctx, kind)
        ]
    )


def _resources(ctx: ConfigContext, kind: int) -> list[str]:
    image = ctx.services.image()
    if kind == RESOURCE_TOPIC:
        return list(image.topics_by_name)
    if kind in (RESOURCE_BROKER, RESOURCE_BROKER_LOGGER):
        return [str(broker) for broker in image.brokers]
    return [name for found, name in image.configs if found == kind]

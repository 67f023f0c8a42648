"""IncrementalAlterConfigs: change single properties of resources."""

from __future__ import annotations

from barnabas.protocol.fields import array, boolean, int8, int16, int32, string
from barnabas.protocol.messages_base import Message, Struct


class IncrementalAlterConfigsRequest(Message, api="IncrementalAlterConfigs"):
    """Operations on properties: set, delete, append, subtract."""

    class AlterableConfig(Struct):
        name: str = string()
        config_operation: int = int8()
        value: str | None = string(nullable=True)

    class AlterConfigsResource(Struct):
        resource_type: int = int8()
        resource_name: str = string()
        configs: list[IncrementalAlterConfigsRequest.AlterableConfig] = array("AlterableConfig")

    resources: list[IncrementalAlterConfigsRequest.AlterConfigsResource] = array(
        "AlterConfigsResource"
    )
    validate_only: bool = boolean()


class IncrementalAlterConfigsResponse(Message, api="IncrementalAlterConfigs"):
    """The result of each resource: whether the changes were accepted."""

    class AlterConfigsResourceResponse(Struct):
        error_code: int = int16()
        error_message: str | None = string(nullable=True)
        resource_type: int = int8()
        resource_name: str = string()

    throttle_time_ms: int = int32()
    responses: list[IncrementalAlterConfigsResponse.AlterConfigsResourceResponse] = array(
        "AlterConfigsResourceResponse"
    )

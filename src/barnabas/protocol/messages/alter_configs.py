"""AlterConfigs: replace the dynamic configuration of resources."""

from __future__ import annotations

from barnabas.protocol.fields import array, boolean, int8, int16, int32, string
from barnabas.protocol.messages_base import Message, Struct


class AlterConfigsRequest(Message, api="AlterConfigs"):
    """The complete set of dynamic properties of each resource."""

    class AlterableConfig(Struct):
        name: str = string()
        value: str | None = string(nullable=True)

    class AlterConfigsResource(Struct):
        resource_type: int = int8()
        resource_name: str = string()
        configs: list[AlterConfigsRequest.AlterableConfig] = array("AlterableConfig")

    resources: list[AlterConfigsRequest.AlterConfigsResource] = array("AlterConfigsResource")
    validate_only: bool = boolean()


class AlterConfigsResponse(Message, api="AlterConfigs"):
    """The result of each resource: whether the set was accepted."""

    class AlterConfigsResourceResponse(Struct):
        error_code: int = int16()
        error_message: str | None = string(nullable=True)
        resource_type: int = int8()
        resource_name: str = string()

    throttle_time_ms: int = int32()
    responses: list[AlterConfigsResponse.AlterConfigsResourceResponse] = array(
        "AlterConfigsResourceResponse"
    )

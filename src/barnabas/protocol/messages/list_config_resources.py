"""ListConfigResources: list the resources that have a configuration."""

from __future__ import annotations

from barnabas.protocol.fields import Kind, array, int8, int16, int32, string
from barnabas.protocol.messages_base import Message, Struct


class ListConfigResourcesRequest(Message, api="ListConfigResources"):
    """The resource types; none for all."""

    resource_types: list[int] = array(Kind.INT8, versions="1+")


class ListConfigResourcesResponse(Message, api="ListConfigResources"):
    """The resources."""

    class ConfigResource(Struct):
        resource_name: str = string()
        resource_type: int = int8(versions="1+", default=16, ignorable=True)

    throttle_time_ms: int = int32()
    error_code: int = int16()
    config_resources: list[ListConfigResourcesResponse.ConfigResource] = array("ConfigResource")

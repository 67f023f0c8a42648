"""DescribeConfigs: read the configuration of topics, brokers, groups and client metrics."""

from __future__ import annotations

from barnabas.protocol.fields import Kind, array, boolean, int8, int16, int32, string
from barnabas.protocol.messages_base import Message, Struct


class DescribeConfigsRequest(Message, api="DescribeConfigs"):
    """The resources and, optionally, the properties."""

    class DescribeConfigsResource(Struct):
        resource_type: int = int8()
        resource_name: str = string()
        configuration_keys: list[str] | None = array(Kind.STRING, nullable=True)

    resources: list[DescribeConfigsRequest.DescribeConfigsResource] = array(
        "DescribeConfigsResource"
    )
    include_synonyms: bool = boolean()
    include_documentation: bool = boolean(versions="3+")


class DescribeConfigsResponse(Message, api="DescribeConfigs"):
    """Each property's value, source and documentation."""

    class DescribeConfigsSynonym(Struct):
        name: str = string()
        value: str | None = string(nullable=True)
        source: int = int8()

    class DescribeConfigsResourceResult(Struct):
        name: str = string()
        value: str | None = string(nullable=True)
        read_only: bool = boolean()
        config_source: int = int8(default=-1, ignorable=True)
        is_sensitive: bool = boolean()
        synonyms: list[DescribeConfigsResponse.DescribeConfigsSynonym] = array(
            "DescribeConfigsSynonym", ignorable=True
        )
        config_type: int = int8(versions="3+", ignorable=True)
        documentation: str | None = string(versions="3+", nullable=True, ignorable=True)

    class DescribeConfigsResult(Struct):
        error_code: int = int16()
        error_message: str | None = string(nullable=True)
        resource_type: int = int8()
        resource_name: str = string()
        configs: list[DescribeConfigsResponse.DescribeConfigsResourceResult] = array(
            "DescribeConfigsResourceResult"
        )

    throttle_time_ms: int = int32()
    results: list[DescribeConfigsResponse.DescribeConfigsResult] = array("DescribeConfigsResult")

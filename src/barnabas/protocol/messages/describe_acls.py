"""DescribeAcls: list ACLs."""

from __future__ import annotations

from barnabas.protocol.fields import array, int8, int16, int32, string
from barnabas.protocol.messages_base import Message, Struct


class DescribeAclsRequest(Message, api="DescribeAcls"):
    """A filter."""

    resource_type_filter: int = int8()
    resource_name_filter: str | None = string(nullable=True)
    pattern_type_filter: int = int8(default=3)
    principal_filter: str | None = string(nullable=True)
    host_filter: str | None = string(nullable=True)
    operation: int = int8()
    permission_type: int = int8()


class DescribeAclsResponse(Message, api="DescribeAcls"):
    """The matching ACLs, grouped by resource."""

    class AclDescription(Struct):
        principal: str = string()
        host: str = string()
        operation: int = int8()
        permission_type: int = int8()

    class DescribeAclsResource(Struct):
        resource_type: int = int8()
        resource_name: str = string()
        pattern_type: int = int8(default=3)
        acls: list[DescribeAclsResponse.AclDescription] = array("AclDescription")

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True)
    resources: list[DescribeAclsResponse.DescribeAclsResource] = array("DescribeAclsResource")

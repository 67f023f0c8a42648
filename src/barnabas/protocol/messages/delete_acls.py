"""DeleteAcls: remove ACLs."""

from __future__ import annotations

from barnabas.protocol.fields import array, int8, int16, int32, string
from barnabas.protocol.messages_base import Message, Struct


class DeleteAclsRequest(Message, api="DeleteAcls"):
    """Filters; every matching ACL is removed."""

    class DeleteAclsFilter(Struct):
        resource_type_filter: int = int8()
        resource_name_filter: str | None = string(nullable=True)
        pattern_type_filter: int = int8(default=3)
        principal_filter: str | None = string(nullable=True)
        host_filter: str | None = string(nullable=True)
        operation: int = int8()
        permission_type: int = int8()

    filters: list[DeleteAclsRequest.DeleteAclsFilter] = array("DeleteAclsFilter")


class DeleteAclsResponse(Message, api="DeleteAcls"):
    """The removed ACLs for each filter."""

    class DeleteAclsMatchingAcl(Struct):
        error_code: int = int16()
        error_message: str | None = string(nullable=True)
        resource_type: int = int8()
        resource_name: str = string()
        pattern_type: int = int8(default=3)
        principal: str = string()
        host: str = string()
        operation: int = int8()
        permission_type: int = int8()

    class DeleteAclsFilterResult(Struct):
        error_code: int = int16()
        error_message: str | None = string(nullable=True)
        matching_acls: list[DeleteAclsResponse.DeleteAclsMatchingAcl] = array(
            "DeleteAclsMatchingAcl"
        )

    throttle_time_ms: int = int32()
    filter_results: list[DeleteAclsResponse.DeleteAclsFilterResult] = array(
        "DeleteAclsFilterResult"
    )

"""CreateAcls: add ACLs."""

from __future__ import annotations

from barnabas.protocol.fields import array, int8, int16, int32, string
from barnabas.protocol.messages_base import Message, Struct


class CreateAclsRequest(Message, api="CreateAcls"):
    """The ACLs to add."""

    class AclCreation(Struct):
        resource_type: int = int8()
        resource_name: str = string()
        resource_pattern_type: int = int8(default=3)
        principal: str = string()
        host: str = string()
        operation: int = int8()
        permission_type: int = int8()

    creations: list[CreateAclsRequest.AclCreation] = array("AclCreation")


class CreateAclsResponse(Message, api="CreateAcls"):
    """The result of each ACL: whether it was added."""

    class AclCreationResult(Struct):
        error_code: int = int16()
        error_message: str | None = string(nullable=True)

    throttle_time_ms: int = int32()
    results: list[CreateAclsResponse.AclCreationResult] = array("AclCreationResult")

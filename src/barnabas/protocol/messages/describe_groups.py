"""DescribeGroups: describe classic groups."""

from __future__ import annotations

from barnabas.protocol.fields import Kind, array, binary, boolean, int16, int32, string
from barnabas.protocol.messages_base import Message, Struct


class DescribeGroupsRequest(Message, api="DescribeGroups"):
    """The groups."""

    groups: list[str] = array(Kind.STRING)
    include_authorized_operations: bool = boolean(versions="3+")


class DescribeGroupsResponse(Message, api="DescribeGroups"):
    """Each group's state, protocol and members."""

    class DescribedGroupMember(Struct):
        member_id: str = string()
        group_instance_id: str | None = string(
            versions="4+", nullable=True, default=None, ignorable=True
        )
        client_id: str = string()
        client_host: str = string()
        member_metadata: bytes = binary()
        member_assignment: bytes = binary()

    class DescribedGroup(Struct):
        error_code: int = int16()
        error_message: str | None = string(versions="6+", nullable=True, default=None)
        group_id: str = string()
        group_state: str = string()
        protocol_type: str = string()
        protocol_data: str = string()
        members: list[DescribeGroupsResponse.DescribedGroupMember] = array("DescribedGroupMember")
        authorized_operations: int = int32(versions="3+", default=-2147483648)

    throttle_time_ms: int = int32(versions="1+", ignorable=True)
    groups: list[DescribeGroupsResponse.DescribedGroup] = array("DescribedGroup")

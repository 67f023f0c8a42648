"""LeaveGroup: leave a classic group, or remove members from it."""

from __future__ import annotations

from barnabas.protocol.fields import array, int16, int32, string
from barnabas.protocol.messages_base import Message, Struct


class LeaveGroupRequest(Message, api="LeaveGroup"):
    """The members to remove: one or, from version 3 on, several."""

    class MemberIdentity(Struct):
        member_id: str = string()
        group_instance_id: str | None = string(nullable=True, default=None)
        reason: str | None = string(versions="5+", nullable=True, default=None, ignorable=True)

    group_id: str = string()
    member_id: str = string(versions="0-2")
    members: list[LeaveGroupRequest.MemberIdentity] = array("MemberIdentity", versions="3+")


class LeaveGroupResponse(Message, api="LeaveGroup"):
    """The result of each member: whether it was removed."""

    class MemberResponse(Struct):
        member_id: str = string()
        group_instance_id: str | None = string(nullable=True)
        error_code: int = int16()

    throttle_time_ms: int = int32(versions="1+", ignorable=True)
    error_code: int = int16()
    members: list[LeaveGroupResponse.MemberResponse] = array("MemberResponse", versions="3+")

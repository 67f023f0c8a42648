"""JoinGroup: join a classic group, or rejoin it in a rebalance."""

from __future__ import annotations

from barnabas.protocol.fields import array, binary, boolean, int16, int32, string
from barnabas.protocol.messages_base import Message, Struct


class JoinGroupRequest(Message, api="JoinGroup"):
    """A member with its supported protocols."""

    class JoinGroupRequestProtocol(Struct):
        name: str = string()
        metadata: bytes = binary()

    group_id: str = string()
    session_timeout_ms: int = int32()
    rebalance_timeout_ms: int = int32(versions="1+", default=-1, ignorable=True)
    member_id: str = string()
    group_instance_id: str | None = string(versions="5+", nullable=True, default=None)
    protocol_type: str = string()
    protocols: list[JoinGroupRequest.JoinGroupRequestProtocol] = array("JoinGroupRequestProtocol")
    reason: str | None = string(versions="8+", nullable=True, default=None, ignorable=True)


class JoinGroupResponse(Message, api="JoinGroup"):
    """The member id and generation; the leader also gets the members."""

    class JoinGroupResponseMember(Struct):
        member_id: str = string()
        group_instance_id: str | None = string(
            versions="5+", nullable=True, default=None, ignorable=True
        )
        metadata: bytes = binary()

    throttle_time_ms: int = int32(versions="2+", ignorable=True)
    error_code: int = int16()
    generation_id: int = int32(default=-1)
    protocol_type: str | None = string(versions="7+", nullable=True, default=None, ignorable=True)
    protocol_name: str | None = string(nullable="7+")
    leader: str = string()
    skip_assignment: bool = boolean(versions="9+")
    member_id: str = string()
    members: list[JoinGroupResponse.JoinGroupResponseMember] = array("JoinGroupResponseMember")

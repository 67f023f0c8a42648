"""SyncGroup: distribute the assignment of a generation of a classic group."""

from __future__ import annotations

from barnabas.protocol.fields import array, binary, int16, int32, string
from barnabas.protocol.messages_base import Message, Struct


class SyncGroupRequest(Message, api="SyncGroup"):
    """The member that waits for its assignment; the leader's request carries all assignments."""

    class SyncGroupRequestAssignment(Struct):
        member_id: str = string()
        assignment: bytes = binary()

    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string(versions="3+", nullable=True, default=None)
    protocol_type: str | None = string(versions="5+", nullable=True, default=None, ignorable=True)
    protocol_name: str | None = string(versions="5+", nullable=True, default=None, ignorable=True)
    assignments: list[SyncGroupRequest.SyncGroupRequestAssignment] = array(
        "SyncGroupRequestAssignment"
    )


class SyncGroupResponse(Message, api="SyncGroup"):
    """The member's assignment."""

    throttle_time_ms: int = int32(versions="1+", ignorable=True)
    error_code: int = int16()
    protocol_type: str | None = string(versions="5+", nullable=True, default=None, ignorable=True)
    protocol_name: str | None = string(versions="5+", nullable=True, default=None, ignorable=True)
    assignment: bytes = binary()

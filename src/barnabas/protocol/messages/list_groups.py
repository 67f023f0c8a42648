"""ListGroups: list the groups that a broker coordinates."""

from __future__ import annotations

from barnabas.protocol.fields import Kind, array, int16, int32, string
from barnabas.protocol.messages_base import Message, Struct


class ListGroupsRequest(Message, api="ListGroups"):
    """The states and types of the groups to list; none for all."""

    states_filter: list[str] = array(Kind.STRING, versions="4+")
    types_filter: list[str] = array(Kind.STRING, versions="5+")


class ListGroupsResponse(Message, api="ListGroups"):
    """The groups with protocol, state and type."""

    class ListedGroup(Struct):
        group_id: str = string()
        protocol_type: str = string()
        group_state: str = string(versions="4+", ignorable=True)
        group_type: str = string(versions="5+", ignorable=True)

    throttle_time_ms: int = int32(versions="1+", ignorable=True)
    error_code: int = int16()
    groups: list[ListGroupsResponse.ListedGroup] = array("ListedGroup")

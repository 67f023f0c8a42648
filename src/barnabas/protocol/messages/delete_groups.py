"""DeleteGroups: delete empty groups."""

from __future__ import annotations

from barnabas.protocol.fields import Kind, array, int16, int32, string
from barnabas.protocol.messages_base import Message, Struct


class DeleteGroupsRequest(Message, api="DeleteGroups"):
    """The groups to delete."""

    groups_names: list[str] = array(Kind.STRING)


class DeleteGroupsResponse(Message, api="DeleteGroups"):
    """The result of each group: whether it was deleted."""

    class DeletableGroupResult(Struct):
        group_id: str = string()
        error_code: int = int16()

    throttle_time_ms: int = int32()
    results: list[DeleteGroupsResponse.DeletableGroupResult] = array("DeletableGroupResult")

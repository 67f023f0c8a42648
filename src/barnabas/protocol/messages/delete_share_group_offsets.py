"""DeleteShareGroupOffsets: delete a share group's offsets of topics."""

from __future__ import annotations

from barnabas.protocol.fields import array, int16, int32, string, uuid
from barnabas.protocol.messages_base import Message, Struct
from barnabas.protocol.types import Uuid


class DeleteShareGroupOffsetsRequest(Message, api="DeleteShareGroupOffsets"):
    """The group and the topics."""

    class DeleteShareGroupOffsetsRequestTopic(Struct):
        topic_name: str = string()

    group_id: str = string()
    topics: list[DeleteShareGroupOffsetsRequest.DeleteShareGroupOffsetsRequestTopic] = array(
        "DeleteShareGroupOffsetsRequestTopic"
    )


class DeleteShareGroupOffsetsResponse(Message, api="DeleteShareGroupOffsets"):
    """The result of each topic: whether its offsets were deleted."""

    class DeleteShareGroupOffsetsResponseTopic(Struct):
        topic_name: str = string()
        topic_id: Uuid = uuid()
        error_code: int = int16()
        error_message: str | None = string(nullable=True, default=None)

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    responses: list[DeleteShareGroupOffsetsResponse.DeleteShareGroupOffsetsResponseTopic] = array(
        "DeleteShareGroupOffsetsResponseTopic"
    )

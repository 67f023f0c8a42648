"""DeleteTopics: delete topics."""

from __future__ import annotations

from barnabas.protocol.fields import Kind, array, int16, int32, string, uuid
from barnabas.protocol.messages_base import Message, Struct
from barnabas.protocol.types import Uuid


class DeleteTopicsRequest(Message, api="DeleteTopics"):
    """The topics to delete, by name or by id."""

    class DeleteTopicState(Struct):
        name: str | None = string(nullable=True, default=None)
        topic_id: Uuid = uuid()

    topics: list[DeleteTopicsRequest.DeleteTopicState] = array("DeleteTopicState", versions="6+")
    topic_names: list[str] = array(Kind.STRING, versions="1-5", ignorable=True)
    timeout_ms: int = int32()


class DeleteTopicsResponse(Message, api="DeleteTopics"):
    """The result of each topic: whether it was deleted."""

    class DeletableTopicResult(Struct):
        name: str | None = string(nullable="6+")
        topic_id: Uuid = uuid(versions="6+", ignorable=True)
        error_code: int = int16()
        error_message: str | None = string(
            versions="5+", nullable=True, default=None, ignorable=True
        )

    throttle_time_ms: int = int32(ignorable=True)
    responses: list[DeleteTopicsResponse.DeletableTopicResult] = array("DeletableTopicResult")

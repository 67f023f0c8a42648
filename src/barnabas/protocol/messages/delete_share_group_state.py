"""DeleteShareGroupState: delete the persistent state of share partitions."""

from __future__ import annotations

from barnabas.protocol.fields import array, int16, int32, string, uuid
from barnabas.protocol.messages_base import Message, Struct
from barnabas.protocol.types import Uuid


class DeleteShareGroupStateRequest(Message, api="DeleteShareGroupState"):
    """The share partitions."""

    class PartitionData(Struct):
        partition: int = int32()

    class DeleteStateData(Struct):
        topic_id: Uuid = uuid()
        partitions: list[DeleteShareGroupStateRequest.PartitionData] = array("PartitionData")

    group_id: str = string()
    topics: list[DeleteShareGroupStateRequest.DeleteStateData] = array("DeleteStateData")


class DeleteShareGroupStateResponse(Message, api="DeleteShareGroupState"):
    """The result of each partition: whether its state was deleted."""

    class PartitionResult(Struct):
        partition: int = int32()
        error_code: int = int16()
        error_message: str | None = string(nullable=True, default=None)

    class DeleteStateResult(Struct):
        topic_id: Uuid = uuid()
        partitions: list[DeleteShareGroupStateResponse.PartitionResult] = array("PartitionResult")

    results: list[DeleteShareGroupStateResponse.DeleteStateResult] = array("DeleteStateResult")

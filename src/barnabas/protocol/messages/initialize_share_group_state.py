"""InitializeShareGroupState: create the persistent state of share partitions."""

from __future__ import annotations

from barnabas.protocol.fields import array, int16, int32, int64, string, uuid
from barnabas.protocol.messages_base import Message, Struct
from barnabas.protocol.types import Uuid


class InitializeShareGroupStateRequest(Message, api="InitializeShareGroupState"):
    """The start offset of each share partition."""

    class PartitionData(Struct):
        partition: int = int32()
        state_epoch: int = int32()
        start_offset: int = int64()

    class InitializeStateData(Struct):
        topic_id: Uuid = uuid()
        partitions: list[InitializeShareGroupStateRequest.PartitionData] = array("PartitionData")

    group_id: str = string()
    topics: list[InitializeShareGroupStateRequest.InitializeStateData] = array(
        "InitializeStateData"
    )


class InitializeShareGroupStateResponse(Message, api="InitializeShareGroupState"):
    """The result of each partition: whether its state was created."""

    class PartitionResult(Struct):
        partition: int = int32()
        error_code: int = int16()
        error_message: str | None = string(nullable=True, default=None)

    class InitializeStateResult(Struct):
        topic_id: Uuid = uuid()
        partitions: list[InitializeShareGroupStateResponse.PartitionResult] = array(
            "PartitionResult"
        )

    results: list[InitializeShareGroupStateResponse.InitializeStateResult] = array(
        "InitializeStateResult"
    )

"""ReadShareGroupState: read the persistent state of share partitions."""

from __future__ import annotations

from barnabas.protocol.fields import array, int8, int16, int32, int64, string, uuid
from barnabas.protocol.messages_base import Message, Struct
from barnabas.protocol.types import Uuid


class ReadShareGroupStateRequest(Message, api="ReadShareGroupState"):
    """The share partitions."""

    class PartitionData(Struct):
        partition: int = int32()
        leader_epoch: int = int32()

    class ReadStateData(Struct):
        topic_id: Uuid = uuid()
        partitions: list[ReadShareGroupStateRequest.PartitionData] = array("PartitionData")

    group_id: str = string()
    topics: list[ReadShareGroupStateRequest.ReadStateData] = array("ReadStateData")


class ReadShareGroupStateResponse(Message, api="ReadShareGroupState"):
    """Each partition's start offset and the state of its batches."""

    class StateBatch(Struct):
        first_offset: int = int64()
        last_offset: int = int64()
        delivery_state: int = int8()
        delivery_count: int = int16()

    class PartitionResult(Struct):
        partition: int = int32()
        error_code: int = int16()
        error_message: str | None = string(nullable=True, default=None)
        state_epoch: int = int32()
        start_offset: int = int64()
        state_batches: list[ReadShareGroupStateResponse.StateBatch] = array("StateBatch")

    class ReadStateResult(Struct):
        topic_id: Uuid = uuid()
        partitions: list[ReadShareGroupStateResponse.PartitionResult] = array("PartitionResult")

    results: list[ReadShareGroupStateResponse.ReadStateResult] = array("ReadStateResult")

"""WriteShareGroupState: store changes of share partitions."""

from __future__ import annotations

from barnabas.protocol.fields import array, int8, int16, int32, int64, string, uuid
from barnabas.protocol.messages_base import Message, Struct
from barnabas.protocol.types import Uuid


class WriteShareGroupStateRequest(Message, api="WriteShareGroupState"):
    """Each partition's new start offset and batches."""

    class StateBatch(Struct):
        first_offset: int = int64()
        last_offset: int = int64()
        delivery_state: int = int8()
        delivery_count: int = int16()

    class PartitionData(Struct):
        partition: int = int32()
        state_epoch: int = int32()
        leader_epoch: int = int32()
        start_offset: int = int64()
        delivery_complete_count: int = int32(versions="1+", default=-1, ignorable=True)
        state_batches: list[WriteShareGroupStateRequest.StateBatch] = array("StateBatch")

    class WriteStateData(Struct):
        topic_id: Uuid = uuid()
        partitions: list[WriteShareGroupStateRequest.PartitionData] = array("PartitionData")

    group_id: str = string()
    topics: list[WriteShareGroupStateRequest.WriteStateData] = array("WriteStateData")


class WriteShareGroupStateResponse(Message, api="WriteShareGroupState"):
    """The result of each partition: whether its state was stored."""

    class PartitionResult(Struct):
        partition: int = int32()
        error_code: int = int16()
        error_message: str | None = string(nullable=True, default=None)

    class WriteStateResult(Struct):
        topic_id: Uuid = uuid()
        partitions: list[WriteShareGroupStateResponse.PartitionResult] = array("PartitionResult")

    results: list[WriteShareGroupStateResponse.WriteStateResult] = array("WriteStateResult")

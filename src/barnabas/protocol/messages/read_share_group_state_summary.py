"""ReadShareGroupStateSummary: read share partitions' offsets without their batches."""

from __future__ import annotations

from barnabas.protocol.fields import array, int16, int32, int64, string, uuid
from barnabas.protocol.messages_base import Message, Struct
from barnabas.protocol.types import Uuid


class ReadShareGroupStateSummaryRequest(Message, api="ReadShareGroupStateSummary"):
    """The share partitions."""

    class PartitionData(Struct):
        partition: int = int32()
        leader_epoch: int = int32()

    class ReadStateSummaryData(Struct):
        topic_id: Uuid = uuid()
        partitions: list[ReadShareGroupStateSummaryRequest.PartitionData] = array("PartitionData")

    group_id: str = string()
    topics: list[ReadShareGroupStateSummaryRequest.ReadStateSummaryData] = array(
        "ReadStateSummaryData"
    )


class ReadShareGroupStateSummaryResponse(Message, api="ReadShareGroupStateSummary"):
    """Each partition's start offset and its number of completed deliveries."""

    class PartitionResult(Struct):
        partition: int = int32()
        error_code: int = int16()
        error_message: str | None = string(nullable=True, default=None)
        state_epoch: int = int32()
        leader_epoch: int = int32()
        start_offset: int = int64()
        delivery_complete_count: int = int32(versions="1+", default=-1, ignorable=True)

    class ReadStateSummaryResult(Struct):
        topic_id: Uuid = uuid()
        partitions: list[ReadShareGroupStateSummaryResponse.PartitionResult] = array(
            "PartitionResult"
        )

    results: list[ReadShareGroupStateSummaryResponse.ReadStateSummaryResult] = array(
        "ReadStateSummaryResult"
    )

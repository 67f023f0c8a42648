"""DescribeProducers: list the active producers of partitions."""

from __future__ import annotations

from barnabas.protocol.fields import Kind, array, int16, int32, int64, string
from barnabas.protocol.messages_base import Message, Struct


class DescribeProducersRequest(Message, api="DescribeProducers"):
    """The partitions."""

    class TopicRequest(Struct):
        name: str = string()
        partition_indexes: list[int] = array(Kind.INT32)

    topics: list[DescribeProducersRequest.TopicRequest] = array("TopicRequest")


class DescribeProducersResponse(Message, api="DescribeProducers"):
    """Each partition's producers, with sequences and open transactions."""

    class ProducerState(Struct):
        producer_id: int = int64()
        producer_epoch: int = int32()
        last_sequence: int = int32(default=-1)
        last_timestamp: int = int64(default=-1)
        coordinator_epoch: int = int32()
        current_txn_start_offset: int = int64(default=-1)

    class PartitionResponse(Struct):
        partition_index: int = int32()
        error_code: int = int16()
        error_message: str | None = string(nullable=True, default=None)
        active_producers: list[DescribeProducersResponse.ProducerState] = array("ProducerState")

    class TopicResponse(Struct):
        name: str = string()
        partitions: list[DescribeProducersResponse.PartitionResponse] = array("PartitionResponse")

    throttle_time_ms: int = int32()
    topics: list[DescribeProducersResponse.TopicResponse] = array("TopicResponse")

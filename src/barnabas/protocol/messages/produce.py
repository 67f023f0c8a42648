"""Produce: append record batches to partitions."""

from __future__ import annotations

from barnabas.protocol.fields import (
    Records,
    array,
    int16,
    int32,
    int64,
    records,
    string,
    struct,
    uuid,
)
from barnabas.protocol.messages_base import Message, Struct
from barnabas.protocol.types import Uuid


class ProduceRequest(Message, api="Produce"):
    """Record batches for partitions that the receiver leads."""

    class PartitionProduceData(Struct):
        index: int = int32()
        records: Records = records(nullable=True)

    class TopicProduceData(Struct):
        name: str = string(versions="3-12", ignorable=True)
        topic_id: Uuid = uuid(versions="13+", ignorable=True)
        partition_data: list[ProduceRequest.PartitionProduceData] = array("PartitionProduceData")

    transactional_id: str | None = string(nullable=True, default=None)
    acks: int = int16()
    timeout_ms: int = int32()
    topic_data: list[ProduceRequest.TopicProduceData] = array("TopicProduceData")


class ProduceResponse(Message, api="Produce"):
    """The result of each partition: the offset of its records, or the error."""

    class BatchIndexAndErrorMessage(Struct):
        batch_index: int = int32()
        batch_index_error_message: str | None = string(nullable=True, default=None)

    class LeaderIdAndEpoch(Struct):
        leader_id: int = int32(default=-1)
        leader_epoch: int = int32(default=-1)

    class PartitionProduceResponse(Struct):
        index: int = int32()
        error_code: int = int16()
        base_offset: int = int64()
        log_append_time_ms: int = int64(default=-1, ignorable=True)
        log_start_offset: int = int64(versions="5+", default=-1, ignorable=True)
        record_errors: list[ProduceResponse.BatchIndexAndErrorMessage] = array(
            "BatchIndexAndErrorMessage", versions="8+", ignorable=True
        )
        error_message: str | None = string(
            versions="8+", nullable=True, default=None, ignorable=True
        )
        current_leader: ProduceResponse.LeaderIdAndEpoch = struct(
            "LeaderIdAndEpoch", versions="10+", tag=0
        )

    class TopicProduceResponse(Struct):
        name: str = string(versions="3-12", ignorable=True)
        topic_id: Uuid = uuid(versions="13+", ignorable=True)
        partition_responses: list[ProduceResponse.PartitionProduceResponse] = array(
            "PartitionProduceResponse"
        )

    class NodeEndpoint(Struct):
        node_id: int = int32()
        host: str = string()
        port: int = int32()
        rack: str | None = string(nullable=True, default=None)

    responses: list[ProduceResponse.TopicProduceResponse] = array("TopicProduceResponse")
    throttle_time_ms: int = int32(ignorable=True)
    node_endpoints: list[ProduceResponse.NodeEndpoint] = array(
        "NodeEndpoint", versions="10+", tag=0
    )

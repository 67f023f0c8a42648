"""TxnOffsetCommit: commit offsets of a group as part of a transaction."""

from __future__ import annotations

from barnabas.protocol.fields import array, int16, int32, int64, string
from barnabas.protocol.messages_base import Message, Struct


class TxnOffsetCommitRequest(Message, api="TxnOffsetCommit"):
    """Offsets that are committed with the transaction."""

    class TxnOffsetCommitRequestPartition(Struct):
        partition_index: int = int32()
        committed_offset: int = int64()
        committed_leader_epoch: int = int32(versions="2+", default=-1, ignorable=True)
        committed_metadata: str | None = string(nullable=True)

    class TxnOffsetCommitRequestTopic(Struct):
        name: str = string()
        partitions: list[TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition] = array(
            "TxnOffsetCommitRequestPartition"
        )

    transactional_id: str = string()
    group_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    generation_id: int = int32(versions="3+", default=-1)
    member_id: str = string(versions="3+")
    group_instance_id: str | None = string(versions="3+", nullable=True, default=None)
    topics: list[TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic] = array(
        "TxnOffsetCommitRequestTopic"
    )


class TxnOffsetCommitResponse(Message, api="TxnOffsetCommit"):
    """The result of each partition: whether its offset is pending."""

    class TxnOffsetCommitResponsePartition(Struct):
        partition_index: int = int32()
        error_code: int = int16()

    class TxnOffsetCommitResponseTopic(Struct):
        name: str = string()
        partitions: list[TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition] = array(
            "TxnOffsetCommitResponsePartition"
        )

    throttle_time_ms: int = int32()
    topics: list[TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic] = array(
        "TxnOffsetCommitResponseTopic"
    )

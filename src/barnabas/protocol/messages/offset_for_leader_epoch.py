"""OffsetForLeaderEpoch: find the end offset of a leader epoch, to detect divergent logs."""

from __future__ import annotations

from barnabas.protocol.fields import array, int16, int32, int64, string
from barnabas.protocol.messages_base import Message, Struct


class OffsetForLeaderEpochRequest(Message, api="OffsetForLeaderEpoch"):
    """The leader epoch of each partition whose end offset is wanted."""

    class OffsetForLeaderPartition(Struct):
        partition: int = int32()
        current_leader_epoch: int = int32(default=-1, ignorable=True)
        leader_epoch: int = int32()

    class OffsetForLeaderTopic(Struct):
        topic: str = string()
        partitions: list[OffsetForLeaderEpochRequest.OffsetForLeaderPartition] = array(
            "OffsetForLeaderPartition"
        )

    replica_id: int = int32(versions="3+", default=-2, ignorable=True)
    topics: list[OffsetForLeaderEpochRequest.OffsetForLeaderTopic] = array("OffsetForLeaderTopic")


class OffsetForLeaderEpochResponse(Message, api="OffsetForLeaderEpoch"):
    """The largest epoch not above the requested one, and its end offset."""

    class EpochEndOffset(Struct):
        error_code: int = int16()
        partition: int = int32()
        leader_epoch: int = int32(default=-1, ignorable=True)
        end_offset: int = int64(default=-1)

    class OffsetForLeaderTopicResult(Struct):
        topic: str = string()
        partitions: list[OffsetForLeaderEpochResponse.EpochEndOffset] = array("EpochEndOffset")

    throttle_time_ms: int = int32(ignorable=True)
    topics: list[OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult] = array(
        "OffsetForLeaderTopicResult"
    )

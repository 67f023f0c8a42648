"""OffsetCommit: commit offsets of a group."""

from __future__ import annotations

from barnabas.protocol.fields import array, int16, int32, int64, string, uuid
from barnabas.protocol.messages_base import Message, Struct
from barnabas.protocol.types import Uuid


class OffsetCommitRequest(Message, api="OffsetCommit"):
    """The offsets that a member of the group, or another client, commits."""

    class OffsetCommitRequestPartition(Struct):
        partition_index: int = int32()
        committed_offset: int = int64()
        committed_leader_epoch: int = int32(versions="6+", default=-1, ignorable=True)
        committed_metadata: str | None = string(nullable=True)

    class OffsetCommitRequestTopic(Struct):
        name: str = string(versions="2-9", ignorable=True)
        topic_id: Uuid = uuid(versions="10+", ignorable=True)
        partitions: list[OffsetCommitRequest.OffsetCommitRequestPartition] = array(
            "OffsetCommitRequestPartition"
        )

    group_id: str = string()
    generation_id_or_member_epoch: int = int32(default=-1, ignorable=True)
    member_id: str = string(ignorable=True)
    group_instance_id: str | None = string(versions="7+", nullable=True, default=None)
    retention_time_ms: int = int64(versions="2-4", default=-1, ignorable=True)
    topics: list[OffsetCommitRequest.OffsetCommitRequestTopic] = array("OffsetCommitRequestTopic")


class OffsetCommitResponse(Message, api="OffsetCommit"):
    """The result of each partition: whether its offset was committed."""

    class OffsetCommitResponsePartition(Struct):
        partition_index: int = int32()
        error_code: int = int16()

    class OffsetCommitResponseTopic(Struct):
        name: str = string(versions="2-9", ignorable=True)
        topic_id: Uuid = uuid(versions="10+", ignorable=True)
        partitions: list[OffsetCommitResponse.OffsetCommitResponsePartition] = array(
            "OffsetCommitResponsePartition"
        )

    throttle_time_ms: int = int32(versions="3+", ignorable=True)
    topics: list[OffsetCommitResponse.OffsetCommitResponseTopic] = array(
        "OffsetCommitResponseTopic"
    )

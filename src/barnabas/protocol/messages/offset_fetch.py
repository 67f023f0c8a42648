"""OffsetFetch: read committed offsets of groups."""

from __future__ import annotations

from barnabas.protocol.fields import Kind, array, boolean, int16, int32, int64, string, uuid
from barnabas.protocol.messages_base import Message, Struct
from barnabas.protocol.types import Uuid


class OffsetFetchRequest(Message, api="OffsetFetch"):
    """One group or, from version 8 on, several groups."""

    class OffsetFetchRequestTopic(Struct):
        name: str = string()
        partition_indexes: list[int] = array(Kind.INT32)

    class OffsetFetchRequestTopics(Struct):
        name: str = string(versions="8-9", ignorable=True)
        topic_id: Uuid = uuid(versions="10+", ignorable=True)
        partition_indexes: list[int] = array(Kind.INT32)

    class OffsetFetchRequestGroup(Struct):
        group_id: str = string()
        member_id: str | None = string(versions="9+", nullable=True, default=None, ignorable=True)
        member_epoch: int = int32(versions="9+", default=-1, ignorable=True)
        topics: list[OffsetFetchRequest.OffsetFetchRequestTopics] | None = array(
            "OffsetFetchRequestTopics", nullable=True
        )

    group_id: str = string(versions="1-7")
    topics: list[OffsetFetchRequest.OffsetFetchRequestTopic] | None = array(
        "OffsetFetchRequestTopic", versions="1-7", nullable="2-7"
    )
    groups: list[OffsetFetchRequest.OffsetFetchRequestGroup] = array(
        "OffsetFetchRequestGroup", versions="8+"
    )
    require_stable: bool = boolean(versions="7+")


class OffsetFetchResponse(Message, api="OffsetFetch"):
    """Each partition's committed offset, or -1 where there is none."""

    class OffsetFetchResponsePartition(Struct):
        partition_index: int = int32()
        committed_offset: int = int64()
        committed_leader_epoch: int = int32(versions="5-7", default=-1, ignorable=True)
        metadata: str | None = string(nullable=True)
        error_code: int = int16()

    class OffsetFetchResponseTopic(Struct):
        name: str = string()
        partitions: list[OffsetFetchResponse.OffsetFetchResponsePartition] = array(
            "OffsetFetchResponsePartition"
        )

    class OffsetFetchResponsePartitions(Struct):
        partition_index: int = int32()
        committed_offset: int = int64()
        committed_leader_epoch: int = int32(default=-1, ignorable=True)
        metadata: str | None = string(nullable=True)
        error_code: int = int16()

    class OffsetFetchResponseTopics(Struct):
        name: str = string(versions="8-9", ignorable=True)
        topic_id: Uuid = uuid(versions="10+", ignorable=True)
        partitions: list[OffsetFetchResponse.OffsetFetchResponsePartitions] = array(
            "OffsetFetchResponsePartitions"
        )

    class OffsetFetchResponseGroup(Struct):
        group_id: str = string()
        topics: list[OffsetFetchResponse.OffsetFetchResponseTopics] = array(
            "OffsetFetchResponseTopics"
        )
        error_code: int = int16()

    throttle_time_ms: int = int32(versions="3+", ignorable=True)
    topics: list[OffsetFetchResponse.OffsetFetchResponseTopic] = array(
        "OffsetFetchResponseTopic", versions="1-7"
    )
    error_code: int = int16(versions="2-7", ignorable=True)
    groups: list[OffsetFetchResponse.OffsetFetchResponseGroup] = array(
        "OffsetFetchResponseGroup", versions="8+"
    )

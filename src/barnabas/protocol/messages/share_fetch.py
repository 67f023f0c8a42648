"""ShareFetch: fetch records as a member of a share group, and acknowledge earlier ones."""

from __future__ import annotations

from barnabas.protocol.fields import (
    Kind,
    Records,
    array,
    boolean,
    int8,
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


class ShareFetchRequest(Message, api="ShareFetch"):
    """The partitions to acquire records of, and acknowledgements of earlier records."""

    class AcknowledgementBatch(Struct):
        first_offset: int = int64()
        last_offset: int = int64()
        acknowledge_types: list[int] = array(Kind.INT8)

    class FetchPartition(Struct):
        partition_index: int = int32()
        acknowledgement_batches: list[ShareFetchRequest.AcknowledgementBatch] = array(
            "AcknowledgementBatch"
        )

    class FetchTopic(Struct):
        topic_id: Uuid = uuid()
        partitions: list[ShareFetchRequest.FetchPartition] = array("FetchPartition")

    class ForgottenTopic(Struct):
        topic_id: Uuid = uuid()
        partitions: list[int] = array(Kind.INT32)

    group_id: str | None = string(nullable=True, default=None)
    member_id: str | None = string(nullable=True)
    share_session_epoch: int = int32()
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32(default=0x7FFFFFFF)
    max_records: int = int32()
    batch_size: int = int32()
    share_acquire_mode: int = int8(versions="2+", ignorable=True)
    is_renew_ack: bool = boolean(versions="2+")
    topics: list[ShareFetchRequest.FetchTopic] = array("FetchTopic")
    forgotten_topics_data: list[ShareFetchRequest.ForgottenTopic] = array("ForgottenTopic")


class ShareFetchResponse(Message, api="ShareFetch"):
    """The records of each partition, and which of them the member has acquired."""

    class LeaderIdAndEpoch(Struct):
        leader_id: int = int32()
        leader_epoch: int = int32()

    class AcquiredRecords(Struct):
        first_offset: int = int64()
        last_offset: int = int64()
        delivery_count: int = int16()

    class PartitionData(Struct):
        partition_index: int = int32()
        error_code: int = int16()
        error_message: str | None = string(nullable=True, default=None)
        acknowledge_error_code: int = int16()
        acknowledge_error_message: str | None = string(nullable=True, default=None)
        current_leader: ShareFetchResponse.LeaderIdAndEpoch = struct("LeaderIdAndEpoch")
        records: Records = records()
        acquired_records: list[ShareFetchResponse.AcquiredRecords] = array("AcquiredRecords")

    class ShareFetchableTopicResponse(Struct):
        topic_id: Uuid = uuid()
        partitions: list[ShareFetchResponse.PartitionData] = array("PartitionData")

    class NodeEndpoint(Struct):
        node_id: int = int32()
        host: str = string()
        port: int = int32()
        rack: str | None = string(nullable=True, default=None)

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    acquisition_lock_timeout_ms: int = int32()
    responses: list[ShareFetchResponse.ShareFetchableTopicResponse] = array(
        "ShareFetchableTopicResponse"
    )
    node_endpoints: list[ShareFetchResponse.NodeEndpoint] = array("NodeEndpoint")

"""ShareAcknowledge: acknowledge records of a share group without fetching more."""

from __future__ import annotations

from barnabas.protocol.fields import Kind, array, boolean, int16, int32, int64, string, struct, uuid
from barnabas.protocol.messages_base import Message, Struct
from barnabas.protocol.types import Uuid


class ShareAcknowledgeRequest(Message, api="ShareAcknowledge"):
    """The acquired records that are accepted, released, rejected or renewed."""

    class AcknowledgementBatch(Struct):
        first_offset: int = int64()
        last_offset: int = int64()
        acknowledge_types: list[int] = array(Kind.INT8)

    class AcknowledgePartition(Struct):
        partition_index: int = int32()
        acknowledgement_batches: list[ShareAcknowledgeRequest.AcknowledgementBatch] = array(
            "AcknowledgementBatch"
        )

    class AcknowledgeTopic(Struct):
        topic_id: Uuid = uuid()
        partitions: list[ShareAcknowledgeRequest.AcknowledgePartition] = array(
            "AcknowledgePartition"
        )

    group_id: str | None = string(nullable=True, default=None)
    member_id: str | None = string(nullable=True)
    share_session_epoch: int = int32()
    is_renew_ack: bool = boolean(versions="2+")
    topics: list[ShareAcknowledgeRequest.AcknowledgeTopic] = array("AcknowledgeTopic")


class ShareAcknowledgeResponse(Message, api="ShareAcknowledge"):
    """The result of each partition: whether the acknowledgements were accepted."""

    class LeaderIdAndEpoch(Struct):
        leader_id: int = int32()
        leader_epoch: int = int32()

    class PartitionData(Struct):
        partition_index: int = int32()
        error_code: int = int16()
        error_message: str | None = string(nullable=True, default=None)
        current_leader: ShareAcknowledgeResponse.LeaderIdAndEpoch = struct("LeaderIdAndEpoch")

    class ShareAcknowledgeTopicResponse(Struct):
        topic_id: Uuid = uuid()
        partitions: list[ShareAcknowledgeResponse.PartitionData] = array("PartitionData")

    class NodeEndpoint(Struct):
        node_id: int = int32()
        host: str = string()
        port: int = int32()
        rack: str | None = string(nullable=True, default=None)

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    acquisition_lock_timeout_ms: int = int32(versions="2+", ignorable=True)
    responses: list[ShareAcknowledgeResponse.ShareAcknowledgeTopicResponse] = array(
        "ShareAcknowledgeTopicResponse"
    )
    node_endpoints: list[ShareAcknowledgeResponse.NodeEndpoint] = array("NodeEndpoint")

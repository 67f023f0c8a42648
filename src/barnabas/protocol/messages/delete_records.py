"""DeleteRecords: delete the oldest records of partitions."""

from __future__ import annotations

from barnabas.protocol.fields import array, int16, int32, int64, string
from barnabas.protocol.messages_base import Message, Struct


class DeleteRecordsRequest(Message, api="DeleteRecords"):
    """The new log start offset of each partition."""

    class DeleteRecordsPartition(Struct):
        partition_index: int = int32()
        offset: int = int64()

    class DeleteRecordsTopic(Struct):
        name: str = string()
        partitions: list[DeleteRecordsRequest.DeleteRecordsPartition] = array(
            "DeleteRecordsPartition"
        )

    topics: list[DeleteRecordsRequest.DeleteRecordsTopic] = array("DeleteRecordsTopic")
    timeout_ms: int = int32()


class DeleteRecordsResponse(Message, api="DeleteRecords"):
    """The log start offset of each partition."""

    class DeleteRecordsPartitionResult(Struct):
        partition_index: int = int32()
        low_watermark: int = int64()
        error_code: int = int16()

    class DeleteRecordsTopicResult(Struct):
        name: str = string()
        partitions: list[DeleteRecordsResponse.DeleteRecordsPartitionResult] = array(
            "DeleteRecordsPartitionResult"
        )

    throttle_time_ms: int = int32()
    topics: list[DeleteRecordsResponse.DeleteRecordsTopicResult] = array("DeleteRecordsTopicResult")

"""WriteTxnMarkers: a coordinator has partition leaders write transaction markers."""

from __future__ import annotations

from barnabas.protocol.fields import Kind, array, boolean, int8, int16, int32, int64, string
from barnabas.protocol.messages_base import Message, Struct


class WriteTxnMarkersRequest(Message, api="WriteTxnMarkers"):
    """The ended transactions, and the partitions that need their markers."""

    class WritableTxnMarkerTopic(Struct):
        name: str = string()
        partition_indexes: list[int] = array(Kind.INT32)

    class WritableTxnMarker(Struct):
        producer_id: int = int64()
        producer_epoch: int = int16()
        transaction_result: bool = boolean()
        topics: list[WriteTxnMarkersRequest.WritableTxnMarkerTopic] = array(
            "WritableTxnMarkerTopic"
        )
        coordinator_epoch: int = int32()
        transaction_version: int = int8(versions="2+", ignorable=True)

    markers: list[WriteTxnMarkersRequest.WritableTxnMarker] = array("WritableTxnMarker")


class WriteTxnMarkersResponse(Message, api="WriteTxnMarkers"):
    """The result of each transaction and partition: whether the marker was written."""

    class WritableTxnMarkerPartitionResult(Struct):
        partition_index: int = int32()
        error_code: int = int16()

    class WritableTxnMarkerTopicResult(Struct):
        name: str = string()
        partitions: list[WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult] = array(
            "WritableTxnMarkerPartitionResult"
        )

    class WritableTxnMarkerResult(Struct):
        producer_id: int = int64()
        topics: list[WriteTxnMarkersResponse.WritableTxnMarkerTopicResult] = array(
            "WritableTxnMarkerTopicResult"
        )

    markers: list[WriteTxnMarkersResponse.WritableTxnMarkerResult] = array(
        "WritableTxnMarkerResult"
    )

"""AddPartitionsToTxn: add partitions to a transaction before they are written."""

from __future__ import annotations

from barnabas.protocol.fields import Kind, array, boolean, int16, int32, int64, string
from barnabas.protocol.messages_base import Message, Struct


class AddPartitionsToTxnRequest(Message, api="AddPartitionsToTxn"):
    """The partitions to add to transactions, or only to verify."""

    class AddPartitionsToTxnTopic(Struct):
        name: str = string()
        partitions: list[int] = array(Kind.INT32)

    class AddPartitionsToTxnTransaction(Struct):
        transactional_id: str = string()
        producer_id: int = int64()
        producer_epoch: int = int16()
        verify_only: bool = boolean()
        topics: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic] = array(
            "AddPartitionsToTxnTopic"
        )

    transactions: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction] = array(
        "AddPartitionsToTxnTransaction", versions="4+"
    )
    v3_and_below_transactional_id: str = string(versions="0-3")
    v3_and_below_producer_id: int = int64(versions="0-3")
    v3_and_below_producer_epoch: int = int16(versions="0-3")
    v3_and_below_topics: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic] = array(
        "AddPartitionsToTxnTopic", versions="0-3"
    )


class AddPartitionsToTxnResponse(Message, api="AddPartitionsToTxn"):
    """The result of each partition: whether it is in the transaction."""

    class AddPartitionsToTxnPartitionResult(Struct):
        partition_index: int = int32()
        partition_error_code: int = int16()

    class AddPartitionsToTxnTopicResult(Struct):
        name: str = string()
        results_by_partition: list[AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult] = (
            array("AddPartitionsToTxnPartitionResult")
        )

    class AddPartitionsToTxnResult(Struct):
        transactional_id: str = string()
        topic_results: list[AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult] = array(
            "AddPartitionsToTxnTopicResult"
        )

    throttle_time_ms: int = int32()
    error_code: int = int16(versions="4+", ignorable=True)
    results_by_transaction: list[AddPartitionsToTxnResponse.AddPartitionsToTxnResult] = array(
        "AddPartitionsToTxnResult", versions="4+"
    )
    results_by_topic_v3_and_below: list[
        AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
    ] = array("AddPartitionsToTxnTopicResult", versions="0-3")

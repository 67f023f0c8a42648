"""DescribeTransactions: describe transactions."""

from __future__ import annotations

from barnabas.protocol.fields import Kind, array, int16, int32, int64, string
from barnabas.protocol.messages_base import Message, Struct


class DescribeTransactionsRequest(Message, api="DescribeTransactions"):
    """The transactional ids."""

    transactional_ids: list[str] = array(Kind.STRING)


class DescribeTransactionsResponse(Message, api="DescribeTransactions"):
    """Each transaction's state, producer, start time and partitions."""

    class TopicData(Struct):
        topic: str = string()
        partitions: list[int] = array(Kind.INT32)

    class TransactionState(Struct):
        error_code: int = int16()
        transactional_id: str = string()
        transaction_state: str = string()
        transaction_timeout_ms: int = int32()
        transaction_start_time_ms: int = int64()
        producer_id: int = int64()
        producer_epoch: int = int16()
        topics: list[DescribeTransactionsResponse.TopicData] = array("TopicData")

    throttle_time_ms: int = int32()
    transaction_states: list[DescribeTransactionsResponse.TransactionState] = array(
        "TransactionState"
    )

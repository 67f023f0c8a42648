"""ListTransactions: list the transactions that a broker coordinates."""

from __future__ import annotations

from barnabas.protocol.fields import Kind, array, int16, int32, int64, string
from barnabas.protocol.messages_base import Message, Struct


class ListTransactionsRequest(Message, api="ListTransactions"):
    """The filters by state, producer, duration or pattern; none for all."""

    state_filters: list[str] = array(Kind.STRING)
    producer_id_filters: list[int] = array(Kind.INT64)
    duration_filter: int = int64(versions="1+", default=-1)
    transactional_id_pattern: str | None = string(versions="2+", nullable=True, default=None)


class ListTransactionsResponse(Message, api="ListTransactions"):
    """The transactional ids with producer and state."""

    class TransactionState(Struct):
        transactional_id: str = string()
        producer_id: int = int64()
        transaction_state: str = string()

    throttle_time_ms: int = int32()
    error_code: int = int16()
    unknown_state_filters: list[str] = array(Kind.STRING)
    transaction_states: list[ListTransactionsResponse.TransactionState] = array("TransactionState")

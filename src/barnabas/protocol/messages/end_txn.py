"""EndTxn: end a transaction."""

from __future__ import annotations

from barnabas.protocol.fields import boolean, int16, int32, int64, string
from barnabas.protocol.messages_base import Message


class EndTxnRequest(Message, api="EndTxn"):
    """The outcome of a producer's ongoing transaction: commit or abort."""

    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    committed: bool = boolean()


class EndTxnResponse(Message, api="EndTxn"):
    """The result and, from version 5 on, the producer id and epoch to use next."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id: int = int64(versions="5+", default=-1, ignorable=True)
    producer_epoch: int = int16(versions="5+", default=-1, ignorable=True)

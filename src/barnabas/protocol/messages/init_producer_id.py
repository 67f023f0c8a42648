"""InitProducerId: allocate a producer id, and fence older producers of a transactional id."""

from __future__ import annotations

from barnabas.protocol.fields import boolean, int16, int32, int64, string
from barnabas.protocol.messages_base import Message


class InitProducerIdRequest(Message, api="InitProducerId"):
    """The transactional id that needs a producer id, or the producer that needs its next epoch."""

    transactional_id: str | None = string(nullable=True)
    transaction_timeout_ms: int = int32()
    producer_id: int = int64(versions="3+", default=-1)
    producer_epoch: int = int16(versions="3+", default=-1)
    enable2_pc: bool = boolean(versions="6+")
    keep_prepared_txn: bool = boolean(versions="6+")


class InitProducerIdResponse(Message, api="InitProducerId"):
    """The producer id and epoch to use."""

    throttle_time_ms: int = int32(ignorable=True)
    error_code: int = int16()
    producer_id: int = int64(default=-1)
    producer_epoch: int = int16()
    ongoing_txn_producer_id: int = int64(versions="6+", default=-1)
    ongoing_txn_producer_epoch: int = int16(versions="6+", default=-1)

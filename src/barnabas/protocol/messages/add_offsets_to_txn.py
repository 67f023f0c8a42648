"""AddOffsetsToTxn: add a group's offsets to a transaction."""

from __future__ import annotations

from barnabas.protocol.fields import int16, int32, int64, string
from barnabas.protocol.messages_base import Message


class AddOffsetsToTxnRequest(Message, api="AddOffsetsToTxn"):
    """The group whose offsets partition is added to a transaction."""

    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    group_id: str = string()


class AddOffsetsToTxnResponse(Message, api="AddOffsetsToTxn"):
    """The result: whether the group's offsets are in the transaction."""

    throttle_time_ms: int = int32()
    error_code: int = int16()

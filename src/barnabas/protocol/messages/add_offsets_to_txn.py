"""AddOffsetsToTxn."""

from __future__ import annotations

from barnabas.protocol.fields import int16, int32, int64, string
from barnabas.protocol.messages_base import Message


class AddOffsetsToTxnRequest(Message, api_key=25, versions="0-4", flexible="3+"):
    """The add offsets to txn request."""

    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    group_id: str = string()


class AddOffsetsToTxnResponse(Message, api_key=25, versions="0-4", flexible="3+"):
    """The add offsets to txn response."""

    throttle_time_ms: int = int32()
    error_code: int = int16()

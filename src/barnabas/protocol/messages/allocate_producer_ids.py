"""Giving brokers blocks of producer ids."""

from __future__ import annotations

from barnabas.protocol.fields import int16, int32, int64
from barnabas.protocol.messages_base import Message


class AllocateProducerIdsRequest(Message, api_key=67, versions="0", flexible="0+"):
    """Asks for the next block, on behalf of a broker."""

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)


class AllocateProducerIdsResponse(Message, api_key=67, versions="0", flexible="0+"):
    """Tells where the block begins and how long it is."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id_start: int = int64()
    producer_id_len: int = int32()

"""AllocateProducerIds: give a block of producer ids to a broker."""

from __future__ import annotations

from barnabas.protocol.fields import int16, int32, int64
from barnabas.protocol.messages_base import Message


class AllocateProducerIdsRequest(Message, api="AllocateProducerIds"):
    """The broker that needs the next block."""

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)


class AllocateProducerIdsResponse(Message, api="AllocateProducerIds"):
    """The first id and the length of the block."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id_start: int = int64()
    producer_id_len: int = int32()

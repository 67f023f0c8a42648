"""Records of `__transaction_state`."""

from __future__ import annotations

from typing import Final

from barnabas.protocol.fields import Kind, array, int8, int16, int32, int64, string
from barnabas.protocol.messages_base import Message, Struct
from barnabas.protocol.records.coordinator_framing import RecordTypes, decode_coordinator_record


class TransactionLogKey(Message, record_type=0, versions="0"):
    """The key of a transactional id."""

    transactional_id: str = string()


class TransactionLogValue(Message, record_type=0, versions="0-1", flexible="1+"):
    """A transactional id's producer, transaction state and partitions."""

    class PartitionsSchema(Struct):
        topic: str = string()
        partition_ids: list[int] = array(Kind.INT32)

    producer_id: int = int64()
    previous_producer_id: int = int64(versions="1+", default=-1, tag=0)
    next_producer_id: int = int64(versions="1+", default=-1, tag=1)
    producer_epoch: int = int16()
    next_producer_epoch: int = int16(versions="1+", default=-1, tag=3)
    transaction_timeout_ms: int = int32()
    transaction_status: int = int8()
    transaction_partitions: list[TransactionLogValue.PartitionsSchema] | None = array(
        "PartitionsSchema", nullable=True
    )
    transaction_last_update_timestamp_ms: int = int64()
    transaction_start_timestamp_ms: int = int64()
    client_transaction_version: int = int16(versions="1+", tag=2)


_TYPES: Final[dict[int, RecordTypes]] = {
    TransactionLogKey.RECORD_TYPE: (TransactionLogKey, TransactionLogValue),
}


def decode_transaction_record(
    key: bytes | None, value: bytes | None
) -> tuple[Message, Message | None]:
    """Decode a record of `__transaction_state`; the value is None when it is a tombstone.

    Raises UnknownRecordTypeError, and ProtocolError for malformed bytes.
    """
    return decode_coordinator_record(_TYPES.get, key, value)

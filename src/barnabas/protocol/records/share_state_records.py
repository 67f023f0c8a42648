"""Records of `__share_group_state`, the progress of share groups (KIP-932)."""

from __future__ import annotations

from typing import Final

from barnabas.protocol.fields import array, int8, int16, int32, int64, string, uuid
from barnabas.protocol.messages_base import Message, Struct
from barnabas.protocol.records.coordinator_framing import RecordTypes, decode_coordinator_record
from barnabas.protocol.types import Uuid


class ShareSnapshotKey(Message, record_type=0, versions="0"):
    """The key of a share partition's snapshot."""

    group_id: str = string()
    topic_id: Uuid = uuid()
    partition: int = int32()


class ShareSnapshotValue(Message, record_type=0, versions="0", flexible="0+"):
    """The complete state of a share partition; a replay can start from it."""

    class StateBatch(Struct):
        first_offset: int = int64()
        last_offset: int = int64()
        delivery_state: int = int8()
        delivery_count: int = int16()

    snapshot_epoch: int = int32()
    state_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32(default=-1, tag=0)
    create_timestamp: int = int64()
    write_timestamp: int = int64()
    state_batches: list[ShareSnapshotValue.StateBatch] = array("StateBatch")


class ShareUpdateKey(Message, record_type=1, versions="0"):
    """The key of an update of a share partition's state."""

    group_id: str = string()
    topic_id: Uuid = uuid()
    partition: int = int32()


class ShareUpdateValue(Message, record_type=1, versions="0", flexible="0+"):
    """The changes of a share partition since its snapshot."""

    class StateBatch(Struct):
        first_offset: int = int64()
        last_offset: int = int64()
        delivery_state: int = int8()
        delivery_count: int = int16()

    snapshot_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32(default=-1, tag=0)
    state_batches: list[ShareUpdateValue.StateBatch] = array("StateBatch")


_TYPES: Final[dict[int, RecordTypes]] = {
    ShareSnapshotKey.RECORD_TYPE: (ShareSnapshotKey, ShareSnapshotValue),
    ShareUpdateKey.RECORD_TYPE: (ShareUpdateKey, ShareUpdateValue),
}


def decode_share_record(key: bytes | None, value: bytes | None) -> tuple[Message, Message | None]:
    """Decode a record of `__share_group_state`; the value is None when it is a tombstone.

    Raises UnknownRecordTypeError, and ProtocolError for malformed bytes.
    """
    return decode_coordinator_record(_TYPES.get, key, value)

"""Records of classic groups and committed offsets, and the decoder of `__consumer_offsets`.

The records of other group types are declared in their own modules, which are imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final

from barnabas.protocol.fields import array, binary, int32, int64, string, uuid
from barnabas.protocol.messages_base import Message, Struct
from barnabas.protocol.records.coordinator_framing import (
    RecordTypes,
    UnknownRecordTypeError,
    decode_coordinator_record,
    encode_coordinator_key,
    encode_coordinator_value,
)
from barnabas.protocol.types import Uuid

__all__ = [
    "GroupMetadataKey",
    "GroupMetadataValue",
    "LegacyOffsetCommitKey",
    "LegacyOffsetCommitValue",
    "OffsetCommitKey",
    "OffsetCommitValue",
    "UnknownRecordTypeError",
    "decode_group_record",
    "encode_coordinator_key",
    "encode_coordinator_value",
]


class LegacyOffsetCommitKey(Message, record_type=0, versions="0"):
    """The key of a committed offset, as old brokers wrote it."""

    group: str = string()
    topic: str = string()
    partition: int = int32()


class LegacyOffsetCommitValue(Message, record_type=0, versions="0"):
    """A committed offset, as old brokers wrote it."""

    offset: int = int64()
    metadata: str = string()
    commit_timestamp: int = int64()


class OffsetCommitKey(Message, record_type=1, versions="0"):
    """The key of a group's committed offset in a partition."""

    group: str = string()
    topic: str = string()
    partition: int = int32()


class OffsetCommitValue(Message, record_type=1, versions="0-4", flexible="4+"):
    """A committed offset with its metadata and timestamps (ms)."""

    offset: int = int64()
    leader_epoch: int = int32(versions="3+", default=-1, ignorable=True)
    metadata: str = string()
    commit_timestamp: int = int64()
    expire_timestamp: int = int64(versions="1", default=-1, ignorable=True)
    topic_id: Uuid = uuid(versions="4+", tag=0, ignorable=True)


class GroupMetadataKey(Message, record_type=2, versions="0"):
    """The key of a classic group."""

    group: str = string()


class GroupMetadataValue(Message, record_type=2, versions="0-4", flexible="4+"):
    """A classic group's generation, protocol and members."""

    class MemberMetadata(Struct):
        member_id: str = string()
        group_instance_id: str | None = string(
            versions="3+", nullable=True, default=None, ignorable=True
        )
        client_id: str = string()
        client_host: str = string()
        rebalance_timeout: int = int32(versions="1+", default=-1, ignorable=True)
        session_timeout: int = int32()
        subscription: bytes = binary()
        assignment: bytes = binary()

    protocol_type: str = string()
    generation: int = int32()
    protocol: str | None = string(nullable=True)
    leader: str | None = string(nullable=True)
    current_state_timestamp: int = int64(versions="2+", default=-1, ignorable=True)
    members: list[GroupMetadataValue.MemberMetadata] = array("MemberMetadata")


_CLASSIC: Final[dict[int, RecordTypes]] = {
    LegacyOffsetCommitKey.RECORD_TYPE: (LegacyOffsetCommitKey, LegacyOffsetCommitValue),
    OffsetCommitKey.RECORD_TYPE: (OffsetCommitKey, OffsetCommitValue),
    GroupMetadataKey.RECORD_TYPE: (GroupMetadataKey, GroupMetadataValue),
}

# Records of other group types: record type, module, name without Key or Value.
_OTHERS: Final = {
    3: ("consumer_group_records", "ConsumerGroupMetadata"),
    4: ("consumer_group_records", "ConsumerGroupPartitionMetadata"),
    5: ("consumer_group_records", "ConsumerGroupMemberMetadata"),
    6: ("consumer_group_records", "ConsumerGroupTargetAssignmentMetadata"),
    7: ("consumer_group_records", "ConsumerGroupTargetAssignmentMember"),
    8: ("consumer_group_records", "ConsumerGroupCurrentMemberAssignment"),
    10: ("share_group_records", "ShareGroupMemberMetadata"),
    11: ("share_group_records", "ShareGroupMetadata"),
    12: ("share_group_records", "ShareGroupTargetAssignmentMetadata"),
    13: ("share_group_records", "ShareGroupTargetAssignmentMember"),
    14: ("share_group_records", "ShareGroupCurrentMemberAssignment"),
    15: ("share_group_records", "ShareGroupStatePartitionMetadata"),
    16: ("consumer_group_records", "ConsumerGroupRegularExpression"),
    17: ("streams_group_records", "StreamsGroupMetadata"),
    19: ("streams_group_records", "StreamsGroupMemberMetadata"),
    20: ("streams_group_records", "StreamsGroupTargetAssignmentMetadata"),
    21: ("streams_group_records", "StreamsGroupTargetAssignmentMember"),
    22: ("streams_group_records", "StreamsGroupCurrentMemberAssignment"),
    23: ("streams_group_records", "StreamsGroupTopology"),
}


def decode_group_record(key: bytes | None, value: bytes | None) -> tuple[Message, Message | None]:
    """Decode a record of `__consumer_offsets`; the value is None when it is a tombstone.

    Raises UnknownRecordTypeError, and ProtocolError for malformed bytes.
    """
    return decode_coordinator_record(_types, key, value)


def _types(record_type: int) -> RecordTypes | None:
    classic = _CLASSIC.get(record_type)
    if classic is not None or record_type not in _OTHERS:
        return classic
    module_name, name = _OTHERS[record_type]
    module = import_module(f"barnabas.protocol.records.{module_name}")
    return getattr(module, f"{name}Key"), getattr(module, f"{name}Value")

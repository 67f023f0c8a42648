"""The records that groups and offsets write to `__consumer_offsets`, in the versions of Kafka 4.3.

Kafka: GroupCoordinatorRecordHelpers.
"""

from barnabas.coordinator.core.coordinator_output import Record
from barnabas.protocol.records.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)

GROUP_METADATA_VERSION = 3
OFFSET_COMMIT_VERSION = 4
# Only version 1 has the expire timestamp that OffsetCommit v2-4 may ask for.
OFFSET_COMMIT_EXPIRING_VERSION = 1


def offset_commit(group_id: str, topic: str, partition: int, value: OffsetCommitValue) -> Record:
    """A committed offset of one partition."""
    expires = value.expire_timestamp != -1
    return Record(
        OffsetCommitKey(group=group_id, topic=topic, partition=partition),
        value,
        OFFSET_COMMIT_EXPIRING_VERSION if expires else OFFSET_COMMIT_VERSION,
    )


def offset_tombstone(group_id: str, topic: str, partition: int) -> Record:
    """The removal of a committed offset."""
    return Record(OffsetCommitKey(group=group_id, topic=topic, partition=partition), None)


def group_metadata(group_id: str, value: GroupMetadataValue) -> Record:
    """The state of a classic group at the end of a rebalance."""
    return Record(GroupMetadataKey(group=group_id), value, GROUP_METADATA_VERSION)


def group_tombstone(group_id: str) -> Record:
    """The removal of a classic group."""
    return Record(GroupMetadataKey(group=group_id), None)

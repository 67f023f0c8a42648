"""Committed offsets: commit, fetch, deletion, expiry, and the offsets of open transactions.

Kafka: OffsetMetadataManager.
"""

from collections.abc import Callable, Iterator
from typing import TypeAlias

import attrs

from barnabas.coordinator.core.coordinator_output import Output, Record, Token
from barnabas.coordinator.groups.group_settings import GroupSettings
from barnabas.coordinator.groups.offset_and_group_records import offset_commit, offset_tombstone
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from barnabas.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from barnabas.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from barnabas.protocol.records.group_records import OffsetCommitKey, OffsetCommitValue
from barnabas.protocol.types import ZERO_UUID, Uuid

FetchGroup: TypeAlias = OffsetFetchRequest.OffsetFetchRequestGroup
FetchedGroup: TypeAlias = OffsetFetchResponse.OffsetFetchResponseGroup
FetchedTopic: TypeAlias = OffsetFetchResponse.OffsetFetchResponseTopics
FetchedPartition: TypeAlias = OffsetFetchResponse.OffsetFetchResponsePartitions

INVALID_OFFSET = -1


@attrs.frozen
class Committed:
    """One committed offset and the offset of its record in `__consumer_offsets`."""

    value: OffsetCommitValue
    record_offset: int


class _Table:
    """Offsets by group, topic and partition; empty levels are removed."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, dict[int, Committed]]] = {}

    def get(self, group_id: str, topic: str, partition: int) -> Committed | None:
        return self._groups.get(group_id, {}).get(topic, {}).get(partition)

    def put(self, group_id: str, topic: str, partition: int, committed: Committed) -> None:
        topics = self._groups.setdefault(group_id, {})
        topics.setdefault(topic, {})[partition] = committed

    def remove(self, group_id: str, topic: str, partition: int) -> None:
        topics = self._groups.get(group_id)
        if topics is None or topic not in topics:
            return
        topics[topic].pop(partition, None)
        if not topics[topic]:
            del topics[topic]
        if not topics:
            del self._groups[group_id]

    def topics(self, group_id: str) -> dict[str, dict[int, Committed]]:
        return self._groups.get(group_id, {})

    def items(self) -> Iterator[tuple[str, str, int, Committed]]:
        for group_id, topics in self._groups.items():
            for topic, partitions in topics.items():
                for partition, committed in partitions.items():
                    yield group_id, topic, partition, committed


class Offsets:
    """The offsets of all groups of one shard; only `replay` and `end_transaction` change them."""

    def __init__(self, settings: GroupSettings) -> None:
        self._settings = settings
        self._committed = _Table()
        # By producer id: offsets whose transaction has not ended.
        self._pending: dict[int, _Table] = {}

    # Commit and delete

    def commit(self, request: OffsetCommitRequest, now_ms: int, token: Token) -> Output:
        """Write the offsets of a request that its group has accepted."""
        out = Output()
        retention_ms = request.retention_time_ms
        expires_ms = -1 if retention_ms == -1 else now_ms + retention_ms
        topics: list[OffsetCommitResponse.OffsetCommitResponseTopic] = []
        for topic in request.topics:
            partitions: list[OffsetCommitResponse.OffsetCommitResponsePartition] = []
            for partition in topic.partitions:
                metadata = partition.committed_metadata or ""
                error = ErrorCode.NONE
                if _utf16_length(metadata) > self._settings.offset_metadata_max_size:
                    error = ErrorCode.OFFSET_METADATA_TOO_LARGE
                else:
                    value = OffsetCommitValue(
                        offset=partition.committed_offset,
                        leader_epoch=partition.committed_leader_epoch,
                        metadata=metadata,
                        commit_timestamp=now_ms,
                        expire_timestamp=expires_ms,
                        topic_id=topic.topic_id,
                    )
                    out.records.append(
                        offset_commit(
                            request.group_id, topic.name, partition.partition_index, value
                        )
                    )
                partitions.append(
                    OffsetCommitResponse.OffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=error
                    )
                )
            topics.append(
                OffsetCommitResponse.OffsetCommitResponseTopic(
                    name=topic.name, topic_id=topic.topic_id, partitions=partitions
                )
            )
        out.reply(token, OffsetCommitResponse(topics=topics))
        return out

    def commit_transactional(
        self, request: TxnOffsetCommitRequest, now_ms: int, token: Token
    ) -> Output:
        """Write offsets that take effect when the transaction of the request's producer commits."""
        out = Output()
        topics: list[TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic] = []
        for topic in request.topics:
            partitions: list[TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition] = []
            for partition in topic.partitions:
                index = partition.partition_index
                metadata = partition.committed_metadata or ""
                error = ErrorCode.NONE
                if _utf16_length(metadata) > self._settings.offset_metadata_max_size:
                    error = ErrorCode.OFFSET_METADATA_TOO_LARGE
                else:
                    value = OffsetCommitValue(
                        offset=partition.committed_offset,
                        leader_epoch=partition.committed_leader_epoch,
                        metadata=metadata,
                        commit_timestamp=now_ms,
                        expire_timestamp=-1,
                    )
                    out.records.append(offset_commit(request.group_id, topic.name, index, value))
                partitions.append(
                    TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition(
                        partition_index=index, error_code=error
                    )
                )
            topics.append(
                TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic(
                    name=topic.name, partitions=partitions
                )
            )
        out.reply(token, TxnOffsetCommitResponse(topics=topics))
        return out

    def delete(
        self,
        request: OffsetDeleteRequest,
        is_subscribed_to: Callable[[str], bool],
        token: Token,
    ) -> Output:
        """Remove offsets of topics that no member consumes."""
        out = Output()
        topics: list[OffsetDeleteResponse.OffsetDeleteResponseTopic] = []
        for topic in request.topics:
            subscribed = is_subscribed_to(topic.name)
            error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if subscribed else ErrorCode.NONE
            topics.append(
                OffsetDeleteResponse.OffsetDeleteResponseTopic(
                    name=topic.name,
                    partitions=[
                        OffsetDeleteResponse.OffsetDeleteResponsePartition(
                            partition_index=partition.partition_index, error_code=error
                        )
                        for partition in topic.partitions
                    ],
                )
            )
            if subscribed:
                continue
            for partition in topic.partitions:
                index = partition.partition_index
                if self._exists(request.group_id, topic.name, index):
                    out.records.append(offset_tombstone(request.group_id, topic.name, index))
        out.reply(token, OffsetDeleteResponse(topics=topics))
        return out

    def tombstones(self, group_id: str) -> list[Record]:
        """Return the removal of all offsets of a group, including those of open transactions."""
        found = {
            (topic, partition): None
            for table in (self._committed, *self._pending.values())
            for topic, partitions in table.topics(group_id).items()
            for partition in partitions
        }
        return [offset_tombstone(group_id, topic, partition) for topic, partition in found]

    def tombstones_of_topics(self, deleted: dict[str, Uuid]) -> list[Record]:
        """Return the removal of the offsets of deleted topics, given as names with their ids."""
        found: dict[tuple[str, str, int], None] = {}
        for table in (self._committed, *self._pending.values()):
            for group_id, topic, partition, committed in table.items():
                topic_id = deleted.get(topic)
                if topic_id is not None and not _differ(committed.value.topic_id, topic_id):
                    found[group_id, topic, partition] = None
        return [offset_tombstone(*key) for key in found]

    # Fetch

    def fetch(self, request: FetchGroup, *, require_stable: bool) -> FetchedGroup:
        """Return the offsets of the named partitions, or all of the group's (topics is None).

        An offset that was committed for a topic of the same name but another id does not count.
        """
        if request.topics is None:
            return self._fetch_all(request.group_id, require_stable=require_stable)
        group_id = request.group_id
        topics: list[FetchedTopic] = []
        for topic in request.topics:
            partitions: list[FetchedPartition] = []
            for index in topic.partition_indexes:
                committed = self._committed.get(group_id, topic.name, index)
                if require_stable and self._is_pending(group_id, topic.name, index):
                    partitions.append(_no_offset(index, ErrorCode.UNSTABLE_OFFSET_COMMIT))
                elif committed is None or _differ(committed.value.topic_id, topic.topic_id):
                    partitions.append(_no_offset(index, ErrorCode.NONE))
                else:
                    partitions.append(_fetched(index, committed.value))
            topics.append(
                FetchedTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions)
            )
        return FetchedGroup(group_id=group_id, topics=topics)

    def _fetch_all(self, group_id: str, *, require_stable: bool) -> FetchedGroup:
        return FetchedGroup(
            group_id=group_id,
            topics=[
                FetchedTopic(
                    name=topic,
                    partitions=[
                        _no_offset(index, ErrorCode.UNSTABLE_OFFSET_COMMIT)
                        if require_stable and self._is_pending(group_id, topic, index)
                        else _fetched(index, committed.value)
                        for index, committed in partitions.items()
                    ],
                )
                for topic, partitions in self._committed.topics(group_id).items()
            ],
        )

    def _exists(self, group_id: str, topic: str, partition: int) -> bool:
        return self._committed.get(group_id, topic, partition) is not None or self._is_pending(
            group_id, topic, partition
        )

    def _is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        return any(
            table.get(group_id, topic, partition) is not None for table in self._pending.values()
        )

    def has_open_transaction(self, group_id: str) -> bool:
        """True when a transaction that has not ended has offsets of the group."""
        return any(table.topics(group_id) for table in self._pending.values())

    def holds(self, group_id: str) -> bool:
        """True when the group has offsets, including pending ones."""
        return bool(self._committed.topics(group_id)) or self.has_open_transaction(group_id)

    # Expiry

    def expired(
        self,
        group_id: str,
        base_ms: Callable[[OffsetCommitValue], int],
        is_subscribed_to: Callable[[str], bool],
        now_ms: int,
    ) -> tuple[list[Record], bool]:
        """Return tombstones of offsets past their retention since `base_ms`, and whether that is
        all.

        A commit with its own retention (OffsetCommit v2-4) uses that.
        """
        records: list[Record] = []
        all_expired = not self.has_open_transaction(group_id)
        for topic, partitions in self._committed.topics(group_id).items():
            if is_subscribed_to(topic):
                all_expired = False
                continue
            for partition, committed in partitions.items():
                value = committed.value
                if value.expire_timestamp != -1:
                    over = now_ms >= value.expire_timestamp
                else:
                    over = now_ms - base_ms(value) >= self._settings.offsets_retention_ms
                if over and not self._is_pending(group_id, topic, partition):
                    records.append(offset_tombstone(group_id, topic, partition))
                else:
                    all_expired = False
        return records, all_expired

    # Replay

    def replay(
        self,
        key: OffsetCommitKey,
        value: OffsetCommitValue | None,
        record_offset: int,
        producer_id: int,
    ) -> None:
        """Apply one record; with a producer id it stays pending until that producer's marker."""
        where = key.group, key.topic, key.partition
        if value is None:
            self._committed.remove(*where)
            for table in self._pending.values():
                table.remove(*where)
        elif producer_id == -1:
            self._committed.put(*where, Committed(value, record_offset))
        else:
            table = self._pending.setdefault(producer_id, _Table())
            table.put(*where, Committed(value, record_offset))

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """Commit or drop a transaction's pending offsets.

        An offset that was committed after the transaction's own stays. After compaction nothing
        else would show which one came last.
        """
        table = self._pending.pop(producer_id, None)
        if table is None or not commit:
            return
        for group_id, topic, partition, committed in table.items():
            present = self._committed.get(group_id, topic, partition)
            if present is None or committed.record_offset > present.record_offset:
                self._committed.put(group_id, topic, partition, committed)


def _fetched(index: int, value: OffsetCommitValue) -> FetchedPartition:
    return FetchedPartition(
        partition_index=index,
        committed_offset=value.offset,
        committed_leader_epoch=value.leader_epoch,
        metadata=value.metadata,
    )


def _no_offset(index: int, error: ErrorCode) -> FetchedPartition:
    return FetchedPartition(
        partition_index=index,
        committed_offset=INVALID_OFFSET,
        committed_leader_epoch=-1,
        metadata="",
        error_code=error,
    )


def _differ(one: Uuid, other: Uuid) -> bool:
    """True when two topic ids are known and not the same."""
    return one != other and ZERO_UUID not in (one, other)


def _utf16_length(text: str) -> int:
    """Return the length as Java counts it; offset.metadata.max.bytes limits that."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2

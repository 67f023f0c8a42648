"""One led partition of `__consumer_offsets`: groups, offsets, and offsets of transactions."""

from collections.abc import Callable, Collection
from typing import Any

from barnabas.cluster.metadata.image import MetadataImage
from barnabas.cluster.replication import ReplicaManager
from barnabas.coordinator.core.coordinator_output import Output
from barnabas.coordinator.groups.consumer.regex_subscriptions import Wanted
from barnabas.coordinator.groups.group_settings import GroupSettings
from barnabas.coordinator.groups.group_shard import GroupShard
from barnabas.protocol.batches.batch_header import BatchHeader
from barnabas.protocol.batches.compression import Codec
from barnabas.protocol.batches.control_batches import ControlType, control_type
from barnabas.protocol.batches.record_decoding import Record
from barnabas.protocol.messages_base import Message
from barnabas.protocol.records.group_records import decode_group_record
from barnabas.server.coordinators.coordinator_partition import (
    BeginSync,
    CoordinatorPartition,
    DecodedRecord,
    GoOn,
)
from barnabas.server.coordinators.internal_topics import OFFSETS_TOPIC


class GroupPartition(CoordinatorPartition[GroupShard]):
    """A partition of groups that this node coordinates."""

    TOPIC = OFFSETS_TOPIC
    THINGS = "groups"

    def __init__(
        self,
        replicas: ReplicaManager,
        index: int,
        shard: GroupShard,
        *,
        now_ms: Callable[[], int],
        stamp_ms: Callable[[], int],
        commit_timeout_ms: int,
        begin_sync: BeginSync,
        go_on: GoOn,
        codec: Codec,
        resolve: "Callable[[GroupPartition, Wanted], None]",
    ) -> None:
        super().__init__(
            replicas,
            index,
            shard,
            now_ms=now_ms,
            stamp_ms=stamp_ms,
            commit_timeout_ms=commit_timeout_ms,
            begin_sync=begin_sync,
            go_on=go_on,
            codec=codec,
        )
        self._resolve = resolve
        # Topics deleted while loading, whose offsets go once that is done.
        self.deleted_topics: dict[str, Any] = {}

    def carry_out_effects(self, effects: list[Wanted]) -> None:
        """Have expressions resolved."""
        for wanted in effects:
            self._resolve(self, wanted)

    def decode(self, key: bytes, value: bytes | None) -> DecodedRecord:
        """A record of groups or offsets."""
        return decode_group_record(key, value)

    def replay(
        self, key: Message, value: Message | None, *, record_offset: int, producer_id: int
    ) -> None:
        """Takes a record in; one of a transaction's waits for its end."""
        self.shard.replay(key, value, record_offset=record_offset, producer_id=producer_id)

    def replay_control(self, record: Record, header: BatchHeader) -> None:
        """The end of a transaction of offsets."""
        commit = control_type(record.key) == ControlType.COMMIT
        self.shard.end_transaction(header.producer_id, commit=commit)

    def update_metadata(
        self,
        image: MetadataImage,
        settings: GroupSettings,
        *,
        changed: Collection[str],
        created: bool,
    ) -> None:
        """The metadata has changed; a decision that is under way ends with what it began with."""

        def update() -> Output:
            self.shard.update_metadata(image, settings, changed=changed, created=created)
            return Output()

        self.perform(update)

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """A marker was appended here: the transaction's offsets count, or are forgotten."""
        self.shard.end_transaction(producer_id, commit=commit)

    def started(self) -> None:
        """Topics may have been deleted while loading."""
        self.forget_topics({})

    def forget_topics(self, deleted: dict[str, Any]) -> None:
        """Remove the offsets of deleted topics (names with ids), after loading if need be."""
        self.deleted_topics |= deleted
        if self.is_loaded and self.deleted_topics:
            topics, self.deleted_topics = self.deleted_topics, {}
            self.perform(lambda: self.shard.topics_deleted(topics))

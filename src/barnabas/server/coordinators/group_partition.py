"""One partition of `__consumer_offsets` led here: groups, offsets, and offsets of transactions."""

from collections.abc import Callable, Collection, Mapping

from barnabas.cluster.metadata.image import MetadataImage
from barnabas.coordinator.core.coordinator_output import Output
from barnabas.coordinator.groups.consumer.regex_subscriptions import ResolutionRequest
from barnabas.coordinator.groups.group_settings import GroupSettings
from barnabas.coordinator.groups.group_shard import GroupShard
from barnabas.protocol.batches.batch_header import BatchHeader
from barnabas.protocol.batches.compression import Codec
from barnabas.protocol.batches.control_batches import ControlType, control_type
from barnabas.protocol.batches.record_decoding import Record
from barnabas.protocol.messages_base import Message
from barnabas.protocol.records.group_records import decode_group_record
from barnabas.protocol.types import Uuid
from barnabas.server.coordinators.coordinator_partition import (
    CoordinatorContext,
    CoordinatorPartition,
)
from barnabas.server.coordinators.coordinator_replay import DecodedRecord
from barnabas.server.coordinators.internal_topics import OFFSETS_TOPIC


class GroupPartition(CoordinatorPartition[GroupShard]):
    """A partition of groups that this node coordinates."""

    TOPIC = OFFSETS_TOPIC
    CONTENT = "groups"

    def __init__(
        self,
        context: CoordinatorContext,
        index: int,
        leader_epoch: int,
        shard: GroupShard,
        *,
        commit_timeout_ms: int,
        codec: Codec,
        resolve: "Callable[[GroupPartition, ResolutionRequest], None]",
    ) -> None:
        super().__init__(
            context, index, leader_epoch, shard, commit_timeout_ms=commit_timeout_ms, codec=codec
        )
        self._resolve = resolve
        # Topics whose offsets are not removed yet: names with ids.
        self._deleted_topics: dict[str, Uuid] = {}

    def carry_out_effects(self, effects: list[ResolutionRequest]) -> None:
        """Resolve regular expressions."""
        for request in effects:
            self._resolve(self, request)

    def decode(self, key: bytes, value: bytes | None) -> DecodedRecord:
        """Decode a record of a group or an offset."""
        return decode_group_record(key, value)

    def replay(
        self, key: Message, value: Message | None, *, record_offset: int, producer_id: int
    ) -> None:
        """Apply a record; offsets of a transaction stay pending until its marker."""
        self.shard.replay(key, value, record_offset=record_offset, producer_id=producer_id)

    def replay_control(self, record: Record, header: BatchHeader) -> None:
        """Apply the end of a transaction."""
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
        """Take new metadata; a decision in progress ends with the metadata that it began with."""

        def update() -> Output:
            self.shard.update_metadata(image, settings, changed=changed, created=created)
            return Output()

        self.submit(update)

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """Apply a marker that was appended here: pending offsets are committed or dropped."""
        try:
            self.shard.end_transaction(producer_id, commit=commit)
        except Exception as error:  # the marker is in the log: loading again applies it
            self.fail(error)

    def started(self) -> None:
        """Remove the offsets of topics that were deleted during loading."""
        self.forget_topics({})

    def continue_in(self, leader_epoch: int | None) -> bool:
        """Continue without loading when this node leads in the next epoch, too.

        Every change of the leader begins an epoch, so no other node has led in between (Kafka: "The
        coordinator is already active").
        """
        if not self.is_loaded or leader_epoch != self.leader_epoch + 1:
            return False
        self.leader_epoch += 1
        return True

    def inherit(self, failed: CoordinatorPartition[GroupShard]) -> None:
        """Take over the deleted topics whose offsets are still there."""
        if isinstance(failed, GroupPartition):
            self._deleted_topics |= failed._deleted_topics

    def forget_topics(self, deleted: Mapping[str, Uuid]) -> None:
        """Remove the offsets of deleted topics (names with ids), after loading if need be."""
        self._deleted_topics |= deleted
        if not self.is_loaded or not self._deleted_topics:
            return
        topics = dict(self._deleted_topics)

        def forget() -> Output:
            out = self.shard.topics_deleted(topics)
            for name in topics:
                self._deleted_topics.pop(name, None)
            return out

        self.submit(forget)

"""Checkpoints of groups: which of them are written, and the offsets that they give: sans-I/O."""

from collections.abc import Iterable, Mapping
from typing import Protocol

from barnabas.pipeline.delivery.driver.group_offsets import GroupEntry
from barnabas.pipeline.mirror.flow_connector import TopicFilter
from barnabas.pipeline.mirror.flow_values import Partition
from barnabas.pipeline.mirror.mirrormaker.internal_records import (
    Checkpoint,
    InternalRecordError,
)
from barnabas.pipeline.mirror.mirrormaker.replication_policies import ReplicationPolicy
from barnabas.protocol.batches.record_decoding import Record


class Translation(Protocol):
    """Translates offsets of the source."""

    def translate(self, where: Partition, offset: int) -> int | None:
        """Return the target's offset; None when it is unknown, negative when it is too old."""
        ...


class CheckpointBook:
    """The last checkpoint of each group and partition."""

    def __init__(self, chosen: TopicFilter) -> None:
        self._chosen = chosen
        self._last: dict[str, dict[Partition, Checkpoint]] = {}

    def load(self, records: Iterable[Record]) -> None:
        """Take in the records of the topic; those of an unknown format are passed over."""
        for record in records:
            try:
                self._note(Checkpoint.of(record.key, record.value))
            except InternalRecordError:
                continue

    def update(
        self, group: str, entries: Mapping[Partition, GroupEntry], syncs: Translation
    ) -> list[Checkpoint]:
        """Return the checkpoints to write for the offsets of a group at the source.

        The target's offset never goes back unless the group does at the source. Offsets before all
        offset syncs are not translated.
        """
        found: list[Checkpoint] = []
        for where, entry in entries.items():
            if not self._chosen.accepts(where[0]):
                continue
            offset = syncs.translate(where, entry.offset)
            if offset is None or offset < 0:
                continue
            topic = remote_name(self._chosen.policy, self._chosen.target, where[0])
            checkpoint = Checkpoint(group, topic, where[1], entry.offset, offset, entry.metadata)
            if self._is_newer(checkpoint):
                self._note(checkpoint)
                found.append(checkpoint)
        return found

    def offsets(self) -> dict[str, dict[Partition, GroupEntry]]:
        """Return the offsets at the target of each group."""
        return {
            group: {
                where: GroupEntry(each.downstream, each.metadata) for where, each in last.items()
            }
            for group, last in self._last.items()
        }

    def _is_newer(self, checkpoint: Checkpoint) -> bool:
        where = checkpoint.topic, checkpoint.partition
        last = self._last.get(checkpoint.group, {}).get(where)
        return (
            last is None
            or checkpoint.upstream < last.upstream
            or checkpoint.downstream > last.downstream
        )

    def _note(self, checkpoint: Checkpoint) -> None:
        where = checkpoint.topic, checkpoint.partition
        self._last.setdefault(checkpoint.group, {})[where] = checkpoint


def remote_name(policy: ReplicationPolicy, target: str, topic: str) -> str:
    """Return the name at the target: a topic that came from there has its first name."""
    if policy.topic_source(topic) == target:
        return policy.original_topic(topic)
    return policy.remote_topic(topic)

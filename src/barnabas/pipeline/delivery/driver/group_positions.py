"""Commits the positions of a query to its group, for tools that show lag.

The positions of a job with micro-batches are in its checkpoint, those of an at-least-once job in
the group: it starts after them, so they are committed after the batch.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from confluent_kafka import Consumer, TopicPartition

from barnabas.pipeline.delivery.plan.job_plan import PartitionLag
from barnabas.pipeline.delivery.plan.offset_metadata import OffsetMetadata
from barnabas.pipeline.delivery.writing.record_producer import QUIET

_NO_IDS: Final[Mapping[str, str]] = {}


class GroupPositions:
    """Commits positions of one group; it joins no group."""

    def __init__(
        self, group_id: str, properties: Mapping[str, Any], topic_ids: Mapping[str, str] = _NO_IDS
    ) -> None:
        self._topic_ids = topic_ids
        self._consumer = Consumer(
            {**properties, "group.id": group_id, "enable.auto.commit": False, "logger": QUIET}
        )

    def commit(self, positions: Sequence[PartitionLag]) -> None:
        """Commit the positions of a batch; of a partition with several, the least.

        A topic that is joined with itself has two sources. Raises KafkaException.
        """
        if positions:
            descending = sorted(positions, key=lambda each: each.position, reverse=True)
            least = {(each.topic, each.partition): each for each in descending}
            offsets = [self._offset(position) for position in least.values()]
            self._consumer.commit(offsets=offsets, asynchronous=False)

    def _offset(self, at: PartitionLag) -> TopicPartition:
        now_ms = int(time.time() * 1000)
        metadata = OffsetMetadata(self._topic_ids.get(at.topic), "", now_ms).encode()
        return TopicPartition(at.topic, at.partition, at.position, metadata=metadata)

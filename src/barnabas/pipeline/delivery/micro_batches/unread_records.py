"""The partitions of which a micro-batch left records unread, because it was full.

Spark's Kafka source takes `maxOffsetsPerTrigger` records of a topic at most, a share of each
partition, rounded down. So a micro-batch with fewer records than the limit less one for each
partition has read all that there was. Of one with more, the ends of the partitions are requested
from the brokers: where the end is beyond the micro-batch, another micro-batch follows for certain.
Not so in a query that stops at the ends of its start: those are then the ends.

A backlog is a sequence of micro-batches that left records unread, and the first one that did not.
The answer of the brokers is kept in the checkpoint, so a micro-batch that is repeated has the same.
So are, for each lane, the largest timestamps since the backlog began. These files exist only where
a micro-batch was full, and they are synced: rows that wait depend on them.
"""

import functools
import json
import urllib.parse
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import attrs
from confluent_kafka import KafkaException

from barnabas.pipeline.delivery.driver.cluster_state import ClusterState
from barnabas.pipeline.delivery.micro_batches.checkpoint_files import STREAM_TIMES, CheckpointFiles
from barnabas.pipeline.delivery.micro_batches.stream_times import UNKNOWN_MS, Partition, StreamTimes
from barnabas.pipeline.delivery.plan import kafka_properties
from barnabas.pipeline.delivery.plan.task_failures import TaskFailureError

_UNREAD: Final = f"{STREAM_TIMES}/unread"
_NEWEST: Final = f"{STREAM_TIMES}/newest-"


@attrs.frozen
class ReadTopics:
    """Topics that a query reads, and the client that requests their ends."""

    records_max: Mapping[str, int]
    """The largest number of records of a micro-batch, by topic."""
    client: Mapping[str, str] = attrs.field(repr=False)
    """The properties of a client, by Java's names."""

    def ends(self, partitions: Mapping[Partition, int]) -> dict[Partition, int]:
        """Return the ends of what read_committed shows. Raises TaskFailureError."""
        try:
            return self._cluster().ends(list(partitions))
        except KafkaException as error:
            raise _unknown_ends({topic for topic, _ in partitions}, error) from error

    def all_ends(self) -> dict[Partition, int]:
        """Return the ends of all partitions as `ends` does. Raises TaskFailureError."""
        try:
            cluster = self._cluster()
            topics = [each for each in cluster.topics(list(self.records_max)).values() if each]
            return cluster.ends([(each.name, n) for each in topics for n in range(each.partitions)])
        except KafkaException as error:
            raise _unknown_ends(self.records_max, error) from error

    def _cluster(self) -> ClusterState:
        return ClusterState(kafka_properties.for_librdkafka(self.client))


class ReadPartition(NamedTuple):
    """A partition at the end of a micro-batch."""

    topic: str
    partition: int
    is_unread: bool


@attrs.frozen
class _Decision:
    """The partitions that a micro-batch left unread, and the beginning of the backlog."""

    since: int
    """The first micro-batch of the backlog."""
    unread: frozenset[Partition]


class UnreadRecords:
    """The records that the micro-batch of a task, and those before it, left unread."""

    def __init__(self, times: StreamTimes, topics: ReadTopics) -> None:
        self._files, self._batch = times.files, times.batch
        self._is_first, self._is_settled = times.is_first, times.is_settled
        self._topics, self._ends = topics, times.ends
        decisions = {} if self._files is None else _decisions(self._files)
        before = decisions.get(self._batch - 1)
        self._since = before.since if before is not None and before.unread else self._batch
        self._known = decisions.get(self._batch)
        self.is_open = (
            self._since < self._batch or self._known is not None or bool(self._full_topics)
        )
        """True when this micro-batch, or the one before it, may have left records unread."""

    @classmethod
    def of_task(cls, topics: ReadTopics) -> "UnreadRecords":
        """Return those of the query and micro-batch of the running task."""
        return cls(StreamTimes.of_task(), topics)

    def newest_before(self, lane: str) -> int:
        """Return the largest timestamp since the backlog began, UNKNOWN_MS without records."""
        batch, newest_ms = self._newest_before(_newest_of(self._files, lane))
        return newest_ms if batch >= self._since else UNKNOWN_MS

    def keep(self, lane: str, newest_ms: int) -> None:
        """Keep the largest timestamp since the backlog began."""
        if self._files is None:
            return
        batch, before_ms = self._newest_before(_newest_of(self._files, lane))
        found = {batch: before_ms} if batch >= 0 else {}
        self._files.write(_lane_path(lane), json.dumps({**found, self._batch: newest_ms}).encode())

    def partitions(self) -> list[ReadPartition]:
        """Return all partitions of the topics; none in other tasks than the first.

        Raises TaskFailureError when no broker answers.
        """
        if self._files is None or not self._is_first or not self.is_open:
            return []
        unread = self._decided(self._files).unread
        return [ReadPartition(*each, each in unread) for each in sorted(self._positions())]

    def _decided(self, files: CheckpointFiles) -> _Decision:
        if self._known is None:
            self._known = _Decision(self._since, frozenset(self._unread()))
            decisions = _decisions(files) | {self._batch: self._known}
            files.write(_UNREAD, _encoded(decisions, self._batch))
        return self._known

    def _unread(self) -> set[Partition]:
        positions = {
            each: at for each, at in self._positions().items() if each[0] in self._full_topics
        }
        if not positions:
            return set()
        ends = self._topics.ends(positions) if self._ends is None else self._ends
        return {each for each, position in positions.items() if ends.get(each, 0) > position}

    def _positions(self) -> dict[Partition, int]:
        """Return the ends of the micro-batch, the first one of a topic that is read twice."""
        found: dict[Partition, int] = {}
        for source in self._sources:
            for topic in source.keys() & self._topics.records_max.keys():
                for partition, offset in source[topic].items():
                    place = (topic, partition)
                    found[place] = min(offset, found.get(place, offset))
        return found

    @functools.cached_property
    def _sources(self) -> list[dict[str, dict[int, int]]]:
        """The ends of the micro-batch for each source."""
        return [] if self._files is None else self._files.source_positions_at(self._batch)

    @functools.cached_property
    def _full_topics(self) -> set[str]:
        """The topics of which the micro-batch may have left records unread.

        One that is settled without a decision had none.
        """
        if self._files is None or self._is_settled:
            return set()
        ends = self._sources
        starts = self._files.source_positions_at(self._batch - 1)
        starts += [{}] * (len(ends) - len(starts))
        return {
            topic
            for before, after in zip(starts, ends, strict=False)
            for topic, positions in after.items()
            if self._is_full(topic, before.get(topic, {}), positions)
        }

    def _is_full(self, topic: str, starts: Mapping[int, int], positions: Mapping[int, int]) -> bool:
        """True when a source may have taken fewer records of a topic than there were.

        The start of a partition that is not known counts as 0, so that its records are not more.
        """
        limit = self._topics.records_max.get(topic)
        if limit is None:
            return False
        taken = sum(max(0, at - starts.get(number, 0)) for number, at in positions.items())
        return taken > 0 and taken >= limit - len(positions)

    def _newest_before(self, kept: Mapping[int, int]) -> tuple[int, int]:
        """Return the newest micro-batch before this one, and its largest timestamp."""
        earlier = {batch: newest_ms for batch, newest_ms in kept.items() if batch < self._batch}
        return max(earlier.items(), default=(-1, UNKNOWN_MS))


def _unknown_ends(topics: Iterable[str], error: KafkaException) -> TaskFailureError:
    return TaskFailureError(f"the ends of {', '.join(sorted(topics))}: {error}", is_permanent=False)


def _decisions(files: CheckpointFiles) -> dict[int, _Decision]:
    """Return the decisions of the newest micro-batches that may have left records unread."""
    found: Any = json.loads(files.content_of(_UNREAD) or b"{}")
    return {
        int(batch): _Decision(each["since"], frozenset((str(t), int(p)) for t, p in each["unread"]))
        for batch, each in found.items()
    }


def _encoded(decisions: Mapping[int, _Decision], batch: int) -> bytes:
    """Return the content of the file: the decisions of a micro-batch and the one before it."""
    kept = {
        number: {"since": each.since, "unread": sorted(each.unread)}
        for number, each in decisions.items()
        if number in (batch - 1, batch)
    }
    return json.dumps(kept).encode()


def _newest_of(files: CheckpointFiles | None, lane: str) -> dict[int, int]:
    content = None if files is None else files.content_of(_lane_path(lane))
    found: Any = json.loads(content or b"{}")
    return {int(batch): int(newest_ms) for batch, newest_ms in found.items()}


def _lane_path(lane: str) -> str:
    return f"{_NEWEST}{urllib.parse.quote(lane, safe='')}"

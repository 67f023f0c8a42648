"""The partitions that a forward job reads, with its position in each, followed while it runs."""

from collections.abc import Mapping
from typing import Final

from barnabas.pipeline.delivery.driver.cluster_state import (
    ClusterState,
    Topic,
    changed_topic,
    existing_topics,
)
from barnabas.pipeline.delivery.plan import start_positions
from barnabas.pipeline.delivery.plan.job_plan import JobFailure, JobPlan
from barnabas.pipeline.delivery.plan.offset_ranges import Partition
from barnabas.pipeline.delivery.plan.task_failures import JobStartError

OFFSETS_REMEDY: Final = "reset the offsets of the job"


class SourcePartitions:
    """Positions by partition. The methods block, and raise KafkaException."""

    def __init__(self, cluster: ClusterState, plan: JobPlan) -> None:
        """Read the group's committed offsets. Raises JobStartError."""
        self._cluster = cluster
        self._plan = plan
        self.topic_ids: dict[str, str] = {}
        self.positions: dict[Partition, int] = {}
        """The offset of the next record."""
        self.trimmed = 0
        """Offsets that retention had deleted when a partition was added."""
        self._add(self._existing(plan.topic_ids), plan.offset_reset)

    def refresh(self) -> bool:
        """Add partitions, and topics that match the pattern; return whether there are new ones.

        They are read from their start. Raises JobStartError when a topic was deleted or recreated.
        """
        found = self._existing(self.topic_ids)
        is_one_missing = not self.topic_ids.keys() <= {topic.name for topic in found}
        if is_one_missing and (failure := self.changed()):  # a pattern matches others
            raise JobStartError(failure)
        known = len(self.positions)
        self._add(found, "earliest")
        return len(self.positions) > known

    def changed(self) -> JobFailure | None:
        """Return the failure of a job whose topic was deleted or created again."""
        return changed_topic(self._cluster, dict(self.topic_ids), OFFSETS_REMEDY)

    def ends(self) -> dict[Partition, int]:
        """Return the end of what read_committed shows of each partition."""
        return self._cluster.ends(list(self.positions))

    def _existing(self, known_ids: Mapping[str, str]) -> list[Topic]:
        names, pattern = self._plan.topics, self._plan.topics_pattern
        return existing_topics(self._cluster, names, pattern, known_ids, OFFSETS_REMEDY)

    def _add(self, topics: list[Topic], offset_reset: str) -> None:
        new = [
            topic for topic in topics if (topic.name, topic.partitions - 1) not in self.positions
        ]
        states = [
            state
            for state in self._cluster.partition_states(
                self._plan.group_id, new, offset_reset=offset_reset
            )
            if (state.topic, state.partition) not in self.positions
        ]
        found = start_positions.decide(states, offset_reset, self._plan.on_trim)
        if isinstance(found, JobFailure):
            raise JobStartError(found)
        for topic, offsets in start_positions.resolved(found.offsets, states).items():
            self.positions |= {(topic, number): offset for number, offset in offsets.items()}
        self.topic_ids |= {topic.name: topic.topic_id for topic in new}
        self.trimmed += found.trimmed

"""The partitions that a forward job reads, with its position in each, followed while it runs."""

from typing import Final

from barnabas.pipeline.delivery import start_positions
from barnabas.pipeline.delivery.cluster_state import ClusterState, Topic, changed_topic, check_topic
from barnabas.pipeline.delivery.job_plan import JobFailure, JobPlan
from barnabas.pipeline.delivery.offset_ranges import Partition
from barnabas.pipeline.delivery.task_failures import JobStartError, refused

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
        self._add(existing_topics(cluster, plan), plan.offset_reset)

    def refresh(self) -> bool:
        """Add partitions, and topics that match the pattern; return whether there are new ones.

        They are read from their start. Raises JobStartError when a topic was deleted or recreated.
        """
        if failure := self.changed():
            raise JobStartError(failure)
        found = self._cluster.source_topics(self._plan.topics, self._plan.topics_pattern)
        known = len(self.positions)
        self._add(found, "earliest")
        return len(self.positions) > known

    def changed(self) -> JobFailure | None:
        """Return the failure of a job whose topic was deleted or created again."""
        return changed_topic(self._cluster, dict(self.topic_ids), OFFSETS_REMEDY)

    def ends(self) -> dict[Partition, int]:
        """Return the end of what read_committed shows of each partition."""
        return self._cluster.ends(list(self.positions))

    def _add(self, topics: list[Topic], offset_reset: str) -> None:
        new = [
            topic for topic in topics if (topic.name, topic.partitions - 1) not in self.positions
        ]
        states = [
            state
            for state in self._cluster.partition_states(self._plan.group_id, new)
            if (state.topic, state.partition) not in self.positions
        ]
        found = start_positions.decide(states, offset_reset, self._plan.on_trim)
        if isinstance(found, JobFailure):
            raise JobStartError(found)
        for topic, offsets in start_positions.resolved(found.offsets, states).items():
            self.positions |= {(topic, number): offset for number, offset in offsets.items()}
        self.topic_ids |= {topic.name: topic.topic_id for topic in new}
        self.trimmed += found.trimmed


def existing_topics(cluster: ClusterState, plan: JobPlan) -> list[Topic]:
    """Return the source topics. Raises JobStartError when one does not exist."""
    found = cluster.source_topics(plan.topics, plan.topics_pattern)
    for topic in found:
        check_topic(topic, plan.topic_ids.get(topic.name), OFFSETS_REMEDY)
    if not found:
        raise refused("no topic matches the subscription", is_permanent=False)
    return found

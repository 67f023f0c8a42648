"""The states of partitions by leader epoch, as the quorum committed them."""

import attrs

from barnabas.cluster.controller.controller_state_machine import CommittedBatch
from barnabas.cluster.controller.partition_change_builder import RECOVERING
from barnabas.cluster.metadata.feature_levels import ELIGIBLE_LEADER_REPLICAS_VERSION
from barnabas.cluster.metadata.image import MetadataImage, PartitionImage
from barnabas.protocol.types import Uuid

Key = tuple[Uuid, int]
_MIN_ISR = "min.insync.replicas"


@attrs.frozen(slots=True)
class UncleanElection:
    """A leader was elected that may lack committed records.

    `min_isr` is the lowest that its topic had, `is_allowed` when its topic allows such elections.
    """

    topic: str
    number: int
    partition: PartitionImage
    min_isr: int
    is_allowed: bool


class PartitionHistory:
    """Remembers the first state of each partition in each leader epoch."""

    def __init__(self) -> None:
        self._offset = -1
        self._states: dict[tuple[Key, int], PartitionImage] = {}
        self._latest: dict[Key, PartitionImage] = {}
        self._min_isr: dict[str, int] = {}
        self._unclean_topics: set[str] = set()
        self.has_elr = False

    def allow_unclean(self, topic: str) -> None:
        """The topic may have unclean elections from now on: an operator asks for them."""
        self._unclean_topics.add(topic)

    def take(self, batch: CommittedBatch) -> list[UncleanElection]:
        """Take a committed batch; return the unclean elections in it.

        Every replica publishes each batch; the first time counts.
        """
        image = batch.image
        if image.offset <= self._offset:
            return []
        self._offset = image.offset
        self.has_elr = image.features.get(ELIGIBLE_LEADER_REPLICAS_VERSION, 0) > 0
        found: list[UncleanElection] = []
        for topic in batch.delta.topics.values():
            config = image.topic_config(topic.name)
            for number, partition in topic.changed.items():
                min_isr = min(int(config.get(_MIN_ISR, 1)), len(partition.replicas))
                min_isr = min(min_isr, self._min_isr.get(topic.name, min_isr))
                self._min_isr[topic.name] = min_isr
                key = (topic.id, number), partition.leader_epoch
                if key not in self._states and partition.leader_recovery_state == RECOVERING:
                    is_allowed = topic.name in self._unclean_topics
                    found.append(
                        UncleanElection(topic.name, number, partition, min_isr, is_allowed)
                    )
                self._states.setdefault(key, partition)
                self._latest[topic.id, number] = partition
        return found

    def take_image(self, image: MetadataImage) -> None:
        """Take the image of a node that starts: all nodes may have stopped before a publication."""
        for topic in image.topics_by_id.values():
            for number, partition in topic.partitions.items():
                key = (topic.id, number), partition.leader_epoch
                self._states.setdefault(key, partition)

    def state(self, key: Key, leader_epoch: int) -> PartitionImage | None:
        """Return the first state of a partition in a leader epoch."""
        return self._states.get((key, leader_epoch))

    def is_replica(self, key: Key, broker_id: int) -> bool:
        """True when the latest state of a partition has the broker among its replicas."""
        latest = self._latest.get(key)
        return latest is not None and broker_id in latest.replicas

    def may_lack_records(self, partition: PartitionImage, *, has_lost: bool) -> bool:
        """True when the elected leader may lack committed records.

        An unclean election says so. Without ELR, the last member of the ISR leads again after it
        has lost records (`has_lost`), with the power or a disk: only it may have all of them.
        """
        if partition.leader_recovery_state == RECOVERING:
            return True
        return not self.has_elr and has_lost and partition.isr == (partition.leader,)

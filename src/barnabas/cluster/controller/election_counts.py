"""Elections of partition leaders, counted as the metadata that names the leaders is committed."""

import attrs

from barnabas.cluster.metadata.delta import MetadataDelta
from barnabas.cluster.metadata.image import NO_LEADER, PartitionImage

# org.apache.kafka.metadata.LeaderRecoveryState
_RECOVERING = 1


@attrs.define
class ElectionCounts:
    """Counts since the start of the node.

    `changes` are partitions that got another leader than before: `unclean` of them one that was not
    in sync, `from_elr` an eligible leader replica (KIP-966). `batches` are committed batches with
    such changes that this node wrote as the active controller, and `seconds` the time from their
    append to their commit.
    """

    changes: int = 0
    unclean: int = 0
    from_elr: int = 0
    batches: int = 0
    seconds: float = 0.0

    def add(self, delta: MetadataDelta, waited_ms: int | None) -> None:
        """Count the elections of a committed batch; `waited_ms` is given by its writer."""
        before = self.changes
        for topic in delta.topics.values():
            for number, partition in topic.changed.items():
                old = topic.before.get(number)
                if old is not None and partition.leader not in (NO_LEADER, old.leader):
                    self._count(old, partition)
        if waited_ms is not None and self.changes > before:
            self.batches += 1
            self.seconds += waited_ms / 1000

    def _count(self, old: PartitionImage, new: PartitionImage) -> None:
        self.changes += 1
        self.unclean += new.leader_recovery_state == _RECOVERING
        self.from_elr += new.leader in old.elr

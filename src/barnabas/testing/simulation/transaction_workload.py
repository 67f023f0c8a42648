"""Transactional copies of a simulation: their topics and clients, and what must hold at the end.

T1  what was read with read_committed is copied exactly once and in order, with its offsets
C1  a producer that is not fenced gets no error that its client takes as fatal
T6  every transaction has ended: the last stable offset is the high watermark
"""

from typing import Final

import attrs

from barnabas.server.coordinators.internal_topics import OFFSETS_TOPIC, TRANSACTION_TOPIC
from barnabas.testing.simulation.partition_invariants import PartitionInvariants
from barnabas.testing.simulation.quorum_invariants import require
from barnabas.testing.simulation.read_committed import visible_records
from barnabas.testing.simulation.seed_options import SeedOptions
from barnabas.testing.simulation.sim_cluster import SimCluster
from barnabas.testing.simulation.sim_partition_log import SimPartitionLog
from barnabas.testing.simulation.topic_creation import TopicCreation, internal_topic
from barnabas.testing.simulation.transactional_copier import CopyJob, TransactionalCopier

COPY_TOPIC: Final = "copy"
_CLIENT_ID: Final = 33_000
_COPIER_NUMBER: Final = 40_000
_STOP_AFTER_MS: Final = 16_000


class TransactionWorkload:
    """Copiers of the first partitions of a topic, `options.copiers` for each."""

    def __init__(
        self,
        cluster: SimCluster,
        source: str,
        options: SeedOptions,
        invariants: PartitionInvariants,
    ) -> None:
        self._cluster = cluster
        self._source = source
        self._options = options
        self._invariants = invariants
        self._copied = range(min(options.partitions, 2))
        self.copiers = [
            TransactionalCopier(
                cluster,
                _COPIER_NUMBER + 10 * partition + copy,
                CopyJob(source=source, target=COPY_TOPIC, partition=partition),
                options.transaction_version,
                options.copier_pause_ms,
            )
            for partition in self._copied
            for copy in range(options.copiers)
        ]

    def start(self) -> None:
        """Create the topics; the copiers start when these exist."""
        topics = [
            internal_topic(name, self._options)
            for name in (OFFSETS_TOPIC, TRANSACTION_TOPIC, COPY_TOPIC)
        ]
        topics[-1] = attrs.evolve(topics[-1], partitions=self._options.partitions)
        TopicCreation(self._cluster, _CLIENT_ID, topics, self._start_copiers)

    def _start_copiers(self) -> None:
        for copier in self.copiers:
            copier.start()

    def stop(self) -> None:
        """Let the copiers reach the end of what they copy."""
        self._cluster.world.after(_STOP_AFTER_MS * 1000, self._stop_copiers)

    def _stop_copiers(self) -> None:
        for copier in self.copiers:
            copier.stop()

    def check_end(self) -> None:
        """Check T1 and T6, unless an unclean election has discarded records of a topic."""
        leaders = self._leaders()
        if leaders is None:
            return
        self._invariants.check_end(leaders)
        if self._options.copiers == 1:  # several with one transactional id fence each other
            for copier in self.copiers:
                require(not copier.fatal_errors, "C1", f"{copier.fatal_errors[:3]}")
        for (topic, number), leader in leaders.items():
            log = self._invariants.disks[leader].get(topic, number)
            if log is not None and topic != TRANSACTION_TOPIC:
                what = f"{topic}-{number} is stable to {log.last_stable_offset} only"
                require(log.last_stable_offset == log.high_watermark, "T6", what)
        for number in self._copied:
            self._check_copy(leaders, number)

    def _leaders(self) -> dict[tuple[str, int], int] | None:
        """Return the leaders of all partitions concerned; None if records were lost."""
        image = self._cluster.newest_image()
        leaders: dict[tuple[str, int], int] = {}
        for name in (self._source, COPY_TOPIC, OFFSETS_TOPIC, TRANSACTION_TOPIC):
            topic = image.topics_by_name.get(name)
            if topic is None:
                return None
            for number, partition in topic.partitions.items():
                if self._invariants.lost_batches(topic.id, number):
                    return None
                require(partition.leader >= 0, "LIVENESS", f"{name}-{number} has no leader")
                leaders[name, number] = partition.leader
        return leaders

    def _check_copy(self, leaders: dict[tuple[str, int], int], number: int) -> None:
        values: list[list[bytes | None]] = []
        for topic in (self._source, COPY_TOPIC):
            log = self._invariants.disks[leaders[topic, number]].get(topic, number)
            values.append([] if log is None else _visible(log))
        source, copy = values
        what = f"partition {number}: {len(copy)} of {len(source)} values are copied, "
        require(copy == source[: len(copy)], "T1", what + "some not once or not in order")
        errors = [copier.errors for copier in self.copiers]
        require(len(copy) == len(source), "LIVENESS", f"{what}{errors}")


def _visible(log: SimPartitionLog) -> list[bytes | None]:
    aborted = [(each.producer_id, each.first_offset) for each in log.aborted]
    records, _ = visible_records(log.records(), 0, aborted)
    return [record.value for record in records]

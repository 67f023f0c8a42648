"""Metrics of replication: the ISRs of the partitions led here, and how far followers are behind.

The names follow Kafka's `ReplicaManager`, `ReplicaFetcherManager` and `KafkaController` metrics.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from barnabas.cluster.metadata.image import MetadataImage
    from barnabas.cluster.replication import Partition, ReplicaManager


@attrs.define
class ReplicationCounts:
    """Counts over the partitions of this broker."""

    partitions: int = 0
    leaders: int = 0
    under_replicated: int = 0
    under_min_isr: int = 0
    at_min_isr: int = 0
    max_lag: int = 0
    failed: int = 0

    @classmethod
    def of(cls, replicas: "ReplicaManager") -> "ReplicationCounts":
        """Count the partitions; the largest lag and the failed ones are of the followers here."""
        fetchers = replicas.fetchers
        counts = cls(max_lag=fetchers.max_lag, failed=fetchers.failed_count)
        for partition in replicas.partitions():
            counts._add(partition)
        return counts

    def _add(self, partition: "Partition") -> None:
        self.partitions += 1
        state = partition.leader_state
        if state is None:
            return
        self.leaders += 1
        in_sync = len(state.isr.committed)
        self.under_replicated += in_sync <= len(state.followers)
        self.under_min_isr += in_sync < state.min_insync_replicas
        self.at_min_isr += in_sync == state.min_insync_replicas


def replication_families(replicas: "ReplicaManager", image: "MetadataImage") -> Iterator[Any]:
    """Yield the metric families, as prometheus-client expects."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    counts = ReplicationCounts.of(replicas)
    offline = sum(
        partition.leader < 0
        for topic in image.topics_by_name.values()
        for partition in topic.partitions.values()
    )
    for name, text, value in (
        ("replicas", "Replicas on this broker", counts.partitions),
        ("leaders", "Partitions that this broker leads", counts.leaders),
        ("offline_partitions", "Partitions of the cluster without a leader", offline),
        (
            "under_replicated_partitions",
            "Partitions led here with a replica that is not in sync",
            counts.under_replicated,
        ),
        (
            "under_min_isr_partitions",
            "Partitions led here with fewer in-sync replicas than min.insync.replicas",
            counts.under_min_isr,
        ),
        (
            "at_min_isr_partitions",
            "Partitions led here with exactly min.insync.replicas in-sync replicas",
            counts.at_min_isr,
        ),
        (
            "replica_max_lag",
            "Most records that a follower on this broker is behind its leader",
            counts.max_lag,
        ),
        (
            "failed_replicas",
            "Followers on this broker that cannot replicate in this leader epoch",
            counts.failed,
        ),
    ):
        yield GaugeMetricFamily(f"barnabas_{name}", text, value)
    yield CounterMetricFamily(
        "barnabas_isr_expands", "Replicas that joined an ISR led here", replicas.isr_expands
    )
    yield CounterMetricFamily(
        "barnabas_isr_shrinks",
        "Removals of lagging replicas from ISRs led here",
        replicas.isr_shrinks,
    )

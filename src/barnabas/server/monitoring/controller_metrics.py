"""Metrics of the quorum and of its controllers.

They mean what Kafka's `KafkaController`, `ControllerStats`, `raft-metrics` and
`broker-metadata-metrics` mean; docs/cluster.md has the table. The cluster's state is the same on
every controller, active or not.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from barnabas.cluster.metadata.image import MetadataImage
    from barnabas.server.quorum.quorum import Quorum


@attrs.frozen
class ClusterCounts:
    """Counts over the brokers and partitions of the metadata."""

    active_brokers: int
    fenced_brokers: int
    brokers_in_controlled_shutdown: int
    not_led_by_preferred: int

    @classmethod
    def of(cls, image: "MetadataImage") -> "ClusterCounts":
        """Count the brokers and partitions of an image."""
        brokers = image.brokers.values()
        fenced = sum(broker.fenced for broker in brokers)
        return cls(
            active_brokers=len(brokers) - fenced,
            fenced_brokers=fenced,
            brokers_in_controlled_shutdown=sum(each.in_controlled_shutdown for each in brokers),
            not_led_by_preferred=sum(
                partition.leader != partition.replicas[0]
                for topic in image.topics_by_name.values()
                for partition in topic.partitions.values()
            ),
        )


def quorum_families(quorum: "Quorum") -> Iterator[Any]:
    """Yield the families of every node, as prometheus-client expects."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, SummaryMetricFamily

    core, times = quorum.core, quorum.election_times
    committed, applied_ms = core.high_watermark - 1, quorum.metadata_timestamp_ms
    lag_ms = 0 if core.is_leader else max(0, quorum.clock.monotonic_ms() - applied_ms)
    for name, text, value in (
        ("quorum_epoch", "Epoch of the quorum", core.epoch),
        (
            "quorum_leader",
            "Id of the active controller, -1 while it is unknown",
            -1 if core.leader_id is None else core.leader_id,
        ),
        ("quorum_voters", "Voters of the quorum", len(core.voters)),
        ("quorum_log_end_offset", "End of this node's log of the quorum", core.log_end_offset),
        (
            "metadata_committed_offset",
            "Offset of the last metadata record that this node knows to be committed",
            committed,
        ),
        (
            "metadata_lag_records",
            "Committed metadata records that this node has not applied",
            max(0, committed - quorum.image.offset),
        ),
        (
            "metadata_timestamp_seconds",
            "Time of the last metadata record that this node applied",
            applied_ms / 1000,
        ),
        (
            "metadata_lag_seconds",
            "Time since the last applied metadata record was written, 0 on the active controller",
            lag_ms / 1000,
        ),
    ):
        yield GaugeMetricFamily(f"barnabas_{name}", text, value)
    yield CounterMetricFamily(
        "barnabas_new_active_controllers",
        "Active controllers that this node learned of",
        times.new_controllers,
    )
    yield SummaryMetricFamily(
        "barnabas_quorum_election_seconds",
        "Time of the elections of a controller in which this node took part",
        count_value=times.elections,
        sum_value=times.seconds,
    )


def controller_families(quorum: "Quorum") -> Iterator[Any]:
    """Yield the families of a controller, active or not, as prometheus-client expects."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, SummaryMetricFamily

    counts, elections = ClusterCounts.of(quorum.image), quorum.partition_elections
    for name, text, value in (
        (
            "active_controllers",
            "1 on the active controller, 0 on others",
            int(quorum.core.is_leader),
        ),
        ("active_brokers", "Unfenced brokers", counts.active_brokers),
        ("fenced_brokers", "Fenced brokers", counts.fenced_brokers),
        (
            "controlled_shutdown_brokers",
            "Brokers in controlled shutdown",
            counts.brokers_in_controlled_shutdown,
        ),
        (
            "preferred_replica_imbalance",
            "Partitions that the preferred replica does not lead",
            counts.not_led_by_preferred,
        ),
    ):
        yield GaugeMetricFamily(f"barnabas_{name}", text, value)
    for name, text, value in (
        ("leader_changes", "Partitions that got another leader", elections.changes),
        (
            "unclean_leader_elections",
            "Partitions that got a leader that was not in sync",
            elections.unclean,
        ),
        (
            "elr_leader_elections",
            "Partitions that got a leader from their eligible leader replicas",
            elections.from_elr,
        ),
    ):
        yield CounterMetricFamily(f"barnabas_{name}", text, value)
    yield SummaryMetricFamily(
        "barnabas_leader_election_seconds",
        "Time from the active controller's decision to its commit, for batches that elect leaders",
        count_value=elections.batches,
        sum_value=elections.seconds,
    )

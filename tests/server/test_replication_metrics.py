"""Counts of replicas, leaders and ISRs over the partitions of a broker."""

from pathlib import Path

import attrs
import pytest

from barnabas.server.monitoring.replication_metrics import ReplicationCounts
from tests.server.api.data_broker import DataBroker


@pytest.mark.parametrize(
    ("isr", "min_isr", "expected"),
    [
        ((1, 2), "1", (0, 0, 0)),
        ((1, 2), "2", (0, 0, 1)),
        ((1,), "2", (1, 1, 0)),
        ((1,), "1", (1, 0, 1)),
    ],
)
def test_replication_counts_follow_the_isr(
    tmp_path: Path, isr: tuple[int, ...], min_isr: str, expected: tuple[int, int, int]
) -> None:
    broker = DataBroker(tmp_path, min_insync_replicas=min_isr)
    partition = broker.partition("replicated")
    assert partition.image is not None
    image = attrs.evolve(partition.image, isr=isr, partition_epoch=9)
    partition.update(image, broker.replicas.topic_config("replicated"))
    counts = ReplicationCounts.of(broker.replicas)
    others = 2  # `t` and `__consumer_offsets` have one replica, which is min.insync.replicas
    assert (counts.partitions, counts.leaders) == (3, 3)
    assert counts.under_replicated == expected[0]
    assert counts.under_min_isr == expected[1]
    assert counts.at_min_isr == expected[2] + others


def test_replication_counts_have_the_largest_lag(tmp_path: Path) -> None:
    broker = DataBroker(tmp_path)
    partition = broker.partition("replicated")
    assert partition.image is not None
    image = attrs.evolve(partition.image, leader=2, leader_epoch=1, partition_epoch=1)
    broker.replicas.fetchers.follow(partition, 2, 1)
    partition.update(image, broker.replicas.topic_config("replicated"))
    (core,) = broker.replicas.fetchers.cores.values()
    (followed,) = core.partitions.values()
    followed.lag = 17
    counts = ReplicationCounts.of(broker.replicas)
    assert (counts.leaders, counts.max_lag, counts.failed) == (2, 17, 0)

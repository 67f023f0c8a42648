"""Elections of partition leaders, counted from committed metadata."""

import pytest

from barnabas.cluster.controller.election_counts import ElectionCounts
from barnabas.cluster.metadata.delta import MetadataDelta
from barnabas.cluster.metadata.image import MetadataImage
from barnabas.protocol.records.metadata_records import (
    PartitionChangeRecord,
    PartitionRecord,
    TopicRecord,
)
from tests.cluster.states import uuid


def created() -> MetadataDelta:
    delta = MetadataDelta(MetadataImage())
    delta.replay(TopicRecord(name="t", topic_id=uuid(1)))
    partition = PartitionRecord(
        partition_id=0,
        topic_id=uuid(1),
        replicas=[1, 2, 3],
        isr=[1],
        eligible_leader_replicas=[2],
        leader=1,
        leader_epoch=0,
        partition_epoch=0,
    )
    delta.replay(partition)
    return delta


def test_election_counts_leave_out_the_leader_of_a_new_partition() -> None:
    counts = ElectionCounts()
    counts.add(created(), 5)
    assert counts == ElectionCounts()


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"isr": [1, 2]}, ElectionCounts()),
        ({"leader": 1}, ElectionCounts()),
        ({"leader": -1}, ElectionCounts()),
        ({"leader": 3}, ElectionCounts(changes=1, batches=1, seconds=0.25)),
        ({"leader": 2}, ElectionCounts(changes=1, from_elr=1, batches=1, seconds=0.25)),
        (
            {"leader": 3, "isr": [3], "leader_recovery_state": 1},
            ElectionCounts(changes=1, unclean=1, batches=1, seconds=0.25),
        ),
    ],
)
def test_election_counts_follow_the_change(
    change: dict[str, object], expected: ElectionCounts
) -> None:
    image = created().apply(1, 0)
    delta = MetadataDelta(image)
    delta.replay(PartitionChangeRecord(topic_id=uuid(1), partition_id=0, **change))
    counts = ElectionCounts()
    counts.add(delta, 250)
    assert counts == expected


def test_election_counts_of_another_writer_have_no_time() -> None:
    image = created().apply(1, 0)
    delta = MetadataDelta(image)
    delta.replay(PartitionChangeRecord(topic_id=uuid(1), partition_id=0, leader=3))
    counts = ElectionCounts()
    counts.add(delta, None)
    assert counts == ElectionCounts(changes=1)

"""Changes of a partition's leader, as the metadata and the new leader make them."""

import attrs

from barnabas.cluster.replication import Partition
from barnabas.config import NodeConfig, TopicConfig
from barnabas.protocol.batches.batch_header import assign_offset
from barnabas.testing.batches import NOW_MS, batch


def lead(partition: Partition, leader: int) -> None:
    """Begin the next leader epoch with this leader."""
    image = partition.image
    assert image is not None
    epochs = {
        "leader_epoch": image.leader_epoch + 1,
        "partition_epoch": image.partition_epoch + 1,
    }
    partition.update(
        attrs.evolve(image, leader=leader, **epochs), TopicConfig(NodeConfig.load(None, {}))
    )


def replace_records(partition: Partition) -> None:
    """Replace the log with one committed batch of the leader that this node follows."""
    data = batch(b"other")
    assign_offset(data, 0, 0, partition.leader_epoch)
    partition.truncate_to(0)
    partition.follower_append(data, partition.leader_epoch, NOW_MS)
    partition.follow_high_watermark(1)

"""The files of the metadata log after a crash between two of their changes."""

from pathlib import Path

from barnabas.cluster.metadata.image import MetadataImage
from barnabas.cluster.quorum.metadata_snapshot import (
    RECORDS_PER_STEP,
    Snapshot,
    SnapshotId,
    encode_snapshot,
    metadata_batch,
)
from barnabas.config import NodeConfig
from barnabas.log import LogConfig, LogManager
from barnabas.protocol.records.metadata_records import (
    FeatureLevelRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from barnabas.protocol.types import Uuid
from barnabas.server.quorum.metadata_log import MetadataLog
from barnabas.server.quorum.raft_shell import _FETCH_BYTES_MAX
from barnabas.testing.batches import NOW_MS
from tests.log.logs import open_volume

PARTITIONS = 500


def test_metadata_log_of_an_older_epoch_than_the_snapshot_is_removed(tmp_path: Path) -> None:
    """A follower with a longer, diverged log crashed right after it renamed its download."""
    volume = open_volume(tmp_path)
    log = MetadataLog(LogManager([volume], volume, LogConfig()), NodeConfig.load(None, {}))
    log.load(MetadataImage())
    log.append(metadata_batch([FeatureLevelRecord(name="a", feature_level=1)], 0, 1, NOW_MS), 0)
    stale = RemoveTopicRecord(topic_id=Uuid(bytes(15) + b"\x01"))  # not a topic of the snapshot
    log.append(metadata_batch([stale], 1, 1, NOW_MS), NOW_MS)
    snapshot = Snapshot([FeatureLevelRecord(name="a", feature_level=2)])
    content = b"".join(encode_snapshot(snapshot, NOW_MS, epoch=2))
    (log.directory / SnapshotId(1, 2).file_name).write_bytes(content)

    loader = log.read_again(MetadataImage())

    assert loader.image().features == {"a": 2}
    assert (loader.epochs.end_offset, loader.epochs.last_epoch) == (1, 2)
    assert log.read(1, 1000) == b""
    log.close()


def test_loading_many_records_yields_within_a_batch(tmp_path: Path) -> None:
    """Of a snapshot, and of a batch in the log after it; the image is the same as read at once."""
    volume = open_volume(tmp_path)
    log = MetadataLog(LogManager([volume], volume, LogConfig()), NodeConfig.load(None, {}))
    log.load(MetadataImage())
    topic = Uuid(bytes(15) + b"\x01")
    partitions = [partition_record(topic, number) for number in range(2 * PARTITIONS)]
    snapshot = Snapshot([TopicRecord(name="many", topic_id=topic), *partitions[:PARTITIONS]])
    content = b"".join(encode_snapshot(snapshot, NOW_MS, epoch=1))
    (log.directory / SnapshotId(PARTITIONS, 1).file_name).write_bytes(content)
    log.restart_at(PARTITIONS)
    log.append(metadata_batch(partitions[PARTITIONS:], PARTITIONS, 1, NOW_MS), NOW_MS)
    log.close()

    log = MetadataLog(LogManager([volume], volume, LogConfig()), NodeConfig.load(None, {}))
    steps, loader = 0, None
    loading = log.loading(MetadataImage())
    while loader is None:
        try:
            next(loading)
            steps += 1
        except StopIteration as end:
            loader = end.value

    image = loader.image()
    assert len(image.topics_by_id[topic].partitions) == 2 * PARTITIONS
    assert image == log.read_again(MetadataImage()).image()
    assert steps >= 3 * PARTITIONS // RECORDS_PER_STEP  # decoded, replayed, and read from the log
    log.close()


def partition_record(topic: Uuid, number: int) -> PartitionRecord:
    return PartitionRecord(
        partition_id=number, topic_id=topic, replicas=[1], isr=[1], leader=1, leader_epoch=0
    )


def test_batch_that_is_larger_than_a_fetch_is_read_as_a_whole(tmp_path: Path) -> None:
    """A replica could not continue otherwise: the leader limits what it sends at once."""
    volume = open_volume(tmp_path)
    log = MetadataLog(LogManager([volume], volume, LogConfig()), NodeConfig.load(None, {}))
    log.load(MetadataImage())
    topic = Uuid(bytes(15) + b"\x01")
    batch = metadata_batch([partition_record(topic, n) for n in range(4000)], 0, 1, NOW_MS)
    assert len(batch) > _FETCH_BYTES_MAX
    size = len(batch)
    log.append(batch, NOW_MS)
    log.append(metadata_batch([partition_record(topic, 0)], 4000, 1, NOW_MS), NOW_MS)

    assert len(log.read(0, _FETCH_BYTES_MAX)) == size
    log.close()

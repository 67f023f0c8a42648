"""The files of the metadata log after a crash between two of their changes."""

from pathlib import Path

from barnabas.cluster.metadata.image import MetadataImage
from barnabas.cluster.metadata.metadata_snapshot import (
    Snapshot,
    SnapshotId,
    encode_snapshot,
    metadata_batch,
)
from barnabas.config import NodeConfig
from barnabas.log import LogConfig, LogManager
from barnabas.protocol.records.metadata_records import FeatureLevelRecord, RemoveTopicRecord
from barnabas.protocol.types import Uuid
from barnabas.server.quorum.metadata_log import MetadataLog
from barnabas.testing.batches import NOW_MS
from tests.log.logs import open_volume


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

"""Properties of the metadata log, observed on its files."""

from pathlib import Path

import pytest

from barnabas.cluster.metadata.image import MetadataImage
from barnabas.cluster.quorum.metadata_snapshot import metadata_batch
from barnabas.config import NodeConfig
from barnabas.log import LogConfig, LogManager
from barnabas.protocol.records.metadata_records import ConfigRecord
from barnabas.server.quorum.metadata_log import MetadataLog
from barnabas.testing import Node
from barnabas.testing.batches import NOW_MS
from tests.config.effects.observed import observes
from tests.config.effects.wire import Wire, create
from tests.log.logs import open_volume

BYTES = "metadata.log.max.record.bytes.between.snapshots"


def files(data: Path, suffix: str) -> int:
    return len(list((data / "__cluster_metadata-0").glob(f"*{suffix}")))


def with_topics(data: Path, config: dict[str, str], count: int = 8) -> None:
    with Node(data, config) as node:
        wire = Wire(node.port)
        for number in range(count):
            assert create(wire, f"t{number}") == ""


@observes(BYTES)
def test_snapshot_is_written_after_the_given_bytes(tmp_path: Path) -> None:
    for limit, is_written in (("200", True), ("20000000", False)):
        with_topics(tmp_path / limit, {BYTES: limit})
        assert (files(tmp_path / limit, ".checkpoint") > 1) is is_written


@observes("metadata.log.max.snapshot.interval.ms")
def test_snapshot_is_written_after_the_interval(tmp_path: Path) -> None:
    for interval_ms, is_written in (("1", True), ("3600000", False)):
        data = tmp_path / interval_ms
        with_topics(data, {"metadata.log.max.snapshot.interval.ms": interval_ms})
        assert (files(data, ".checkpoint") > 1) is is_written


@observes("metadata.max.retention.bytes", "metadata.max.retention.ms")
@pytest.mark.parametrize("name", ["metadata.max.retention.bytes", "metadata.max.retention.ms"])
def test_old_snapshots_are_removed(name: str, tmp_path: Path) -> None:
    for limit, is_removed in (("1", True), ("100000000", False)):
        data = tmp_path / limit
        with_topics(data, {BYTES: "200", name: limit})
        with_topics(data, {BYTES: "200", name: limit}, count=0)
        assert (files(data, ".checkpoint") <= 2) is is_removed


@observes("metadata.log.segment.ms")
def test_metadata_log_rolls_by_time(tmp_path: Path) -> None:
    for segment_ms, is_rolled in (("1", True), ("604800000", False)):
        with_topics(tmp_path / segment_ms, {"metadata.log.segment.ms": segment_ms})
        assert (files(tmp_path / segment_ms, ".log") > 1) is is_rolled


@observes("metadata.log.segment.bytes")
def test_metadata_log_rolls_by_size(tmp_path: Path) -> None:
    """Observed on the metadata log's own object: the least size is 8 MiB."""
    for segment_bytes, is_rolled in (("8388608", True), ("1073741824", False)):
        volume = open_volume(tmp_path / segment_bytes)
        logs = LogManager([volume], volume, LogConfig())
        log = MetadataLog(
            logs, NodeConfig.load(None, {"metadata.log.segment.bytes": segment_bytes})
        )
        log.load(MetadataImage())
        record = ConfigRecord(resource_type=4, resource_name="", name="n", value="v" * 30_000)
        for number in range(10):
            log.append(metadata_batch([record] * 30, number * 30, 1, NOW_MS), NOW_MS)
        assert (files(tmp_path / segment_bytes, ".log") > 1) is is_rolled
        log.close()

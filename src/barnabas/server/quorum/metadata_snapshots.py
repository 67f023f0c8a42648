"""When the quorum's log is summed up in a snapshot, and what may be forgotten then (KIP-630)."""

import logging
import os
from typing import TYPE_CHECKING

from barnabas.cluster.metadata.feature_levels import METADATA_VERSION
from barnabas.cluster.metadata.image import MetadataImage
from barnabas.cluster.metadata.image_records import image_records
from barnabas.cluster.metadata.metadata_snapshot import Snapshot, SnapshotId, encode_snapshot
from barnabas.cluster.metadata.record_versions import statable
from barnabas.cluster.quorum.voters import VoterSet
from barnabas.config import NodeConfig
from barnabas.log.file_operations import replace_file

if TYPE_CHECKING:
    from barnabas.server.quorum.metadata_log import MetadataLog

logger = logging.getLogger(__name__)


class MetadataSnapshots:
    """Counts what is appended, and writes a snapshot when that is enough, or old enough.

    Without new records there is no new snapshot (Kafka's `SnapshotGenerator`).
    """

    def __init__(self, log: "MetadataLog", config: NodeConfig, now_ms: int) -> None:
        self._log = log
        self._bytes_max = config.get_int("metadata.log.max.record.bytes.between.snapshots")
        self._interval_ms = config.get_int("metadata.log.max.snapshot.interval.ms")
        self._retention_bytes = config.get_int("metadata.max.retention.bytes")
        self._retention_ms = config.get_int("metadata.max.retention.ms")
        self._bytes = 0
        self._since_ms = now_ms

    def appended(self, size: int) -> None:
        """A batch of so many bytes went into the log."""
        self._bytes += size

    def is_due(self, now_ms: int) -> bool:
        """Whether to write one of what is committed now."""
        if not self._bytes:
            return False
        is_old = bool(self._interval_ms) and now_ms - self._since_ms >= self._interval_ms
        return is_old or self._bytes >= self._bytes_max

    def begin(self, now_ms: int) -> None:
        """One is written now: count anew."""
        self._bytes = 0
        self._since_ms = now_ms

    def write(
        self, image: MetadataImage, voters: VoterSet, kraft_version: int, now_ms: int
    ) -> None:
        """Write the image, durably. For a thread; OSError."""
        level = image.features[METADATA_VERSION]
        snapshot = Snapshot(statable(image_records(image), level), kraft_version, voters, now_ms)
        snapshot_id = SnapshotId(image.offset + 1, image.epoch)
        path = self._log.directory / snapshot_id.file_name
        content = encode_snapshot(snapshot, now_ms, epoch=image.epoch, metadata_version=level)
        replace_file(path, b"".join(content))
        logger.info("wrote snapshot file=%s records=%d", path, len(snapshot.records))

    def remove_old(self, now_ms: int) -> None:
        """Remove snapshots and segments that a later snapshot makes superfluous; OSError."""
        ids = sorted(self._log.snapshot_ids())
        stats = {each: os.stat(self._log.directory / each.file_name) for each in ids}
        total = self._log.size_bytes + sum(stat.st_size for stat in stats.values())
        while len(ids) > 1:
            oldest = stats[ids[0]]
            is_old = 0 <= self._retention_ms < now_ms - oldest.st_mtime * 1000
            if not is_old and not 0 <= self._retention_bytes < total:
                return
            total -= oldest.st_size
            (self._log.directory / ids.pop(0).file_name).unlink()
            self._log.forget_below(ids[0].end_offset, now_ms)

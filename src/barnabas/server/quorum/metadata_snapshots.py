"""Snapshots of the quorum's log: when to write one, and what to remove afterwards (KIP-630)."""

import logging
import os
from typing import TYPE_CHECKING

from barnabas.cluster.quorum.epoch_history import OffsetAndEpoch
from barnabas.cluster.quorum.image_snapshot import ImageSnapshot
from barnabas.config import NodeConfig
from barnabas.log.file_operations import replace_file

if TYPE_CHECKING:
    from barnabas.server.quorum.metadata_log import MetadataLog

logger = logging.getLogger(__name__)


class MetadataSnapshots:
    """Writes a snapshot when enough bytes were appended, or when the last one is old enough.

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
        """Note that a batch of `size` bytes was appended to the log."""
        self._bytes += size

    def is_due(self, now_ms: int) -> bool:
        """True when a snapshot has to be written."""
        if not self._bytes:
            return False
        is_old = bool(self._interval_ms) and now_ms - self._since_ms >= self._interval_ms
        return is_old or self._bytes >= self._bytes_max

    def begin(self, now_ms: int) -> None:
        """Restart the counters for the next snapshot."""
        self._bytes = 0
        self._since_ms = now_ms

    def write(self, snapshot: ImageSnapshot, now_ms: int) -> None:
        """Write the snapshot durably; runs in a thread, raises OSError."""
        path = self._log.directory / snapshot.id.file_name
        replace_file(path, snapshot.encode(now_ms))
        logger.info("wrote snapshot file=%s", path)

    def remove_old(self, now_ms: int) -> OffsetAndEpoch | None:
        """Remove snapshots and segments that a later snapshot replaces; raises OSError.

        Return the snapshot that the log starts from now, if it changed.
        """
        log_start: OffsetAndEpoch | None = None
        ids = sorted(self._log.snapshot_ids())
        stats = {each: os.stat(self._log.directory / each.file_name) for each in ids}
        total = self._log.size_bytes + sum(stat.st_size for stat in stats.values())
        while len(ids) > 1:
            oldest = stats[ids[0]]
            is_old = 0 <= self._retention_ms < now_ms - oldest.st_mtime * 1000
            if not is_old and not 0 <= self._retention_bytes < total:
                break
            total -= oldest.st_size
            (self._log.directory / ids.pop(0).file_name).unlink()
            self._log.forget_below(ids[0].end_offset, now_ms)
            log_start = OffsetAndEpoch(ids[0].end_offset, ids[0].epoch)
        return log_start

"""The file side of `__cluster_metadata-0`: its snapshots and its log, in Kafka's formats."""

from pathlib import Path
from typing import Final

from barnabas.cluster.metadata.image import METADATA_TOPIC, METADATA_TOPIC_ID, MetadataImage
from barnabas.cluster.metadata.metadata_loader import MetadataLoader
from barnabas.cluster.metadata.metadata_snapshot import (
    BOOTSTRAP_CHECKPOINT,
    Snapshot,
    SnapshotId,
    decode_snapshot,
)
from barnabas.config import NodeConfig
from barnabas.log import LogConfig, LogManager, PartitionLog
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.messages_base import Message
from barnabas.protocol.types import ZERO_UUID, Uuid
from barnabas.server.node.startup_checks import StartupError

_READ_BYTES: Final = 1 << 20


class MetadataLog:
    """Reads all of it at the start, then appends and syncs what the quorum's core decides.

    It is recovered as a whole at every start, as Kafka does it: it is small, and everything
    depends on it.
    """

    def __init__(self, logs: LogManager, config: NodeConfig) -> None:
        self._logs = logs
        self._volume = logs.metadata_volume
        log_config = LogConfig(
            segment_bytes=config.get_int("metadata.log.segment.bytes"),
            segment_ms=config.get_int("metadata.log.segment.ms"),
            is_deleted=False,  # it goes by its snapshots
        )
        self._log = PartitionLog(self._volume, METADATA_TOPIC, 0, log_config)
        self.directory = Path(self._log.directory)

    @property
    def directory_id(self) -> Uuid:
        """The id of the directory that holds this log: with the node's id, it names the voter."""
        return self._volume.directory_id or ZERO_UUID

    def load(self, image: MetadataImage) -> MetadataLoader:
        """Read the latest snapshot and all that follows it.

        Raises StartupError on what cannot be understood, KafkaError when the disk fails.
        """
        loader = MetadataLoader(image)
        found = self._latest_snapshot()
        if found is not None:
            loader.load_snapshot(*found)
        log = self._log
        if self.directory.exists() and any(self.directory.glob("*.log")):
            log.load(recover=True)
        else:
            log.create(METADATA_TOPIC_ID)
        covered = loader.epochs.end_offset
        if log.log_end_offset < covered:
            log.truncate_fully_and_start_at(covered)
        try:
            self._load_batches(loader, max(covered, log.log_start_offset))
        except (ProtocolError, KeyError, ValueError) as error:
            raise StartupError(f"{self.directory} cannot be replayed: {error}") from error
        return loader

    def snapshot_ids(self) -> list[SnapshotId]:
        """The snapshots that are there, in no order."""
        if not self.directory.exists():
            return []
        ids = [SnapshotId.parse(path.name) for path in self.directory.iterdir()]
        return [each for each in ids if each is not None]

    def _latest_snapshot(self) -> tuple[Snapshot, SnapshotId] | None:
        for snapshot_id in sorted(self.snapshot_ids(), reverse=True):
            path = self.directory / snapshot_id.file_name
            try:
                return decode_snapshot(path.read_bytes()), snapshot_id
            except ProtocolError as error:
                raise StartupError(f"{path} is damaged: {error}") from error
        return None

    def _load_batches(self, loader: MetadataLoader, offset: int) -> None:
        log = self._log
        while offset < log.log_end_offset:
            loader.load_batches(
                log.read(offset, _READ_BYTES, upper_bound=log.log_end_offset).read()
            )
            if loader.epochs.end_offset <= offset:
                raise ProtocolError(f"no whole batch at offset {offset}")
            offset = loader.epochs.end_offset

    def bootstrap_records(self) -> list[Message]:
        """What the first controller of a cluster writes: the levels that formatting chose.

        Raises StartupError when the file is gone or damaged.
        """
        path = self._volume.path / BOOTSTRAP_CHECKPOINT
        try:
            return decode_snapshot(path.read_bytes()).records
        except (OSError, ProtocolError) as error:
            raise StartupError(f"{path} cannot be read: {error}") from error

    @property
    def size_bytes(self) -> int:
        """The size of the log, without snapshots."""
        return self._log.size_bytes

    def forget_below(self, offset: int, now_ms: int) -> None:
        """A snapshot covers what is below: whole segments of it may go."""
        self._log.advance_log_start(offset)
        self._log.apply_retention(now_ms)

    def append(self, batch: bytearray, now_ms: int) -> None:
        """Append a batch, whose offsets and epoch are in it. KafkaError when the disk fails."""
        self._log.append_as_follower(batch, now_ms=now_ms)

    def truncate_to(self, offset: int) -> None:
        """Cut the log at `offset`; raises KafkaError when the disk fails."""
        self._log.truncate_to(offset)

    def advance_high_watermark(self, offset: int) -> None:
        """All below is committed."""
        self._log.advance_high_watermark(offset)

    def flush(self) -> None:
        """Make durable what was appended. For a thread."""
        self._log.flush()

    def close(self) -> None:
        """Make all durable, unless the disk failed, and let go of the files."""
        if self._volume.failure is None:
            self._log.close()
        self._log.release()

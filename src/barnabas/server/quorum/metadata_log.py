"""The files of `__cluster_metadata-0`: its log and its snapshots, in Kafka's formats."""

import logging
import os
from pathlib import Path
from typing import Final

from barnabas.cluster.metadata.image import METADATA_TOPIC, METADATA_TOPIC_ID, MetadataImage
from barnabas.cluster.metadata.stepwise import Steps, run_through
from barnabas.cluster.quorum.metadata_loader import MetadataLoader
from barnabas.cluster.quorum.metadata_snapshot import (
    BOOTSTRAP_CHECKPOINT,
    Snapshot,
    SnapshotId,
    decode_snapshot,
    snapshot_decoding,
)
from barnabas.cluster.quorum.voters import static_voters
from barnabas.config import NodeConfig
from barnabas.log import LogConfig, LogManager, PartitionLog
from barnabas.private_files import close_to_others
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.messages_base import Message
from barnabas.protocol.types import ZERO_UUID, Uuid
from barnabas.server.node_failures import StartupError

logger = logging.getLogger(__name__)

PART_SUFFIX: Final = ".part"
"""Follows the name of a snapshot that is not complete."""

_READ_BYTES: Final = 1 << 20


class MetadataLog:
    """Reads the whole log at start-up, then appends and syncs what the quorum's core decides.

    The log is recovered as a whole at every start, as Kafka does: it is small, and all depends on
    it.
    """

    def __init__(self, logs: LogManager, config: NodeConfig) -> None:
        self._logs = logs
        self._volume = logs.metadata_volume
        log_config = LogConfig(
            segment_bytes=config.get_int("metadata.log.segment.bytes"),
            segment_ms=config.get_int("metadata.log.segment.ms"),
            is_deleted=False,  # snapshots decide what is deleted
        )
        self._static_voters = static_voters(
            config.get("controller.quorum.voters"), config.controller_listener_names[0]
        )
        self._log = PartitionLog(self._volume, METADATA_TOPIC, 0, log_config)
        self.directory = Path(self._log.directory)

    @property
    def directory_id(self) -> Uuid:
        """The id of this log's directory, which names the voter together with the node id."""
        return self._volume.directory_id or ZERO_UUID

    def load(self, image: MetadataImage) -> MetadataLoader:
        """Read the latest snapshot and all records after it; see `loading`."""
        return run_through(self.loading(image))

    def loading(self, image: MetadataImage) -> Steps[MetadataLoader]:
        """Read the latest snapshot and all records after it, in steps: they may be many.

        Raises StartupError when the files are damaged, KafkaError when the disk fails.
        """
        log = self._log
        if self.directory.exists() and any(self.directory.glob("*.log")):
            log.load(recover=True)
        else:
            log.create(METADATA_TOPIC_ID)
        self._close_to_others()
        self._remove_incomplete()
        return (yield from self._reading(image))

    def read_again(self, image: MetadataImage) -> MetadataLoader:
        """Read the latest snapshot and the records after it once more; see `loading`."""
        return run_through(self._reading(image))

    def _reading(self, image: MetadataImage) -> Steps[MetadataLoader]:
        """Read the latest snapshot and the records after it.

        A crash between the installation of a leader's snapshot and the removal of the replaced log
        leaves a log that does not continue the snapshot; it is removed now, as in Kafka's
        `KafkaRaftLog.truncateToLatestSnapshot`.
        """
        loader, log = MetadataLoader(image, self._static_voters), self._log
        latest = max(self.snapshot_ids(), default=None)
        if latest is not None:
            snapshot = yield from self._snapshot_decoding(latest)
            yield from loader.snapshot_loading(snapshot, latest)
        covered = loader.epochs.end_offset
        is_older = log.latest_epoch < loader.epochs.last_epoch and log.log_end_offset > covered
        if log.log_end_offset < covered or is_older:
            log.truncate_fully_and_start_at(covered)
        try:
            yield from self._batches_loading(loader, max(covered, log.log_start_offset))
        except (ProtocolError, KeyError, ValueError) as error:
            raise StartupError(f"{self.directory} cannot be replayed: {error}") from error
        return loader

    def _close_to_others(self) -> None:
        """Have only this user read the metadata: it has credentials, and dynamic passwords."""
        for path in (self.directory, self._volume.path / BOOTSTRAP_CHECKPOINT):
            try:
                close_to_others(path)
            except FileNotFoundError:
                continue
            except OSError as error:  # another user owns it
                logger.warning(
                    "other users of this machine may read credentials path=%s reason=%s",
                    path,
                    error.strerror,
                )

    def _remove_incomplete(self) -> None:
        """Remove downloads that were interrupted."""
        for path in self.directory.glob(f"*{PART_SUFFIX}"):
            path.unlink()

    def snapshot_ids(self) -> list[SnapshotId]:
        """Return the ids of the existing snapshots, in no order."""
        if not self.directory.exists():
            return []
        ids = [SnapshotId.parse(path.name) for path in self.directory.iterdir()]
        return [each for each in ids if each is not None]

    def _snapshot_decoding(self, snapshot_id: SnapshotId) -> Steps[Snapshot]:
        path = self.directory / snapshot_id.file_name
        try:
            return (yield from snapshot_decoding(path.read_bytes()))
        except ProtocolError as error:
            raise StartupError(f"{path} is damaged: {error}") from error

    def _batches_loading(self, loader: MetadataLoader, offset: int) -> Steps[None]:
        log = self._log
        while offset < log.log_end_offset:
            yield from loader.batches_loading(
                log.read(offset, _READ_BYTES, upper_bound=log.log_end_offset).read()
            )
            if loader.epochs.end_offset <= offset:
                raise ProtocolError(f"no whole batch at offset {offset}")
            offset = loader.epochs.end_offset

    def bootstrap_records(self) -> list[Message]:
        """Return the records that the first controller of a cluster writes: its feature levels.

        Raises StartupError when the file is missing or damaged.
        """
        path = self._volume.path / BOOTSTRAP_CHECKPOINT
        try:
            return decode_snapshot(path.read_bytes()).records
        except (OSError, ProtocolError) as error:
            raise StartupError(f"{path} cannot be read: {error}") from error

    def restart_at(self, offset: int) -> None:
        """Remove all records; the log continues at `offset`, the end of a snapshot."""
        self._log.truncate_fully_and_start_at(offset)

    def snapshot_part(
        self, snapshot_id: SnapshotId, position: int, max_bytes: int
    ) -> tuple[int, bytes] | None:
        """Return the size of a snapshot and bytes from a position; None when it does not exist."""
        try:
            with (self.directory / snapshot_id.file_name).open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                return size, os.pread(file.fileno(), max_bytes, position) if position >= 0 else b""
        except FileNotFoundError:
            return None

    @property
    def log_start_offset(self) -> int:
        """The offset of the first record; the snapshots contain what was before."""
        return self._log.log_start_offset

    @property
    def size_bytes(self) -> int:
        """The size of the log, without snapshots."""
        return self._log.size_bytes

    def forget_below(self, offset: int, now_ms: int) -> None:
        """Delete whole segments below `offset`, which a snapshot replaces."""
        if offset > self._log.high_watermark:  # a restarted replica has an older one
            self._log.advance_high_watermark(offset)
        self._log.advance_log_start(offset)
        self._log.apply_retention(now_ms)

    def append(self, batch: bytearray, now_ms: int) -> None:
        """Append a batch with its offsets and epoch; raises KafkaError when the disk fails."""
        self._log.append_as_follower(batch, now_ms=now_ms)

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Return whole batches from `offset` on; raises KafkaError when the disk fails."""
        log = self._log
        return bytes(log.read(offset, max_bytes, upper_bound=log.log_end_offset).read())

    def truncate_to(self, offset: int) -> None:
        """Truncate the log to `offset`; raises KafkaError when the disk fails."""
        self._log.truncate_to(offset)

    def advance_high_watermark(self, offset: int) -> None:
        """Note that all records below `offset` are committed."""
        self._log.advance_high_watermark(offset)

    def flush(self) -> None:
        """Make the appended batches durable; runs in a thread."""
        self._log.flush()

    def close(self) -> None:
        """Make all batches durable, unless the disk failed, and release the files."""
        if self._volume.failure is None:
            self._log.close()
        self._log.release()

"""Download a snapshot of the quorum's leader, part by part (KIP-630).

The bytes go to a file `.part` of this download alone. The file is checked and synced when it is
complete; the installation renames it.
"""

import logging
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from barnabas.clock import Clock
from barnabas.cluster.quorum import snapshot_wire
from barnabas.cluster.quorum.epoch_history import OffsetAndEpoch
from barnabas.cluster.quorum.metadata_snapshot import SnapshotId, decode_snapshot
from barnabas.cluster.quorum.raft import RaftCore
from barnabas.cluster.quorum.snapshot_wire import SnapshotPart
from barnabas.log.file_operations import sync_path, write_at
from barnabas.protocol.errors import ErrorCode, ProtocolError
from barnabas.protocol.messages.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotResponse,
)
from barnabas.server.quorum.metadata_log import PART_SUFFIX

if TYPE_CHECKING:
    from barnabas.server.storage.disk_threads import DiskThreads

logger = logging.getLogger(__name__)

Ask = Callable[[FetchSnapshotRequest], Awaitable[FetchSnapshotResponse]]


@attrs.frozen
class DownloadedSnapshot:
    """A snapshot that is complete, valid and durable, in a file that starts do not read yet."""

    id: OffsetAndEpoch
    part: Path
    path: Path

    def install(self) -> None:
        """Rename the file to its final name, durably. Raises OSError."""
        self.part.rename(self.path)
        sync_path(self.path.parent)

    def remove(self) -> None:
        """Remove the file, because the snapshot is no longer needed. Raises OSError."""
        self.part.unlink(missing_ok=True)


class SnapshotDownload:
    """One download into `directory`; `ask` sends a request to the leader.

    The `number` distinguishes its file from those of other downloads of the same snapshot.
    """

    def __init__(
        self,
        core: RaftCore,
        snapshot: OffsetAndEpoch,
        ask: Ask,
        *,
        number: int,
        directory: Path,
        disk: "DiskThreads",
        clock: Clock,
        max_bytes: int,
        cluster_id: str,
    ) -> None:
        self._core = core
        self._snapshot = snapshot
        self._epoch = core.epoch
        self._ask = ask
        self._disk = disk
        self._now_ms = clock.monotonic_ms
        self._max_bytes = max_bytes
        self._cluster_id = cluster_id
        self._path = directory / SnapshotId(snapshot.offset, snapshot.epoch).file_name
        self._part = Path(f"{self._path}.{number}{PART_SUFFIX}")

    async def run(self) -> DownloadedSnapshot | None:
        """Return the snapshot; None when it is unavailable or damaged.

        Raises ClientError when the leader cannot be reached, OSError when the disk fails.
        """
        is_valid = False
        try:
            is_valid = await self._write() and await self._disk.run(self._check)
        finally:
            if not is_valid:
                self._part.unlink(missing_ok=True)
        if not is_valid:
            return None
        logger.info("downloaded snapshot file=%s", self._path)
        return DownloadedSnapshot(self._snapshot, self._part, self._path)

    async def _write(self) -> bool:
        """Write the file and sync it; return False when it is not complete."""
        fd = os.open(self._part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        try:
            is_complete = await self._receive(fd)
            if is_complete:
                await self._disk.run(os.fsync, fd)
        finally:
            os.close(fd)
        return is_complete

    def _check(self) -> bool:
        """Return True when a start can read the file."""
        try:
            decode_snapshot(self._part.read_bytes())
        except ProtocolError as error:
            logger.error("downloaded snapshot is damaged file=%s error=%s", self._path, error)
            return False
        return True

    async def _receive(self, fd: int) -> bool:
        position = 0
        while self._core.snapshot_in_progress == self._snapshot:
            wanted = SnapshotPart(
                self._core.local.key, self._epoch, self._snapshot, position, self._max_bytes
            )
            response = await self._ask(snapshot_wire.snapshot_request(wanted, self._cluster_id))
            read = snapshot_wire.read_snapshot_response(wanted, response)
            if read is None:
                return False
            answer, epoch, leader_id = read
            if answer.error is not ErrorCode.NONE or not answer.data:
                self._core.on_epoch(epoch, leader_id, self._now_ms())
                logger.warning("the leader refused to send a snapshot error=%s", answer.error.name)
                return False
            self._core.on_snapshot_chunk(self._now_ms())
            await self._disk.run(write_at, fd, answer.data, position)
            position += len(answer.data)
            if position >= answer.size:
                return True
        return False

"""Download a snapshot of the quorum's leader, part by part (KIP-630).

The bytes go to a file `.checkpoint.part`, which is synced and renamed when it is complete.
"""

import logging
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from barnabas.cluster.metadata.metadata_snapshot import SnapshotId
from barnabas.cluster.quorum import snapshot_wire
from barnabas.cluster.quorum.epoch_history import OffsetAndEpoch
from barnabas.cluster.quorum.raft import RaftCore
from barnabas.cluster.quorum.snapshot_wire import SnapshotPart
from barnabas.log.file_operations import sync_path, write_at
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotResponse,
)
from barnabas.server.quorum.metadata_log import PART_SUFFIX

if TYPE_CHECKING:
    from barnabas.server.storage.disk_threads import DiskThreads

logger = logging.getLogger(__name__)

Ask = Callable[[FetchSnapshotRequest], Awaitable[FetchSnapshotResponse]]


class SnapshotDownload:
    """One download into `directory`; `ask` sends a request to the leader."""

    def __init__(
        self,
        core: RaftCore,
        snapshot: OffsetAndEpoch,
        ask: Ask,
        *,
        directory: Path,
        disk: "DiskThreads",
        now_ms: Callable[[], int],
        max_bytes: int,
        cluster_id: str,
    ) -> None:
        self._core = core
        self._snapshot = snapshot
        self._epoch = core.epoch
        self._ask = ask
        self._disk = disk
        self._now_ms = now_ms
        self._max_bytes = max_bytes
        self._cluster_id = cluster_id
        self._path = directory / SnapshotId(snapshot.offset, snapshot.epoch).file_name

    async def run(self) -> bool:
        """Return True when the file is complete and durable; False when it cannot be had.

        Raises ClientError when the leader cannot be reached, OSError when the disk fails.
        """
        part = Path(f"{self._path}{PART_SUFFIX}")
        fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        try:
            is_complete = await self._receive(fd)
            if is_complete:
                await self._disk.run(os.fsync, fd)
        finally:
            os.close(fd)
        if not is_complete:
            os.unlink(part)
            return False
        await self._disk.run(self._rename, part)
        logger.info("downloaded snapshot file=%s", self._path)
        return True

    def _rename(self, part: Path) -> None:
        part.rename(self._path)
        sync_path(self._path.parent)

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
                logger.warning("snapshot refused error=%s", answer.error.name)
                return False
            self._core.on_snapshot_chunk(self._now_ms())
            await self._disk.run(write_at, fd, answer.data, position)
            position += len(answer.data)
            if position >= answer.size:
                return True
        return False

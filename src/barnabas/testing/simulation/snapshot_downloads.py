"""Downloads of snapshots between replicas of the simulated quorum, part by part (KIP-630)."""

from collections.abc import Callable
from typing import NamedTuple

import attrs

from barnabas.cluster.quorum.epoch_history import OffsetAndEpoch
from barnabas.cluster.quorum.metadata_snapshot import SnapshotId
from barnabas.cluster.quorum.raft import RaftCore
from barnabas.cluster.quorum.snapshot_wire import SnapshotBytes, SnapshotPart
from barnabas.protocol.errors import ErrorCode
from barnabas.testing.simulation.network import Failure, Network
from barnabas.testing.simulation.quorum_disk import QuorumDisk
from barnabas.testing.simulation.world import Process

_BACKOFF_MS = 20
_REQUEST_TIMEOUT_MS = 2_000


class SentPart(NamedTuple):
    """A part of a snapshot, with the leader that the answering replica knows."""

    bytes: SnapshotBytes
    epoch: int
    leader_id: int | None


@attrs.define(slots=True, eq=False)
class _Download:
    """A download in progress, from one leader."""

    snapshot: OffsetAndEpoch
    leader_id: int
    epoch: int
    content: bytearray = attrs.field(factory=bytearray)


class SnapshotDownloads:
    """Downloads for one replica; a new download replaces the one in progress.

    `install` takes a complete snapshot. `settle` carries out the effects of the core.
    """

    def __init__(
        self,
        process: Process,
        network: Network,
        core: RaftCore,
        *,
        part_bytes: int,
        install: Callable[[OffsetAndEpoch, bytes], None],
        settle: Callable[[], None],
    ) -> None:
        self._process = process
        self._network = network
        self._core = core
        self._part_bytes = part_bytes
        self._install = install
        self._settle = settle
        self._current: _Download | None = None

    def begin(self, snapshot: OffsetAndEpoch) -> None:
        """Begin to download a snapshot from the leader."""
        leader_id = self._core.leader_id
        if leader_id is None:
            self._process.after_ms(0, self._give_up, None)
            return
        self._current = _Download(snapshot, leader_id, self._core.epoch)
        self._ask(self._current)

    def _ask(self, download: _Download) -> None:
        core = self._core
        position = len(download.content)
        part = SnapshotPart(
            core.local.key, download.epoch, download.snapshot, position, self._part_bytes
        )

        def answered(sent: SentPart) -> None:
            if self._current is download:
                self._take(download, sent)

        def failed(_: Failure) -> None:
            if self._current is download:
                self._fail(download)

        self._network.ask(
            self._process,
            download.leader_id,
            "controller",
            part,
            answered,
            failed,
            purpose="raft-snapshot",
            timeout_ms=_REQUEST_TIMEOUT_MS,
        )

    def _take(self, download: _Download, sent: SentPart) -> None:
        core, now_ms = self._core, self._process.now_ms
        if core.snapshot_in_progress != download.snapshot:
            self._current = None
        elif sent.bytes.error is not ErrorCode.NONE or not sent.bytes.data:
            core.on_epoch(sent.epoch, sent.leader_id, now_ms)
            self._fail(download)
        else:
            core.on_snapshot_chunk(now_ms)
            download.content += sent.bytes.data
            if len(download.content) < sent.bytes.size:
                self._ask(download)
            else:
                self._current = None
                self._install(download.snapshot, bytes(download.content))
        self._settle()

    def _fail(self, download: _Download) -> None:
        if self._core.snapshot_in_progress == download.snapshot:
            self._process.after_ms(_BACKOFF_MS, self._give_up, download)

    def _give_up(self, download: _Download | None) -> None:
        if download is None or self._current is download:
            self._current = None
            self._core.on_snapshot_failed()
            self._settle()


def read_part(core: RaftCore, disk: QuorumDisk, part: SnapshotPart, now_ms: int) -> SentPart:
    """Return the answer of a replica, as `RaftShell.answer_snapshot`."""
    error = core.on_fetch_snapshot(part.replica, part.epoch, now_ms)
    if error is not ErrorCode.NONE:
        return SentPart(SnapshotBytes(error), core.epoch, core.leader_id)
    found = None
    if part.snapshot.offset > 0:
        found = disk.snapshots.get(SnapshotId(part.snapshot.offset, part.snapshot.epoch))
    if found is None:
        answer = SnapshotBytes(ErrorCode.SNAPSHOT_NOT_FOUND)
    elif part.position >= len(found):
        answer = SnapshotBytes(ErrorCode.POSITION_OUT_OF_RANGE)
    else:
        data = found[part.position : part.position + part.max_bytes]
        answer = SnapshotBytes(ErrorCode.NONE, len(found), data)
    return SentPart(answer, core.epoch, core.leader_id)

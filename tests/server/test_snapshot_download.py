"""Downloads of a snapshot: one at a time, checked, and without a file that is not installed."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from barnabas.clock import Clock
from barnabas.cluster.quorum.epoch_history import OffsetAndEpoch
from barnabas.cluster.quorum.metadata_snapshot import Snapshot, encode_snapshot
from barnabas.cluster.quorum.raft_wire import LeaderState
from barnabas.cluster.quorum.snapshot_wire import (
    SnapshotBytes,
    read_snapshot_request,
    snapshot_response,
)
from barnabas.cluster.quorum.voters import ReplicaKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from barnabas.protocol.records.metadata_records import NoOpRecord
from barnabas.server.quorum.raft_peers import PeerSettings, RaftPeers
from barnabas.server.quorum.snapshot_download import DownloadedSnapshot, SnapshotDownload

SNAPSHOT = OffsetAndEpoch(100, 5)
CLUSTER_ID = "cluster"
VALID = b"".join(encode_snapshot(Snapshot([NoOpRecord()]), 0, epoch=5))
PART_BYTES = 16


class Disk:
    """Disk threads that take a moment."""

    async def run(self, call: Callable[..., object], *args: object) -> object:
        await trio.sleep(0.001)
        return call(*args)


class Core:
    """A follower that waits for a snapshot."""

    local = SimpleNamespace(key=ReplicaKey(2))
    leader_id = 1
    epoch = 5
    snapshot_in_progress: OffsetAndEpoch | None = SNAPSHOT

    def on_snapshot_chunk(self, now_ms: int) -> None:
        pass


class Leader:
    """Answers with parts of `content`."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.has_answered = trio.Event()

    async def ask(self, request: FetchSnapshotRequest) -> FetchSnapshotResponse:
        await trio.sleep(0.001)
        part = read_snapshot_request(request, CLUSTER_ID)
        data = self.content[part.position : part.position + PART_BYTES]
        answer = SnapshotBytes(ErrorCode.NONE, len(self.content), data)
        self.has_answered.set()
        return snapshot_response(part, answer, LeaderState(5, 1, None))


def download_of(core: Any, leader: Leader, directory: Path) -> SnapshotDownload:
    disk: Any = Disk()
    return SnapshotDownload(
        core,
        SNAPSHOT,
        leader.ask,
        number=1,
        directory=directory,
        disk=disk,
        clock=Clock(lambda: 0, lambda: 0),
        max_bytes=PART_BYTES,
        cluster_id=CLUSTER_ID,
    )


def test_snapshot_download_gets_its_final_name_when_installed(tmp_path: Path) -> None:
    downloaded = trio.run(download_of(Core(), Leader(VALID), tmp_path).run)
    assert downloaded is not None
    assert list(tmp_path.glob("*.checkpoint")) == []
    downloaded.install()
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [VALID]
    assert downloaded.path.name.endswith(".checkpoint")


def test_snapshot_download_damaged_bytes_leave_no_file(tmp_path: Path) -> None:
    damaged = VALID[:40] + bytes([VALID[40] ^ 1]) + VALID[41:]
    assert trio.run(download_of(Core(), Leader(damaged), tmp_path).run) is None
    assert list(tmp_path.iterdir()) == []


def test_snapshot_download_that_is_cancelled_leaves_no_file(tmp_path: Path) -> None:
    async def run() -> None:
        with trio.move_on_after(0.005):
            await download_of(Core(), Leader(bytes(10_000)), tmp_path).run()

    trio.run(run)
    assert list(tmp_path.iterdir()) == []


def test_raft_peers_second_download_of_a_snapshot_replaces_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    core, leader = Core(), Leader(VALID)
    downloaded: list[DownloadedSnapshot] = []

    async def ask(
        peers: RaftPeers, address: object, request: FetchSnapshotRequest, answer: object
    ) -> FetchSnapshotResponse:
        return await leader.ask(request)

    async def run() -> None:
        parts: Any = (core, SimpleNamespace(of_node=lambda node_id: "leader"))
        settings = PeerSettings(node_id=2, cluster_id=CLUSTER_ID, directory=tmp_path)
        disk: Any = Disk()
        peers = RaftPeers(*parts, settings, disk=disk, clock=Clock(lambda: 0, lambda: 0))
        shell: Any = SimpleNamespace(
            fetch_request=lambda: None, snapshot_downloaded=downloaded.append
        )
        async with trio.open_nursery() as nursery:
            await nursery.start(peers.run, shell)
            peers.fetch_snapshot(SNAPSHOT)
            await leader.has_answered.wait()
            core.epoch = 6
            peers.fetch_snapshot(SNAPSHOT)
            await trio.sleep(0.5)
            nursery.cancel_scope.cancel()

    monkeypatch.setattr(RaftPeers, "_ask", ask)
    trio.run(run)
    assert [each.part.read_bytes() for each in downloaded] == [VALID]
    assert list(tmp_path.iterdir()) == [downloaded[0].part]

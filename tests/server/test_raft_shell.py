"""The Raft shell: what is durable before it is committed, and failures of the disk."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing

from barnabas.clock import Clock
from barnabas.cluster.controller.controller_state_machine import ControllerStateMachine
from barnabas.cluster.quorum.epoch_history import OffsetAndEpoch
from barnabas.cluster.quorum.raft_messages import BeginQuorumEpoch, FetchResponse
from barnabas.protocol.batches.batch_building import build_batch
from barnabas.protocol.batches.batch_header import iter_batches
from barnabas.protocol.batches.record_decoding import Record
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.server.node_failures import DisksLostError
from barnabas.server.quorum import raft_shell
from barnabas.server.quorum.raft_shell import RaftShell
from barnabas.server.quorum.snapshot_download import DownloadedSnapshot
from tests.cluster.states import registration
from tests.cluster.test_controller_state_machine import machine_of


class MemoryLog:
    """A log whose `durable` offset is the end at the last flush; `committed` its high watermark."""

    directory = Path("unused")

    def __init__(self) -> None:
        self.end = self.durable = self.committed = 0
        self.error: KafkaError | None = None

    def append(self, batch: bytearray, now_ms: int) -> None:
        if self.error is not None:
            raise self.error
        self.end = max(header.next_offset for _, header in iter_batches(batch))

    def flush(self) -> None:
        self.durable = self.end

    def advance_high_watermark(self, offset: int) -> None:
        assert offset <= self.durable, "records are committed before they are durable"
        self.committed = offset

    def close(self) -> None:
        pass


class Disk:
    """Disk threads; `during_write` runs while the state file is being written."""

    def __init__(self, during_write: Callable[[], object] = lambda: None) -> None:
        self._during_write = during_write

    async def run(self, call: Callable[..., object], *args: object) -> object:
        await trio.lowlevel.checkpoint()
        self._during_write()
        return call(*args)

    async def fsync(self, key: object, sync: Callable[[], object]) -> None:
        await trio.lowlevel.checkpoint()
        sync()


def shell_of(machine: ControllerStateMachine, log: MemoryLog, disk: Disk) -> RaftShell:
    snapshots: Any = SimpleNamespace(appended=lambda size: None, is_due=lambda now_ms: False)
    parts: Any = (log, snapshots, disk)
    return RaftShell(
        machine,
        *parts,
        clock=Clock(lambda: 10_000, lambda: 10_000),
        deliver=lambda effects: None,
        peers=SimpleNamespace(settled=lambda: None),  # type: ignore[arg-type]
    )


def run_until_idle(shell: RaftShell) -> None:
    async def run() -> None:
        with trio.move_on_after(0.2):
            await shell.run()

    # The time passes once the shell waits.
    trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0))


@pytest.fixture(autouse=True)
def without_state_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raft_shell, "write_quorum_state", lambda *_: None)


def test_raft_shell_operation_during_a_state_write_is_durable_before_it_is_committed() -> None:
    machine, log = machine_of(), MemoryLog()
    submitted: list[object] = []

    def submit() -> None:
        if not submitted:
            submitted.append(token := object())
            machine.submit(registration(7), 4, token, 10_000)

    shell = shell_of(machine, log, Disk(submit))
    run_until_idle(shell)
    assert submitted
    assert log.committed == log.durable == log.end == machine.core.log_end_offset


def test_raft_shell_append_that_fails_raises_disks_lost() -> None:
    machine, log = machine_of(), MemoryLog()
    log.error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "No space left on device")
    with pytest.raises(DisksLostError, match="No space left on device"):
        trio.run(shell_of(machine, log, Disk()).run)


def test_raft_shell_state_write_that_fails_raises_disks_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(raft_shell, "write_quorum_state", fail)
    with pytest.raises(DisksLostError, match="Input/output error"):
        trio.run(shell_of(machine_of(), MemoryLog(), Disk()).run)


def test_raft_shell_snapshot_of_an_earlier_epoch_is_removed(tmp_path: Path) -> None:
    part, path = tmp_path / "snapshot.part", tmp_path / "snapshot.checkpoint"
    part.touch()
    shell = shell_of(machine_of(), MemoryLog(), Disk())
    shell.snapshot_downloaded(DownloadedSnapshot(OffsetAndEpoch(100, 5), part, path))
    run_until_idle(shell)
    assert list(tmp_path.iterdir()) == []


def test_raft_shell_malformed_responses_are_counted_until_one_is_readable(
    caplog: pytest.LogCaptureFixture,
) -> None:
    machine = machine_of(3)
    log = MemoryLog()
    shell = shell_of(machine, log, Disk())
    machine.core.on_begin_quorum_epoch(BeginQuorumEpoch(1, 1, 2), 10_000)

    def fetch(records: bytes) -> int:
        request = shell.fetch_request()
        assert request is not None
        shell.fetched(request, FetchResponse(1, 2, high_watermark=0), records)
        run_until_idle(shell)
        return shell.malformed_responses

    assert [fetch(b"no batch"), fetch(bytes(100)), fetch(b"")] == [1, 2, 2]
    batch = build_batch([Record(0, 10_000, None, b"")], base_offset=0, leader_epoch=1)
    with suppress(Exception):  # the record itself has no meaning
        fetch(bytes(batch))
    assert shell.malformed_responses == 0
    assert caplog.text.count("malformed response of the leader leader=2 offset=0") == 1

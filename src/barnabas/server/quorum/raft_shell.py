"""The input and output of the Raft core: its log, its state file, its timer.

One task carries out the effects of the core, in order. Operations that are submitted during an
fsync are appended together and share the next fsync. The task sleeps until an operation is
submitted or a timer of the core or of the controller is due.
"""

import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import trio

from barnabas.cluster.controller.controller_state_machine import ControllerStateMachine, Effects
from barnabas.cluster.metadata.metadata_snapshot import control_batch
from barnabas.cluster.quorum.epoch_history import OffsetAndEpoch
from barnabas.cluster.quorum.raft import RaftCore
from barnabas.cluster.quorum.raft_messages import Outgoing
from barnabas.cluster.quorum.raft_state import Entry, Ready
from barnabas.protocol.batches.batch_building import build_batch
from barnabas.protocol.batches.record_decoding import Record
from barnabas.protocol.errors import KafkaError
from barnabas.server.node.startup_checks import DisksLostError
from barnabas.server.quorum.quorum_files import write_quorum_state

if TYPE_CHECKING:
    from barnabas.server.quorum.metadata_log import MetadataLog
    from barnabas.server.quorum.metadata_snapshots import MetadataSnapshots
    from barnabas.server.storage.disk_threads import DiskThreads

logger = logging.getLogger(__name__)


class QuorumPeers(Protocol):
    """The connections to the other replicas of the quorum."""

    def send(self, message: Outgoing) -> None:
        """Send a message to a voter."""
        ...

    def fetch_snapshot(self, snapshot: OffsetAndEpoch) -> None:
        """Begin to download a snapshot from the leader."""
        ...


class RaftShell:
    """Drives the controller's state machine and its Raft core.

    `deliver` publishes committed images and answers operations. Only this task passes events to the
    core, except proposals.
    """

    def __init__(
        self,
        machine: ControllerStateMachine,
        log: "MetadataLog",
        snapshots: "MetadataSnapshots",
        disk: "DiskThreads",
        *,
        now_ms: Callable[[], int],
        deliver: Callable[[Effects], None],
        peers: QuorumPeers,
    ) -> None:
        self._machine = machine
        self._core: RaftCore = machine.core
        self._log = log
        self._snapshots = snapshots
        self._disk = disk
        self._now_ms = now_ms
        self._deliver = deliver
        self._peers = peers
        # The core's log end is ahead of the file's while proposals wait to be appended.
        self._appended_offset = self._flushed_offset = self._core.log_end_offset
        self._woken = trio.Event()

    def start(self) -> None:
        """Start the core; a single voter becomes the leader at once."""
        self._core.start(self._now_ms())

    def wake(self) -> None:
        """An operation was submitted."""
        self._woken.set()

    async def run(self) -> None:
        """Carry out the effects of the core until cancelled.

        Raises DisksLostError when the log cannot be written; the node must then stop.
        """
        try:
            while True:
                self._woken = trio.Event()
                self._tick()
                await self._carry_out(self._machine.take_effects(self._now_ms()))
                if self._flushed_offset < self._appended_offset:
                    await self._flush()
                else:
                    await self._sleep()
        finally:
            self._core.resign(self._now_ms())
            self._deliver(self._machine.take_effects(self._now_ms()))
            self._log.close()

    def _tick(self) -> None:
        """Pass the time to the core and the controller when their timers are due."""
        now_ms = self._now_ms()
        for timer in (self._core, self._machine):
            wakeup_ms = timer.wakeup_ms()
            if wakeup_ms is not None and now_ms >= wakeup_ms:
                timer.tick(now_ms)

    async def _sleep(self) -> None:
        """Wait for an operation or a timer."""
        timers = (self._core.wakeup_ms(), self._machine.wakeup_ms())
        wakeup_ms = min((each for each in timers if each is not None), default=None)
        if wakeup_ms is None:
            await self._woken.wait()
            return
        with trio.move_on_after(max(0, wakeup_ms - self._now_ms()) / 1000):
            await self._woken.wait()

    async def _carry_out(self, effects: Effects) -> None:
        """Carry out effects, in the order of `Ready`."""
        ready = effects.ready
        with _disk_failures():
            if ready.quorum_state is not None:
                await self._disk.run(write_quorum_state, self._log.directory, ready.quorum_state)
            self._write(ready)
        for message in ready.messages:
            self._peers.send(message)
        if ready.leadership is not None:
            leader_id, epoch = ready.leadership
            logger.info("quorum leader=%s epoch=%d", leader_id, epoch)
        if ready.high_watermark is not None:
            self._log.advance_high_watermark(ready.high_watermark)
        if ready.fetch_snapshot is not None:
            self._peers.fetch_snapshot(ready.fetch_snapshot)
        self._deliver(effects)

    def _write(self, ready: Ready) -> None:
        if ready.truncate_to is not None:
            self._log.truncate_to(ready.truncate_to)
            self._appended_offset = min(self._appended_offset, ready.truncate_to)
            self._flushed_offset = min(self._flushed_offset, ready.truncate_to)
        for entry in ready.entries:
            batch = _batch(entry)
            self._log.append(batch, self._now_ms())
            self._appended_offset = entry.next_offset
            self._snapshots.appended(len(batch))

    async def _flush(self) -> None:
        """Make the appended batches durable; a single voter has then committed them."""
        end_offset = self._appended_offset
        with _disk_failures():
            await self._disk.fsync(self, self._log.flush)
        self._flushed_offset = end_offset
        self._core.on_flushed(end_offset)
        await self._carry_out(self._machine.take_effects(self._now_ms()))
        await self._write_snapshot_if_due()

    async def _write_snapshot_if_due(self) -> None:
        now_ms, snapshots = self._now_ms(), self._snapshots
        if snapshots.is_due(now_ms):
            snapshots.begin(now_ms)
            snapshot = self._machine.snapshot()
            with _disk_failures():
                await self._disk.run(snapshots.write, snapshot, now_ms)
                snapshots.remove_old(now_ms)
            self._machine.voters_history.trim(snapshot.id.end_offset)


@contextmanager
def _disk_failures() -> Generator[None]:
    """Raise DisksLostError in place of a failure of the quorum's disk."""
    try:
        yield
    except (KafkaError, OSError) as error:
        reason = error.message if isinstance(error, KafkaError) else error
        raise DisksLostError(f"the quorum's log cannot be written: {reason}") from error


def _batch(entry: Entry) -> bytearray:
    if entry.control:
        return control_batch(entry.control, entry.base_offset, entry.epoch, entry.timestamp_ms)
    records = [
        Record(entry.base_offset + delta, entry.timestamp_ms, None, value)
        for delta, value in enumerate(entry.records)
    ]
    return build_batch(records, base_offset=entry.base_offset, leader_epoch=entry.epoch)

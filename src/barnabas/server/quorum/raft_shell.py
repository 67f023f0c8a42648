"""The input and output of the Raft core: its log, its state file, its timer.

One task carries out the effects of the core, in order, and handles the responses to its fetches.
Operations that are submitted during an fsync are appended together and share the next fsync. The
task sleeps until an event wakes it, or a timer of the core or of the controller is due.
"""

import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Protocol

import attrs

from barnabas import tasks
from barnabas.clock import Clock
from barnabas.cluster.controller.controller_state_machine import ControllerStateMachine, Effects
from barnabas.cluster.metadata.image import MetadataImage
from barnabas.cluster.quorum.epoch_history import OffsetAndEpoch
from barnabas.cluster.quorum.metadata_loader import MetadataLoader
from barnabas.cluster.quorum.metadata_snapshot import SnapshotId, control_batch
from barnabas.cluster.quorum.quorum_state import QuorumState
from barnabas.cluster.quorum.raft import RaftCore
from barnabas.cluster.quorum.raft_messages import (
    BeginQuorumEpoch,
    EndQuorumEpoch,
    FetchRequest,
    FetchResponse,
    Outgoing,
    VoteRequest,
    VoteResponse,
)
from barnabas.cluster.quorum.raft_state import Entry, QuorumDataLossError, Ready
from barnabas.protocol.batches.batch_building import build_batch
from barnabas.protocol.batches.record_decoding import Record
from barnabas.protocol.errors import ErrorCode, KafkaError, ProtocolError
from barnabas.server.node_failures import DisksLostError
from barnabas.server.quorum.quorum_files import write_quorum_state

if TYPE_CHECKING:
    from barnabas.cluster.quorum.fetched_batches import FetchedBatch
    from barnabas.cluster.quorum.raft_wire import FetchLimits
    from barnabas.cluster.quorum.snapshot_wire import SnapshotBytes, SnapshotPart
    from barnabas.server.quorum.metadata_log import MetadataLog
    from barnabas.server.quorum.metadata_snapshots import MetadataSnapshots
    from barnabas.server.quorum.snapshot_download import DownloadedSnapshot
    from barnabas.server.storage.disk_threads import DiskThreads

logger = logging.getLogger(__name__)

_SNAPSHOT_BYTES_MAX: Final = 1 << 20
_FETCH_BYTES_MAX: Final = 1 << 17
"""A replica replays all records of a response at once: this is about 30 ms of its loop."""


class QuorumPeers(Protocol):
    """The connections to the other replicas of the quorum."""

    def send(self, message: Outgoing) -> None:
        """Send a message to a voter."""
        ...

    def fetch_snapshot(self, snapshot: OffsetAndEpoch) -> None:
        """Begin to download a snapshot from the leader."""
        ...

    def settled(self) -> None:
        """The effects of the core were carried out: the next fetch may be due."""
        ...


@attrs.frozen
class _Fetched:
    """A response to a fetch, with its records."""

    request: FetchRequest
    response: FetchResponse
    records: bytes


class RaftShell:
    """Drives the controller's state machine and its Raft core.

    `deliver` publishes committed images and answers operations. A replica that does not sync its
    log (`must_sync` is False) can never become a voter.
    """

    def __init__(
        self,
        machine: ControllerStateMachine,
        log: "MetadataLog",
        snapshots: "MetadataSnapshots",
        disk: "DiskThreads",
        *,
        clock: Clock,
        deliver: Callable[[Effects], None],
        peers: QuorumPeers,
        must_sync: bool = True,
    ) -> None:
        self._machine = machine
        self._core: RaftCore = machine.core
        self._log = log
        self._snapshots = snapshots
        self._disk = disk
        self._now_ms = clock.monotonic_ms
        self._deliver = deliver
        self._peers = peers
        self._must_sync = must_sync
        # The core's log end is ahead of the file's while proposals wait to be appended.
        self._appended_offset = self._flushed_offset = self._core.log_end_offset
        self._fetched: _Fetched | None = None
        self.malformed_responses = 0
        """How many responses in a row had records that could not be read."""
        self._downloaded: DownloadedSnapshot | None = None
        self._votes: list[tuple[VoteRequest, tasks.Event, list[VoteResponse]]] = []
        self._woken = tasks.event()
        self._settled = tasks.event()
        self._moved = tasks.event()

    def start(self) -> None:
        """Start the core; a single voter becomes the leader at once."""
        self._core.start(self._now_ms())

    def wake(self) -> None:
        """An event was passed to the core, or an operation was submitted."""
        self._woken.set()

    async def run(self) -> None:
        """Carry out the effects of the core until cancelled.

        Raises DisksLostError when the log cannot be written, or when the leader's log lacks
        committed records; the node must then stop.
        """
        try:
            while True:
                self._woken = tasks.event()
                self._tick()
                await self._settle()
                if self._fetched is not None:
                    self._take_fetched(self._fetched)
                elif self._downloaded is not None:
                    self._install(self._downloaded)
                elif self._flushed_offset < self._appended_offset:
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
        """Wait for an event or a timer."""
        timers = (self._core.wakeup_ms(), self._machine.wakeup_ms())
        wakeup_ms = min((each for each in timers if each is not None), default=None)
        if wakeup_ms is None:
            await self._woken.wait()
            return
        with tasks.move_on_after(max(0, wakeup_ms - self._now_ms()) / 1000):
            await self._woken.wait()

    async def resign(self) -> None:
        """Stop leading, and return once another replica leads."""
        core = self._core
        core.resign(self._now_ms())
        self.wake()
        while core.leader_id in (None, core.local.key.id):
            await self._settled.wait()

    async def wait_committed(self, entry: Entry) -> None:
        """Return when an entry is committed.

        Raises KafkaError NOT_LEADER_OR_FOLLOWER when this replica no longer leads its epoch.
        """
        core = self._core
        while core.high_watermark < entry.next_offset:
            if not core.is_leader or core.epoch != entry.epoch:
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "The leader is another node")
            await self._moved.wait()

    # Effects

    async def _settle(self) -> None:
        """Carry out the effects of the core until there are none."""
        while True:
            effects = self._machine.take_effects(self._now_ms())
            await self._carry_out(effects)
            if effects.ready.quorum_state is None:  # no other task ran meanwhile
                break
        settled, self._settled = self._settled, tasks.event()
        settled.set()
        self._peers.settled()

    async def _carry_out(self, effects: Effects) -> None:
        """Carry out effects, in the order of `Ready`."""
        ready = effects.ready
        with _disk_failures():
            if ready.quorum_state is not None:
                await self._write_state(ready.quorum_state)
            self._write(ready)
        for message in ready.messages:
            if isinstance(message, VoteResponse):
                self._answer_vote(message)
            else:
                self._peers.send(message)
        if ready.leadership is not None:
            leader_id, epoch = ready.leadership
            logger.info("quorum leader=%s epoch=%d", leader_id, epoch)
        if ready.high_watermark is not None:
            self._log.advance_high_watermark(ready.high_watermark)
        if ready.fetch_snapshot is not None:
            self._peers.fetch_snapshot(ready.fetch_snapshot)
        if ready.entries or ready.high_watermark is not None or ready.leadership is not None:
            self._complete_fetches()
        self._deliver(effects)

    async def _write_state(self, state: QuorumState) -> None:
        core = self._core
        voter_ids = tuple(core.voters.voters)
        where = self._log.directory
        await self._disk.run(write_quorum_state, where, state, core.kraft_version, voter_ids)

    def _write(self, ready: Ready) -> None:
        if ready.truncate_to is not None:
            self._log.truncate_to(ready.truncate_to)
            self._appended_offset = min(self._appended_offset, ready.truncate_to)
            self._flushed_offset = min(self._flushed_offset, ready.truncate_to)
            if ready.truncate_to < self._machine.loaded_end_offset:
                self._read_again()
        for entry in ready.entries:
            self._append(_batch(entry), entry.next_offset)

    def _append(self, batch: bytearray, next_offset: int) -> None:
        self._log.append(batch, self._now_ms())
        self._appended_offset = next_offset
        self._snapshots.appended(len(batch))

    async def _flush(self) -> None:
        """Make the appended batches durable; a single voter has then committed them."""
        end_offset = self._appended_offset
        if self._must_sync:
            with _disk_failures():
                await self._disk.fsync(self, self._log.flush)
        self._flushed_offset = end_offset
        self._core.on_flushed(end_offset)
        await self._settle()
        await self._write_snapshot_if_due()

    async def _write_snapshot_if_due(self) -> None:
        now_ms, snapshots = self._now_ms(), self._snapshots
        image = self._machine.image
        is_committed = not image.is_empty and image.offset < self._core.high_watermark
        if is_committed and snapshots.is_due(now_ms):
            snapshots.begin(now_ms)
            snapshot = self._machine.snapshot()
            with _disk_failures():
                await self._disk.run(snapshots.write, snapshot, now_ms)
                log_start = snapshots.remove_old(now_ms)
            if log_start is not None:
                self._core.log.start_from(log_start)
            self._machine.voters_history.trim(snapshot.id.end_offset)

    # Requests of other replicas

    async def vote(self, request: VoteRequest) -> VoteResponse:
        """Return the response to a candidate, once a granted vote is durable."""
        answered, responses = tasks.event(), list[VoteResponse]()
        self._votes.append((request, answered, responses))
        self._core.on_vote_request(request, self._now_ms())
        self.wake()
        await answered.wait()
        return responses[0]

    def _answer_vote(self, response: VoteResponse) -> None:
        for waiting in self._votes:
            request, answered, responses = waiting
            if request is response.request:
                self._votes.remove(waiting)
                responses.append(response)
                answered.set()
                return

    async def follow_announcement(self, request: BeginQuorumEpoch | EndQuorumEpoch) -> ErrorCode:
        """Pass a leader's announcement to the core; return once its effects are durable."""
        core, now_ms = self._core, self._now_ms()
        if isinstance(request, BeginQuorumEpoch):
            error = core.on_begin_quorum_epoch(request, now_ms)
        else:
            error = core.on_end_quorum_epoch(request, now_ms)
        self.wake()
        await self._settled.wait()
        return error

    async def answer_fetch(
        self, request: FetchRequest, limits: "FetchLimits"
    ) -> tuple[FetchResponse, bytes]:
        """Return the response to a replica, and its records.

        It is delayed until there are records or a higher high watermark, as long as the replica
        permits.
        """
        deadline = tasks.current_time() + limits.max_wait_ms / 1000
        while True:
            moved = self._moved
            response = self._core.on_fetch(request, self._now_ms())
            self.wake()
            if not response.has_records:
                return response, b""
            records = self._read(request.offset, limits.max_bytes)
            is_over = tasks.current_time() >= deadline
            if records or is_over or limits.high_watermark < response.high_watermark:
                return response, records
            with tasks.move_on_at(deadline):
                await moved.wait()

    def _read(self, offset: int, max_bytes: int) -> bytes:
        """Return whole batches that are in the file; the core may have more."""
        if offset >= self._appended_offset:
            return b""
        with _disk_failures():
            return self._log.read(offset, min(max_bytes, _FETCH_BYTES_MAX))

    def _complete_fetches(self) -> None:
        """Let the delayed fetches look again."""
        moved, self._moved = self._moved, tasks.event()
        moved.set()

    # Following

    def fetch_request(self) -> FetchRequest | None:
        """Return the fetch to send next; None while none is due.

        All records below its offset are durable.
        """
        if self._fetched is not None or self._flushed_offset < self._appended_offset:
            return None
        return self._core.fetch_request()

    @property
    def high_watermark(self) -> int:
        """The high watermark that this replica knows."""
        return self._core.high_watermark

    def fetched(self, request: FetchRequest, response: FetchResponse, records: bytes) -> None:
        """Pass on the response to a fetch; `fetch_request` is None until it is handled."""
        self._fetched = _Fetched(request, response, records)
        self.wake()

    def _take_fetched(self, fetched: _Fetched) -> None:
        """Handle a response; the log on the disk is as long as the core's at this point."""
        self._fetched = None
        response, core = fetched.response, self._core
        is_outdated = core.fetch_request() != fetched.request
        if is_outdated and response.error is ErrorCode.NONE:
            return  # the log or the epoch has changed since the request
        try:
            may_append = core.on_fetch_response(response, self._now_ms())
        except QuorumDataLossError as error:
            raise DisksLostError(str(error)) from error
        if may_append and fetched.records:
            self._append_fetched(fetched)

    def _append_fetched(self, fetched: _Fetched) -> None:
        from barnabas.cluster.quorum.fetched_batches import read_fetched

        try:
            batches = read_fetched(fetched.records, fetched.request.offset, fetched.request.epoch)
        except (ProtocolError, KafkaError) as error:
            if not self.malformed_responses:
                logger.error(
                    "ignoring a malformed response of the leader leader=%s offset=%d error=%s",
                    fetched.request.to,
                    fetched.request.offset,
                    error,
                )
            self.malformed_responses += 1
            return
        self.malformed_responses = 0
        with _disk_failures():
            for batch in batches:
                self._append(batch.data, batch.entry.next_offset)
        self._replicate(batches, fetched.response.high_watermark)

    def _replicate(self, batches: "list[FetchedBatch]", high_watermark: int) -> None:
        self._machine.replicate(batch.entry for batch in batches)
        ends = (
            (each.entry.epoch, each.entry.base_offset, each.entry.next_offset) for each in batches
        )
        self._core.on_appended(ends, high_watermark)

    # Snapshots of the leader

    def answer_snapshot(self, part: "SnapshotPart") -> "SnapshotBytes":
        """Return the bytes of a snapshot that another replica asks for."""
        from barnabas.cluster.quorum.snapshot_wire import SnapshotBytes

        error = self._core.on_fetch_snapshot(part.replica, part.epoch, self._now_ms())
        self.wake()
        if error is not ErrorCode.NONE:
            return SnapshotBytes(error)
        found = None
        if part.snapshot.offset > 0:  # the bootstrap snapshot is not replicated
            snapshot_id = SnapshotId(part.snapshot.offset, part.snapshot.epoch)
            max_bytes = min(part.max_bytes, _SNAPSHOT_BYTES_MAX)
            found = self._log.snapshot_part(snapshot_id, part.position, max_bytes)
        if found is None:
            return SnapshotBytes(ErrorCode.SNAPSHOT_NOT_FOUND)
        size, data = found
        if not 0 <= part.position < size:
            return SnapshotBytes(ErrorCode.POSITION_OUT_OF_RANGE)
        return SnapshotBytes(ErrorCode.NONE, size, data)

    def snapshot_downloaded(self, downloaded: "DownloadedSnapshot") -> None:
        """A snapshot of the leader is complete on the disk."""
        if self._downloaded is not None:
            self._remove(self._downloaded)
        self._downloaded = downloaded
        self.wake()

    def snapshot_failed(self) -> None:
        """A snapshot could not be downloaded."""
        self._core.on_snapshot_failed()
        self.wake()

    def _install(self, downloaded: "DownloadedSnapshot") -> None:
        """Replace the log and the metadata by a downloaded snapshot.

        A snapshot that the core no longer waits for is removed.
        """
        self._downloaded = None
        snapshot = downloaded.id
        if self._core.snapshot_in_progress != snapshot:
            self._remove(downloaded)
            return
        with _disk_failures():
            downloaded.install()
            self._log.restart_at(snapshot.offset)
        self._appended_offset = self._flushed_offset = snapshot.offset
        loader = self._read_again()
        self._core.on_snapshot_installed(snapshot, loader.history.latest)
        logger.info("installed snapshot offset=%d epoch=%d", snapshot.offset, snapshot.epoch)

    def _remove(self, downloaded: "DownloadedSnapshot") -> None:
        with _disk_failures():
            downloaded.remove()

    def _read_again(self) -> MetadataLoader:
        """Rebuild the metadata from the files."""
        empty = MetadataImage(cluster_id=self._machine.image.cluster_id)
        loader = self._log.read_again(empty)
        self._machine.install(loader)
        return loader


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

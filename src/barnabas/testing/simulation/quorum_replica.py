"""A replica of the metadata quorum in the simulation: its disk, and its shell around the cores.

The shell carries out the effects of the cores in the order of `Ready`, as `server.quorum` does with
real files and sockets. A crash may come before each effect.
"""

from collections.abc import Callable
from typing import Any

import attrs

from barnabas.cluster.controller.controller import Controller, ControllerRequest
from barnabas.cluster.controller.controller_state_machine import (
    CommittedBatch,
    ControllerStateMachine,
    Effects,
)
from barnabas.cluster.metadata.image import MetadataImage
from barnabas.cluster.quorum.epoch_history import OffsetAndEpoch
from barnabas.cluster.quorum.metadata_snapshot import SnapshotId
from barnabas.cluster.quorum.quorum_state import QuorumState
from barnabas.cluster.quorum.raft import RaftCore
from barnabas.cluster.quorum.raft_messages import (
    BeginQuorumEpoch,
    EndQuorumEpoch,
    FetchRequest,
    Outgoing,
    VoteRequest,
    VoteResponse,
)
from barnabas.cluster.quorum.raft_state import Entry, Timeouts
from barnabas.cluster.quorum.snapshot_wire import SnapshotPart
from barnabas.cluster.quorum.voters import ReplicaKey, Voter
from barnabas.config import NodeConfig
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.types import Uuid
from barnabas.testing.simulation.network import Failure, Network, Respond
from barnabas.testing.simulation.quorum_disk import CLUSTER_ID, QuorumDisk
from barnabas.testing.simulation.quorum_fetches import EpochStated, FetchAnswers, FetchedEntries
from barnabas.testing.simulation.rare_states import RareState
from barnabas.testing.simulation.snapshot_downloads import SnapshotDownloads, read_part
from barnabas.testing.simulation.voter_operations import KraftVersions, VoterOperations
from barnabas.testing.simulation.voter_upkeep_driver import (
    VoterRequest,
    VoterUpkeep,
    endpoint_of,
    submit_request,
)
from barnabas.testing.simulation.world import Process

REQUEST_TIMEOUT_MS = 2_000


@attrs.frozen(slots=True, kw_only=True)
class ReplicaSettings:
    """The settings of one replica.

    `bootstrap_servers` has the ids of the nodes that it asks for the leader. A replica that does
    not sync its log (`must_sync` is False) can never become a voter. A snapshot is written after
    `snapshot_entries` entries, and the last `kept_snapshots` are kept.
    """

    bootstrap_servers: tuple[int, ...]
    must_sync: bool
    snapshot_entries: int = 1_000
    kept_snapshots: int = 2
    part_bytes: int = 4_000
    has_upkeep: bool = False
    """True for a controller that joins the voters, and keeps its entry among them current."""


class ReplicaObserver:
    """An observer of the effects of replicas; it checks the invariants."""

    def state_written(self, replica: "QuorumReplica", old: QuorumState, new: QuorumState) -> None:
        """The state file changed."""

    def fetching(self, replica: "QuorumReplica", request: FetchRequest) -> None:
        """A fetch is about to be sent."""

    def led(self, replica: "QuorumReplica") -> None:
        """Effects were carried out while the replica led."""

    def vote_granted(self, replica: "QuorumReplica", epoch: int, candidate: int) -> None:
        """A standard vote was sent."""

    def high_watermark_raised(self, replica: "QuorumReplica", offset: int) -> None:
        """The replica knows that all records below `offset` are committed."""

    def truncated(self, replica: "QuorumReplica", offset: int) -> None:
        """The replica removed the records from `offset` on."""

    def published(self, replica: "QuorumReplica", batch: CommittedBatch) -> None:
        """The replica published a committed batch."""

    def snapshot_written(self, replica: "QuorumReplica", snapshot: SnapshotId) -> None:
        """The replica wrote a snapshot of its committed metadata."""


class QuorumReplica:
    """One replica: core, state machine, disk, and the requests between replicas."""

    def __init__(
        self,
        process: Process,
        network: Network,
        disk: QuorumDisk,
        settings: ReplicaSettings,
        observer: ReplicaObserver,
        *,
        config: NodeConfig,
    ) -> None:
        self.process = process
        self.network = network
        self.disk = disk
        self.settings = settings
        self.observer = observer
        self.config = config
        self.core: RaftCore
        self.machine: ControllerStateMachine
        self.publish: Callable[[CommittedBatch], None] = _ignore
        self._votes: dict[VoteRequest, Respond] = {}
        self._fetch_in_flight: FetchRequest | None = None
        self._fetch_failures = 0
        self._timer = 0
        self._flushing = False
        self._entries = 0  # since the last snapshot
        self._fetches: FetchAnswers
        self._downloads: SnapshotDownloads
        self._voter_operations: VoterOperations

    # A life

    def start(self) -> None:
        """Load the disk and take part in the quorum."""
        process = self.process
        self._build_cores()
        self._votes, self._fetch_in_flight = {}, None
        self._flushing, self._entries = False, 0
        self._fetches = FetchAnswers(process, self.core, self.disk, self.settle)
        self._voter_operations = VoterOperations(
            process, self.network, self.core, self.machine.reported_voters, self.settle
        )
        self._downloads = SnapshotDownloads(
            process,
            self.network,
            self.core,
            part_bytes=self.settings.part_bytes,
            install=self._install,
            settle=self.settle,
        )
        if self.settings.has_upkeep:
            VoterUpkeep(process, self.network, self.core)
        self.network.serve(process, "controller", self._handle)
        self.core.start(process.now_ms)
        self.settle()

    def _build_cores(self) -> None:
        """Build the cores from the disk, as `Quorum` does."""
        random = self.process.world.random
        loader = self.disk.load(MetadataImage(cluster_id=CLUSTER_ID))
        stated = loader.history.latest
        self.core = core = RaftCore(
            local=Voter(self.key, (endpoint_of(self.process, moves=self.settings.has_upkeep),)),
            voters=stated.voters,
            voters_offset=stated.offset,
            kraft_version=stated.kraft_version,
            state=self.disk.state,
            log=loader.epochs,
            random=random.randrange,
            timeouts=Timeouts(),
        )
        controller = Controller(
            lambda: self.config, self._new_id, random.randrange, lambda: core.kraft_version
        )
        image = loader.image()
        self.machine = ControllerStateMachine(
            core,
            controller,
            image,
            timestamp_ms=loader.last_timestamp_ms,
            bootstrap=[] if image.features else self.disk.bootstrap,
            open_transaction=loader.open_transaction,
            voters_history=loader.history,
        )

    @property
    def key(self) -> ReplicaKey:
        """The key of the replica: another disk makes it another replica."""
        return ReplicaKey(self.process.node_id, self.disk.directory_id)

    @property
    def committed_offset(self) -> int:
        """The offset of the metadata that are known to be committed, or -1."""
        offset = self.machine.image.offset
        return offset if offset < self.core.high_watermark else -1

    def _new_id(self) -> Uuid:
        return Uuid(self.process.world.random.randbytes(16))

    def submit(self, request: ControllerRequest, version: int, respond: Respond) -> None:
        """Have the controller decide a request; `respond` takes the response or a KafkaError."""
        try:
            self.machine.submit(request, version, respond, self.process.now_ms)
        except KafkaError as error:
            respond(error)
            return
        self.settle()

    @property
    def is_leader(self) -> bool:
        """True when the replica believes that it leads the quorum."""
        return self.core.is_leader

    def resign(self) -> None:
        """Stop leading."""
        self.core.resign(self.process.now_ms)
        self.settle()

    # Effects

    def settle(self) -> None:
        """Carry out the effects of the cores, and set the timer and the next fetch."""
        self._carry_out(self.machine.take_effects(self.process.now_ms))
        self._flush_later()
        self._set_timer()
        self._fetch()

    def _carry_out(self, effects: Effects) -> None:
        ready, disk, process = effects.ready, self.disk, self.process
        if ready.quorum_state is not None:
            process.effect()
            self.observer.state_written(self, disk.state, ready.quorum_state)
            disk.state = ready.quorum_state
        if ready.truncate_to is not None:
            process.effect()
            self.observer.truncated(self, ready.truncate_to)
            disk.truncate(ready.truncate_to)
            if ready.truncate_to < self.machine.loaded_end_offset:
                self.machine.install(disk.load(MetadataImage(cluster_id=CLUSTER_ID)))
        for entry in ready.entries:
            process.effect()
            disk.entries.append(entry)
        self._entries += len(ready.entries)
        for message in ready.messages:
            process.effect()
            self._send(message)
        if self.core.is_leader:
            self.observer.led(self)
        if ready.high_watermark is not None:
            self.observer.high_watermark_raised(self, ready.high_watermark)
        if ready.fetch_snapshot is not None:
            self._downloads.begin(ready.fetch_snapshot)
        for batch in effects.committed:
            self.observer.published(self, batch)
            self.publish(batch)
        for completion in effects.completions:
            process.effect()
            respond: Any = completion.token
            respond(completion.outcome)
        self._voter_operations.settled()
        self._fetches.look_again()

    def _flush_later(self) -> None:
        is_behind = self.settings.must_sync and self.disk.synced < len(self.disk.entries)
        if is_behind and not self._flushing:
            self._flushing = True
            low, high = self.disk.fsync_ms
            delay_ms = low + self.process.world.random.random() * (high - low)
            self.process.after_ms(delay_ms, self._flushed, self.disk.end_offset)

    def _flushed(self, end_offset: int) -> None:
        disk = self.disk
        self._flushing = False
        disk.synced = max(disk.synced, disk.index_of(min(end_offset, disk.end_offset)))
        self.core.on_flushed(disk.synced_end)
        self.settle()
        self._write_snapshot_if_due()

    # Snapshots

    def _write_snapshot_if_due(self) -> None:
        is_due = self._entries >= self.settings.snapshot_entries
        if not is_due or self.committed_offset < 0 or self.machine.image.is_empty:
            return
        self._entries = 0
        snapshot = self.machine.snapshot()
        self.process.effect()
        self.disk.write_snapshot(snapshot, self.process.now_ms)
        self.observer.snapshot_written(self, snapshot.id)
        self.process.effect()
        log_start = self.disk.remove_old(self.settings.kept_snapshots)
        if log_start is not None:
            self.core.log.start_from(log_start)
        self.machine.voters_history.trim(snapshot.id.end_offset)

    def _install(self, snapshot: OffsetAndEpoch, content: bytes) -> None:
        """Replace the log and the metadata by a downloaded snapshot."""
        process, disk = self.process, self.disk
        process.world.note(process, "installs the snapshot at", snapshot.offset)
        process.world.rare.reached(RareState.SNAPSHOT_FETCHED)
        process.effect()
        disk.snapshots[SnapshotId(snapshot.offset, snapshot.epoch)] = content
        process.effect()
        disk.restart_at(snapshot.offset)
        loader = disk.load(MetadataImage(cluster_id=CLUSTER_ID))
        self.machine.install(loader)
        self.core.on_snapshot_installed(snapshot, loader.history.latest)

    def _set_timer(self) -> None:
        times = (self.core.wakeup_ms(), self.machine.wakeup_ms())
        due = min((each for each in times if each is not None), default=None)
        self._timer += 1
        if due is not None:
            self.process.after_ms(max(0, due - self.process.now_ms), self._tick, self._timer)

    def _tick(self, timer: int) -> None:
        if timer != self._timer:
            return
        now_ms = self.process.now_ms
        for timed in (self.core, self.machine):
            due = timed.wakeup_ms()
            if due is not None and due <= now_ms:
                timed.tick(now_ms)
        self.settle()

    # Requests to other replicas

    def _send(self, message: Outgoing) -> None:
        if isinstance(message, VoteResponse):
            if message.granted and not message.request.pre_vote:
                candidate = message.request.candidate.id
                self.observer.vote_granted(self, message.epoch, candidate)
            respond = self._votes.pop(message.request, None)
            if respond is not None:
                respond(message)
            return
        on_response = self._take_vote if isinstance(message, VoteRequest) else self._take_epoch
        self._ask(message.to, message, on_response, message)

    def _ask(self, to: int, request: Any, on_response: Any, message: Outgoing | None) -> None:
        def fail(failure: Failure) -> None:
            if isinstance(message, VoteRequest) and failure is Failure.TOO_OLD:
                self._take_old_voter(message)
                return
            if message is not None:
                self.core.on_request_failed(message, self.process.now_ms)
            self._note_failure(to, failure)
            self.settle()

        self.network.ask(
            self.process,
            to,
            "controller",
            request,
            on_response,
            fail,
            purpose="raft",
            timeout_ms=REQUEST_TIMEOUT_MS,
        )

    def _note_failure(self, to: int, failure: Failure) -> None:
        """A refused connection to the leader shows that its process has ended."""
        if failure is Failure.REFUSED and to == self.core.leader_id:
            self.core.on_leader_unreachable(self.process.now_ms)

    def _take_vote(self, response: VoteResponse) -> None:
        self.core.on_vote_response(response, self.process.now_ms)
        self.settle()

    def _take_old_voter(self, message: VoteRequest) -> None:
        """Count a voter whose version has no pre-votes as one that grants them (`RaftPeers`)."""
        self.process.world.rare.reached(RareState.VOTER_WITHOUT_PRE_VOTES)
        self._take_vote(VoteResponse(message, message.to, message.epoch, None, True))

    def _take_epoch(self, stated: EpochStated) -> None:
        self.core.on_epoch(stated.epoch, stated.leader_id, self.process.now_ms)
        self.settle()

    # Fetching

    def _fetch(self) -> None:
        if self._fetch_in_flight is not None:
            return
        request = self.core.fetch_request()
        if request is None:
            return
        self.observer.fetching(self, request)
        to = self._destination(request)
        if to is None:
            return
        self._fetch_in_flight = request

        def fail(failure: Failure) -> None:
            self._fetch_in_flight = None
            self._fetch_failures += 1
            self._note_failure(to, failure)
            self.process.after_ms(20, self.settle)

        self.network.ask(
            self.process,
            to,
            "controller",
            (request, self.core.high_watermark),
            self._take_fetched,
            fail,
            purpose="raft-fetch",
            timeout_ms=REQUEST_TIMEOUT_MS,
        )

    def _destination(self, request: FetchRequest) -> int | None:
        """Return the leader; after failures, each second time another server (`RaftPeers`)."""
        if request.to is not None and self._fetch_failures % 2 == 0:
            return request.to
        known = {*self.core.voters.voters, *self.settings.bootstrap_servers}
        others = sorted(known - {self.process.node_id})
        return self.process.world.random.choice(others) if others else None

    def _take_fetched(self, fetched: FetchedEntries) -> None:
        core, request, response = self.core, self._fetch_in_flight, fetched.response
        self._fetch_in_flight = None
        is_answered = response.error is ErrorCode.NONE
        self._fetch_failures = 0 if is_answered else self._fetch_failures + 1
        if core.fetch_request() != request and response.error is ErrorCode.NONE:
            self.settle()
            return
        may_append = core.on_fetch_response(response, self.process.now_ms)
        if may_append and fetched.entries:
            self._append(fetched.entries, response.high_watermark)
            return
        if response.error is ErrorCode.NONE:
            self.settle()
        else:
            self._carry_out(self.machine.take_effects(self.process.now_ms))
            self._set_timer()
            self.process.after_ms(20, self.settle)

    def _append(self, entries: tuple[Entry, ...], high_watermark: int) -> None:
        """Append and fsync entries of the leader before the next fetch reports them."""
        self.process.effect()
        self.disk.entries += entries
        self._entries += len(entries)
        if self.settings.must_sync:
            self.process.effect()
            self.disk.synced = len(self.disk.entries)
        self.machine.replicate(entries)
        batches = [(entry.epoch, entry.base_offset, entry.next_offset) for entry in entries]
        self.core.on_appended(batches, high_watermark)
        self.settle()
        self._write_snapshot_if_due()

    # Answering

    def _handle(self, request: Any, respond: Respond) -> None:
        core, now_ms = self.core, self.process.now_ms
        match request:
            case (FetchRequest() as fetch, int(high_watermark)):
                self._fetches.answer(fetch, high_watermark, respond)
                return
            case VoteRequest():
                self._votes[request] = respond
                core.on_vote_request(request, now_ms)
            case BeginQuorumEpoch():
                self._answer_announcement(core.on_begin_quorum_epoch(request, now_ms), respond)
                return
            case EndQuorumEpoch():
                self._answer_announcement(core.on_end_quorum_epoch(request, now_ms), respond)
                return
            case SnapshotPart():
                respond(read_part(core, self.disk, request, now_ms))
                self.settle()
                return
            case _ if isinstance(request, VoterRequest):
                submit_request(self._voter_operations, request, respond)
                self.settle()
                return
            case KraftVersions():
                respond((0, 1))
                return
            case (operation, int(version)):
                self.submit(operation, version, respond)
                return
            case _:
                raise TypeError(f"{type(request).__name__} cannot be sent to a controller")
        self.settle()

    def _answer_announcement(self, error: ErrorCode, respond: Respond) -> None:
        self.settle()
        respond(EpochStated(error, self.core.epoch, self.core.leader_id))


def _ignore(_: object) -> None:
    """Do nothing."""

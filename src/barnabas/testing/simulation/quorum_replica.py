"""A replica of the metadata quorum in the simulation: its disk, and its shell around the cores.

The shell carries out the effects of the cores in the order of `Ready`, as `server.quorum` does with
real files and sockets. A crash may come before each effect.
"""

from collections import deque
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
from barnabas.cluster.quorum.epoch_history import EpochHistory
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
from barnabas.cluster.quorum.raft_state import Entry, Timeouts
from barnabas.cluster.quorum.voters import ReplicaKey, Voter, VoterSet
from barnabas.config import NodeConfig
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages_base import Message
from barnabas.protocol.types import Uuid
from barnabas.testing.simulation.network import Failure, Network, Respond
from barnabas.testing.simulation.world import Process

CLUSTER_ID = "simulated-cluster-0000"
REQUEST_TIMEOUT_MS = 2_000
FETCH_WAIT_MS = 500
RESPONSE_BATCHES_MAX = 50


@attrs.define(slots=True, eq=False)
class QuorumDisk:
    """The quorum's files of one directory; `synced` entries survive a loss of power."""

    directory_id: Uuid
    state: QuorumState = attrs.field(factory=QuorumState)
    entries: list[Entry] = attrs.field(factory=list[Entry])
    synced: int = 0
    fsync_ms: tuple[float, float] = (0.2, 2.0)

    @property
    def end_offset(self) -> int:
        """The offset after the last entry."""
        return self.entries[-1].next_offset if self.entries else 0

    def truncate(self, offset: int) -> None:
        """Remove the entries from `offset` on."""
        while self.entries and self.entries[-1].base_offset >= offset:
            self.entries.pop()
        self.synced = min(self.synced, len(self.entries))

    def read(self, offset: int, count: int) -> list[Entry]:
        """Return at most `count` entries from `offset` on."""
        low, high = 0, len(self.entries)
        while low < high:
            middle = (low + high) // 2
            if self.entries[middle].base_offset < offset:
                low = middle + 1
            else:
                high = middle
        return self.entries[low : low + count]

    def lose_power(self, keep: int) -> None:
        """Lose entries that were not synced; `keep` of them are on the disk by chance."""
        del self.entries[self.synced + keep :]
        self.synced = len(self.entries)

    def history(self) -> EpochHistory:
        """Return where each epoch begins."""
        starts: list[tuple[int, int]] = []
        for entry in self.entries:
            if not starts or entry.epoch > starts[-1][0]:
                starts.append((entry.epoch, entry.base_offset))
        return EpochHistory(starts, self.end_offset)


@attrs.frozen(slots=True)
class FetchedEntries:
    """The response of a replica to a Fetch, with the entries that follow the fetch offset."""

    response: FetchResponse
    entries: tuple[Entry, ...]


@attrs.define(slots=True, eq=False)
class _ParkedFetch:
    """A fetch that waits for an append or for the high watermark."""

    request: FetchRequest
    high_watermark: int
    respond: Respond
    is_over: bool = False


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


class QuorumReplica:
    """One replica: core, state machine, disk, and the requests between replicas."""

    def __init__(
        self,
        process: Process,
        network: Network,
        disk: QuorumDisk,
        voters: VoterSet,
        observer: ReplicaObserver,
        *,
        config: NodeConfig,
        bootstrap: list[Message],
    ) -> None:
        self.process = process
        self.network = network
        self.disk = disk
        self.voters = voters
        self.observer = observer
        self.config = config
        self.bootstrap = bootstrap
        self.core: RaftCore
        self.machine: ControllerStateMachine
        self.publish: Callable[[CommittedBatch], None] = _ignore
        self._votes: dict[VoteRequest, Respond] = {}
        self._parked: deque[_ParkedFetch] = deque()
        self._fetch_in_flight: FetchRequest | None = None
        self._timer = 0
        self._flushing = False

    # A life

    def start(self) -> None:
        """Load the disk and take part in the quorum."""
        world, process = self.process.world, self.process
        node_id = process.node_id
        local = self.voters.voters.get(node_id)
        self.core = RaftCore(
            local=local or Voter(ReplicaKey(node_id, self.disk.directory_id)),
            voters=self.voters,
            voters_offset=-1,
            kraft_version=1,
            state=self.disk.state,
            log=self.disk.history(),
            random=world.random.randrange,
            timeouts=Timeouts(),
        )
        core = self.core
        controller = Controller(
            lambda: self.config, self._new_id, world.random.randrange, lambda: core.kraft_version
        )
        image = MetadataImage(cluster_id=CLUSTER_ID)
        self.machine = ControllerStateMachine(core, controller, image, bootstrap=self.bootstrap)
        self.machine.replicate(self.disk.entries)
        self._votes, self._fetch_in_flight = {}, None
        self._parked.clear()
        self._flushing = False
        self.network.serve(process, "controller", self._handle)
        core.start(process.now_ms)
        self.settle()

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
        for entry in ready.entries:
            process.effect()
            disk.entries.append(entry)
        for message in ready.messages:
            process.effect()
            self._send(message)
        if self.core.is_leader:
            self.observer.led(self)
        if ready.high_watermark is not None:
            self.observer.high_watermark_raised(self, ready.high_watermark)
        for batch in effects.committed:
            self.observer.published(self, batch)
            self.publish(batch)
        for completion in effects.completions:
            process.effect()
            respond: Any = completion.token
            respond(completion.outcome)
        self._complete_parked()

    def _flush_later(self) -> None:
        if not self._flushing and self.disk.synced < len(self.disk.entries):
            self._flushing = True
            low, high = self.disk.fsync_ms
            delay_ms = low + self.process.world.random.random() * (high - low)
            self.process.after_ms(delay_ms, self._flushed, len(self.disk.entries))

    def _flushed(self, count: int) -> None:
        self._flushing = False
        self.disk.synced = max(self.disk.synced, min(count, len(self.disk.entries)))
        end_offset = self.disk.entries[self.disk.synced - 1].next_offset if self.disk.synced else 0
        self.core.on_flushed(end_offset)
        self.settle()

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
        on_response = self._take_vote if isinstance(message, VoteRequest) else _ignore
        self._ask(message.to, message, on_response, message)

    def _ask(self, to: int, request: Any, on_response: Any, message: Outgoing | None) -> None:
        def fail(failure: Failure) -> None:
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

    # Fetching

    def _fetch(self) -> None:
        if self._fetch_in_flight is not None:
            return
        request = self.core.fetch_request()
        if request is None:
            return
        self.observer.fetching(self, request)
        to = request.to
        if to is None:
            others = [key.id for key in self.voters.replica_keys if key.id != self.process.node_id]
            if not others:
                return
            to = self.process.world.random.choice(others)
        self._fetch_in_flight = request

        def fail(failure: Failure) -> None:
            self._fetch_in_flight = None
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

    def _take_fetched(self, fetched: FetchedEntries) -> None:
        core, request, response = self.core, self._fetch_in_flight, fetched.response
        self._fetch_in_flight = None
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
        self.process.effect()
        self.disk.synced = len(self.disk.entries)
        self.machine.replicate(entries)
        batches = [(entry.epoch, entry.base_offset, entry.next_offset) for entry in entries]
        self.core.on_appended(batches, high_watermark)
        self.settle()

    # Answering

    def _handle(self, request: Any, respond: Respond) -> None:
        core, now_ms = self.core, self.process.now_ms
        match request:
            case (FetchRequest() as fetch, int(high_watermark)):
                self._answer_fetch(fetch, high_watermark, respond)
                return
            case VoteRequest():
                self._votes[request] = respond
                core.on_vote_request(request, now_ms)
            case BeginQuorumEpoch():
                core.on_begin_quorum_epoch(request, now_ms)
            case EndQuorumEpoch():
                core.on_end_quorum_epoch(request, now_ms)
            case (operation, int(version)):
                self.submit(operation, version, respond)
                return
            case _:
                raise TypeError(f"{type(request).__name__} cannot be sent to a controller")
        self.settle()
        if not isinstance(request, VoteRequest):
            respond(None)

    def _answer_fetch(self, request: FetchRequest, high_watermark: int, respond: Respond) -> None:
        response = self.core.on_fetch(request, self.process.now_ms)
        self.settle()
        if response.has_records and self._must_wait(request, high_watermark):
            parked = _ParkedFetch(request, high_watermark, respond)
            self._parked.append(parked)
            self.process.after_ms(FETCH_WAIT_MS, self._end_wait, parked)
            return
        self._respond(request, response, respond)

    def _must_wait(self, request: FetchRequest, high_watermark: int) -> bool:
        core = self.core
        return (
            core.is_leader
            and request.epoch == core.epoch
            and request.offset >= self.disk.end_offset
            and core.leader_high_watermark <= high_watermark
        )

    def _complete_parked(self) -> None:
        for _ in range(len(self._parked)):
            parked = self._parked.popleft()
            if parked.is_over:
                continue
            if self._must_wait(parked.request, parked.high_watermark):
                self._parked.append(parked)
            else:
                self._answer_parked(parked)

    def _end_wait(self, parked: _ParkedFetch) -> None:
        if not parked.is_over:
            self._answer_parked(parked)

    def _answer_parked(self, parked: _ParkedFetch) -> None:
        parked.is_over = True
        response = self.core.on_fetch(parked.request, self.process.now_ms)
        self._respond(parked.request, response, parked.respond)
        self.process.after_ms(0, self.settle)

    def _respond(self, request: FetchRequest, response: FetchResponse, respond: Respond) -> None:
        entries: list[Entry] = []
        if response.has_records:
            count = self.process.world.random.randrange(1, RESPONSE_BATCHES_MAX)
            entries = self.disk.read(request.offset, count)
        respond(FetchedEntries(response, tuple(entries)))


def _ignore(_: object) -> None:
    """Do nothing."""

"""A simulated quorum in one thread: cores, disks that lose unsynced records, a faulty network.

One seed determines everything. Checkers run at every step: at most one leader in an epoch over all
lives (R1), the state file never loses information (R2), a committed record never changes, a leader
holds every committed record. Requests that get lost time out at their sender, as connections do.
"""

import heapq
import random
from collections.abc import Callable
from typing import Any

from barnabas.cluster.quorum.epoch_history import EpochHistory
from barnabas.cluster.quorum.quorum_state import QuorumState
from barnabas.cluster.quorum.raft import RaftCore
from barnabas.cluster.quorum.raft_messages import (
    BeginQuorumEpoch,
    EndQuorumEpoch,
    FetchRequest,
    FetchResponse,
    VoteRequest,
    VoteResponse,
)
from barnabas.cluster.quorum.raft_state import Entry, Ready, Timeouts
from barnabas.cluster.quorum.voter_changes import add_voter, remove_voter
from barnabas.cluster.quorum.voters import ReplicaKey, Voter, VoterSet
from barnabas.cluster.quorum.voters_history import VotersHistory
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.records.control_records import VotersRecord
from tests.cluster.states import uuid

TIMEOUTS = Timeouts(election_ms=1000, fetch_ms=2000, backoff_max_ms=1000)
FETCH_MS = 100
REQUEST_TIMEOUT_MS = 2000


class Replica:
    """One node: its disk, and its core while it runs."""

    def __init__(self, node_id: int) -> None:
        self.id = node_id
        self.state = QuorumState()
        self.log: list[Entry] = []
        self.synced = 0  # entries that survive a loss of power
        self.core: RaftCore | None = None
        self.life = 0
        self.history: VotersHistory | None = None

    @property
    def synced_end_offset(self) -> int:
        return self.log[self.synced - 1].next_offset if self.synced else 0

    @property
    def end_offset(self) -> int:
        return self.log[-1].next_offset if self.log else 0


class Simulation:
    """Runs `size` voters; `loss` is the probability that a message gets lost."""

    def __init__(
        self,
        seed: int,
        size: int = 3,
        loss: float = 0.0,
        core_type: type[RaftCore] = RaftCore,
        sync_chance: float = 1.0,
        spare: int = 0,
    ) -> None:
        """Make a simulation; `spare` replicas are observers at first."""
        self.random = random.Random(seed)
        self.core_type = core_type
        self.now_ms = 0
        self.loss = loss
        self.sync_chance = sync_chance
        self.cut: set[int] = set()
        self.replicas = {node: Replica(node) for node in range(1, size + spare + 1)}
        self.locals = {node: Voter(ReplicaKey(node, uuid(node))) for node in self.replicas}
        self.voters = VoterSet.of(*(self.locals[node] for node in range(1, size + 1)))
        self.committed: list[Entry] = []
        self.leaders: dict[int, int] = {}
        self.votes: dict[tuple[int, int], int] = {}
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._number = 0
        for node in self.replicas:
            self.start(node)

    # Driving

    def at(self, delay_ms: int, action: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._events, (self.now_ms + delay_ms, self._number, action))

    def run(self, for_ms: int) -> None:
        end = self.now_ms + for_ms
        while self._events and self._events[0][0] <= end:
            self.now_ms, _, action = heapq.heappop(self._events)
            action()
        self.now_ms = end

    def start(self, node: int) -> None:
        replica = self.replicas[node]
        starts: list[tuple[int, int]] = []
        for entry in replica.log:
            if not starts or entry.epoch > starts[-1][0]:
                starts.append((entry.epoch, entry.base_offset))
        replica.life += 1
        replica.history = VotersHistory(self.voters, 1)
        for entry in replica.log:
            replica.history.take(entry.control, entry.base_offset)
        stated = replica.history.latest
        replica.core = self.core_type(
            local=self.locals[node],
            voters=stated.voters,
            voters_offset=stated.offset,
            kraft_version=1,
            state=replica.state,
            log=EpochHistory(starts, replica.end_offset),
            random=self.random.randrange,
            timeouts=TIMEOUTS,
        )
        replica.core.use_voters(stated)
        replica.core.start(self.now_ms)
        self.settle(replica)
        life = replica.life
        self.at(self.random.randrange(FETCH_MS), lambda: self._beat(replica, life))

    def crash(self, node: int) -> None:
        """Stop a node with a loss of power: its unsynced records are gone."""
        replica = self.replicas[node]
        replica.core = None
        replica.life += 1
        del replica.log[replica.synced :]

    def propose(self, value: bytes) -> bool:
        """Let the leader append a record; return False without a leader."""
        for replica in self.replicas.values():
            if replica.core and replica.core.is_leader and replica.id not in self.cut:
                replica.core.propose([value], self.now_ms)
                self.settle(replica)
                return True
        return False

    def _beat(self, replica: Replica, life: int) -> None:
        """Advance a node: its timer, its fsync, its next fetch."""
        core = replica.core
        if core is None or replica.life != life:
            return
        self._check_stated_voters(replica, core)
        wakeup = core.wakeup_ms()
        if wakeup is not None and wakeup <= self.now_ms:
            core.tick(self.now_ms)
        self.settle(replica)
        if self.random.random() < self.sync_chance:
            self._sync(replica)
        request = core.fetch_request()
        if request is not None:
            to = request.to
            if to is None:  # a bootstrap server
                to = self.random.choice([node for node in self.replicas if node != replica.id])
            self.send(replica.id, to, lambda receiver: self._answer_fetch(receiver, request))
        self.at(FETCH_MS, lambda: self._beat(replica, life))

    def _sync(self, replica: Replica) -> None:
        replica.synced = len(replica.log)
        if replica.core:
            replica.core.on_flushed(replica.end_offset)
            self.settle(replica)

    # The shell of each node

    def settle(self, replica: Replica) -> None:
        """Carry out the effects of the core, in their order."""
        core = replica.core
        if core is None:
            return
        ready = self.take_ready(replica, core)
        if ready.quorum_state is not None:
            self._check_state(replica, ready.quorum_state)
            replica.state = ready.quorum_state
        if ready.truncate_to is not None:
            while replica.log and replica.log[-1].base_offset >= ready.truncate_to:
                replica.log.pop()
            replica.synced = min(replica.synced, len(replica.log))
            self.truncated(replica, core, ready.truncate_to)
            assert replica.end_offset == ready.truncate_to
        replica.log += ready.entries
        for entry in ready.entries:
            self._check_voters(replica, entry)
            self._follow_voters(replica, entry)
        assert replica.end_offset == core.log_end_offset
        if core.is_leader:
            self._check_leader(replica, core)
        if ready.high_watermark is not None:
            self._check_committed(replica, ready.high_watermark)
        for message in ready.messages:
            self._send(replica, message)

    def take_ready(self, replica: Replica, core: RaftCore) -> Ready:
        return core.take_ready()

    def _check_leader(self, replica: Replica, core: RaftCore) -> None:
        assert self.leaders.setdefault(core.epoch, replica.id) == replica.id, "two leaders"
        held = replica.log[: len(self.committed)]
        if all(entry.epoch < core.epoch for entry in self.committed):
            assert held == self.committed, "a leader lacks committed records"

    def _check_state(self, replica: Replica, new: QuorumState) -> None:
        old = replica.state
        assert new.epoch >= old.epoch, "the epoch fell"
        if new.epoch == old.epoch:
            if old.leader_id is not None:
                assert new.leader_id == old.leader_id, "the leader of an epoch was forgotten"
            if old.voted is not None and new.leader_id is None:
                assert new.voted == old.voted, "the vote of an epoch was forgotten"
        if new.voted is not None:
            vote = self.votes.setdefault((replica.id, new.epoch), new.voted.id)
            assert vote == new.voted.id, "voted twice in an epoch"

    def _check_committed(self, replica: Replica, high_watermark: int) -> None:
        if replica.core is not None and replica.core.is_leader:
            voters = replica.core.voters
            ends = [self.replicas[node].synced_end_offset for node in voters.voters]
            durable = sum(end >= high_watermark for end in ends)
            assert durable >= voters.majority, "committed without a majority of the voters"
        entries = [entry for entry in replica.log if entry.next_offset <= high_watermark]
        known = min(len(entries), len(self.committed))
        assert entries[:known] == self.committed[:known], "a committed record changed"
        self.committed += entries[known:]

    def _send(self, replica: Replica, message: Any) -> None:
        to = message.to if not isinstance(message, VoteResponse) else message.request.candidate.id
        if isinstance(message, VoteResponse) and message.granted and not message.request.pre_vote:
            vote = self.votes.setdefault((replica.id, message.epoch), to)
            assert vote == to, "voted twice in an epoch"
        life = replica.life

        def fail() -> None:
            if replica.core is not None and replica.life == life:
                replica.core.on_request_failed(message, self.now_ms)
                self.settle(replica)

        if not self.send(replica.id, to, lambda receiver: self._receive(receiver, message)):
            self.at(REQUEST_TIMEOUT_MS, fail)

    def send(self, sender: int, to: int, deliver: Callable[[Replica], None]) -> bool:
        """Deliver a message later; return False when it gets lost."""
        lost = self.random.random() < self.loss
        if lost or sender in self.cut or to in self.cut:
            return False

        def arrive() -> None:
            replica = self.replicas[to]
            if replica.core is not None and to not in self.cut:
                deliver(replica)
                self.settle(replica)

        self.at(self.random.randrange(1, 30), arrive)
        if self.random.random() < self.loss:  # a duplicate
            self.at(self.random.randrange(1, 300), arrive)
        return True

    def _receive(self, replica: Replica, message: Any) -> None:
        core = replica.core
        assert core is not None
        match message:
            case VoteRequest():
                core.on_vote_request(message, self.now_ms)
            case VoteResponse():
                core.on_vote_response(message, self.now_ms)
            case BeginQuorumEpoch():
                core.on_begin_quorum_epoch(message, self.now_ms)
            case EndQuorumEpoch():
                core.on_end_quorum_epoch(message, self.now_ms)

    def _answer_fetch(self, leader: Replica, request: FetchRequest) -> None:
        core = leader.core
        assert core is not None
        assert request.replica.id != leader.id, "a replica fetches from itself"
        response = core.on_fetch(request, self.now_ms)
        self.settle(leader)
        entries: list[Entry] = []
        if response.has_records:
            entries = [entry for entry in leader.log if entry.base_offset >= request.offset]
            entries = entries[: self.random.randrange(1, 5)]  # a response has a maximum size
        self.send(
            leader.id,
            request.replica.id,
            lambda follower: self._take_fetch(follower, request, response, entries),
        )

    def _take_fetch(
        self,
        replica: Replica,
        request: FetchRequest,
        response: FetchResponse,
        entries: list[Entry],
    ) -> None:
        core = replica.core
        assert core is not None
        if core.fetch_request() != request and response.error is ErrorCode.NONE:
            return  # its log or its epoch has changed since the request
        if core.on_fetch_response(response, self.now_ms) and entries:
            replica.log += entries
            replica.synced = len(replica.log)
            for entry in entries:
                self._follow_voters(replica, entry)
                if entry.control and replica.history is not None:
                    core.use_voters(replica.history.latest)
            batches = [(entry.epoch, entry.base_offset, entry.next_offset) for entry in entries]
            self.appended(replica, entries)
            core.on_appended(batches, response.high_watermark)

    def truncated(self, replica: Replica, core: RaftCore, offset: int) -> None:
        """The voters are those of the log that is left."""
        if replica.history is not None:
            replica.history.truncate(offset)
            core.use_voters(replica.history.latest)

    def _follow_voters(self, replica: Replica, entry: Entry) -> None:
        if replica.history is not None:
            replica.history.take(entry.control, entry.base_offset)

    def _check_voters(self, replica: Replica, entry: Entry) -> None:
        """A leader changes one voter at a time, after the change before it is committed."""
        assert replica.history is not None
        before, _, offset, _ = replica.history.latest
        for message in entry.control:
            if isinstance(message, VotersRecord):
                ids = VoterSet.from_record(message).voters.keys()
                assert len(ids ^ before.voters.keys()) <= 1, "two voters changed at once"
                end = self.committed[-1].next_offset if self.committed else 0
                changed = ids != before.voters.keys()
                assert not changed or offset < end, "two changes of voters are uncommitted"

    def _check_stated_voters(self, replica: Replica, core: RaftCore) -> None:
        history = VotersHistory(self.voters, 1)
        for entry in replica.log:
            history.take(entry.control, entry.base_offset)
        assert core.voters.voters.keys() == history.latest.voters.voters.keys(), "unstated voters"

    def change_voters(self, node: int) -> bool:
        """Let the leader add or remove a voter; return False when it refuses."""
        for replica in self.replicas.values():
            core = replica.core
            if core is None or not core.is_leader or replica.id in self.cut:
                continue
            try:
                if node in core.voters.voters:
                    self.remove(core, ReplicaKey(node, uuid(node)))
                else:
                    self.add(core, self.locals[node])
            except KafkaError:
                return False
            self.settle(replica)
            return True
        return False

    def add(self, core: RaftCore, voter: Voter) -> None:
        add_voter(core, voter, self.now_ms)

    def remove(self, core: RaftCore, key: ReplicaKey) -> None:
        remove_voter(core, key, self.now_ms)

    def appended(self, replica: Replica, entries: list[Entry]) -> None:
        """Entries from the leader are in the log of a replica."""

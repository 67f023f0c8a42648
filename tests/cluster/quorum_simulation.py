"""A quorum in one thread: cores, disks that forget what was not synced, and a bad network.

Everything random comes from one seed. Checkers watch all the while: at most one leader in an
epoch (R1), epochs and votes never fall (R2), what was committed anywhere never changes.
"""

import heapq
import random
from collections.abc import Callable
from typing import Any

from barnabas.cluster.quorum.quorum_state import QuorumState
from barnabas.cluster.quorum.raft import Entry, RaftCore, Ready, Timeouts
from barnabas.cluster.quorum.raft_messages import (
    BeginQuorumEpoch,
    EndQuorumEpoch,
    EpochHistory,
    FetchRequest,
    FetchResponse,
    VoteRequest,
    VoteResponse,
)
from barnabas.cluster.quorum.voters import ReplicaKey, Voter, VoterSet
from tests.cluster.states import uuid

TIMEOUTS = Timeouts(election_ms=1000, fetch_ms=2000, backoff_max_ms=1000)
FETCH_MS = 100


class Replica:
    """One node: its disk, and its core while it runs."""

    def __init__(self, node_id: int) -> None:
        self.id = node_id
        self.state = QuorumState()
        self.log: list[Entry] = []
        self.synced = 0  # entries that a crash leaves
        self.core: RaftCore | None = None
        self.life = 0

    @property
    def end_offset(self) -> int:
        return self.log[-1].next_offset if self.log else 0


class Simulation:
    """Runs `size` voters; `loss` is the chance that a message gets lost."""

    def __init__(self, seed: int, size: int = 3, loss: float = 0.0) -> None:
        self.random = random.Random(seed)
        self.now_ms = 0
        self.loss = loss
        self.cut: set[int] = set()
        self.replicas = {node: Replica(node) for node in range(1, size + 1)}
        self.voters = VoterSet.of(*(Voter(ReplicaKey(node, uuid(node))) for node in self.replicas))
        self.committed: list[Entry] = []
        self.leaders: dict[int, int] = {}
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
        replica.core = RaftCore(
            local=self.voters.voters[node],
            voters=self.voters,
            voters_offset=0,
            kraft_version=1,
            state=replica.state,
            log=EpochHistory(starts, replica.end_offset),
            random=self.random.randrange,
            timeouts=TIMEOUTS,
        )
        replica.core.start(self.now_ms)
        self.settle(replica)
        life = replica.life
        self.at(self.random.randrange(FETCH_MS), lambda: self._beat(replica, life))

    def crash(self, node: int) -> None:
        """Stop a node; what it had not synced is gone."""
        replica = self.replicas[node]
        replica.core = None
        replica.life += 1
        del replica.log[replica.synced :]

    def propose(self, value: bytes) -> bool:
        """Have whoever leads append a record; False while nobody does."""
        for replica in self.replicas.values():
            if replica.core and replica.core.is_leader and replica.id not in self.cut:
                replica.core.propose([value], self.now_ms)
                self.settle(replica)
                return True
        return False

    def _beat(self, replica: Replica, life: int) -> None:
        """Time passes for a node: its timer, its fsync, its next fetch."""
        core = replica.core
        if core is None or replica.life != life:
            return
        wakeup = core.wakeup_ms()
        if wakeup is not None and wakeup <= self.now_ms:
            core.tick(self.now_ms)
        self.settle(replica)
        self._sync(replica)
        request = core.fetch_request()
        if request is not None:
            self.send(replica.id, request.to, lambda to: self._answer_fetch(to, request))
        self.at(FETCH_MS, lambda: self._beat(replica, life))

    def _sync(self, replica: Replica) -> None:
        replica.synced = len(replica.log)
        if replica.core:
            replica.core.on_flushed(replica.end_offset)
            self.settle(replica)

    # The shell of each node

    def settle(self, replica: Replica) -> None:
        """Do what the core asks for."""
        core = replica.core
        if core is None:
            return
        ready: Ready = core.take_ready()
        if ready.quorum_state is not None:
            self._check_state(replica.state, ready.quorum_state)
            replica.state = ready.quorum_state
        if ready.truncate_to is not None:
            while replica.log and replica.log[-1].base_offset >= ready.truncate_to:
                replica.log.pop()
            replica.synced = min(replica.synced, len(replica.log))
            assert replica.end_offset == ready.truncate_to
        replica.log += ready.entries
        assert replica.end_offset == core.log_end_offset
        if core.is_leader:
            assert self.leaders.setdefault(core.epoch, replica.id) == replica.id, "two leaders"
        if ready.high_watermark is not None:
            self._check_committed(replica, ready.high_watermark)
        for message in ready.messages:
            self._send(replica, message)

    def _check_state(self, old: QuorumState, new: QuorumState) -> None:
        assert new.epoch >= old.epoch, "the epoch fell"
        if new.epoch == old.epoch and old.voted is not None and new.voted is not None:
            assert new.voted == old.voted, "voted twice in an epoch"

    def _check_committed(self, replica: Replica, high_watermark: int) -> None:
        entries = [entry for entry in replica.log if entry.next_offset <= high_watermark]
        known = min(len(entries), len(self.committed))
        assert entries[:known] == self.committed[:known], "a committed record changed"
        self.committed += entries[known:]

    def _send(self, replica: Replica, message: Any) -> None:
        match message:
            case VoteResponse():
                to = message.request.candidate.id
            case _:
                to = message.to
        self.send(replica.id, to, lambda receiver: self._receive(receiver, message))

    def send(self, sender: int, to: int, deliver: Callable[[Replica], None]) -> None:
        lost = self.random.random() < self.loss
        if lost or sender in self.cut or to in self.cut:
            return

        def arrive() -> None:
            replica = self.replicas[to]
            if replica.core is not None and to not in self.cut:
                deliver(replica)
                self.settle(replica)

        self.at(self.random.randrange(1, 30), arrive)
        if self.random.random() < self.loss:  # now and then, twice
            self.at(self.random.randrange(1, 300), arrive)

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
        response = core.on_fetch(request, self.now_ms)
        self.settle(leader)
        entries: list[Entry] = []
        if response.is_leader and response.diverging is None:
            entries = [entry for entry in leader.log if entry.base_offset >= request.offset]
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
        if core.fetch_request() != request and response.is_leader:
            return  # its log or its epoch has moved on since
        if core.on_fetch_response(response, self.now_ms) and entries:
            replica.log += entries
            replica.synced = len(replica.log)
            batches = [(entry.epoch, entry.base_offset, entry.next_offset) for entry in entries]
            core.on_appended(batches, response.high_watermark)

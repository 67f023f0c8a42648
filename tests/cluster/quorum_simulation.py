"""A simulated quorum in one thread: cores, disks that lose unsynced records, a faulty network.

One seed determines everything. Requests that get lost time out at their sender, as connections do.
At every step an AssertionError begins with the name of the invariant that does not hold:

    R1   at most one leader in an epoch, over all lives
    R2   the state file never loses a vote or a leader; a replica votes once in an epoch
    R4   no replica fetches from itself
    LC   a leader has every committed record, and a majority of the voters has it durably
    HW   a committed record never changes
    CQ   a leader without a majority resigns
    VC   one voter changes at a time, after the change before it is committed
    VS   the voters of a replica are those that its log states
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
from barnabas.testing.simulation.rare_states import RareState, RareStates
from tests.cluster.states import uuid

TIMEOUTS = Timeouts(election_ms=1000, fetch_ms=2000, backoff_max_ms=1000)
FETCH_MS = 100
SILENCE_MAX_MS = TIMEOUTS.majority_ms + 2 * FETCH_MS
REQUEST_TIMEOUT_MS = 2000


class Replica:
    """One node: its disk, and its core while it runs."""

    def __init__(self, node_id: int) -> None:
        self.id = node_id
        self.state = QuorumState()
        self.log: list[Entry] = []
        self.synced = 0  # entries that survive a loss of power
        self.compared = 0  # entries below the high watermark that are the committed ones
        self.stated: tuple[Entry | None, VoterSet] | None = (
            None  # the last log end that was checked
        )
        self.core: RaftCore | None = None
        self.life = 0
        self.history: VotersHistory | None = None

    @property
    def synced_end_offset(self) -> int:
        return self.log[self.synced - 1].next_offset if self.synced else 0

    @property
    def end_offset(self) -> int:
        return self.log[-1].next_offset if self.log else 0


class Majority:
    """When the voters of a leader last fetched from it, in ms."""

    def __init__(self, core: RaftCore, now_ms: int) -> None:
        self.epoch = core.epoch
        self.voters = core.voters
        self.fetched_ms = dict.fromkeys(core.voters.voters, now_ms)

    def silence_ms(self, local: ReplicaKey, now_ms: int) -> int:
        """Return for how long the leader has had no majority."""
        needed = self.voters.majority - self.voters.is_voter(local)
        others = (at for node, at in self.fetched_ms.items() if node != local.id)
        return now_ms - sorted(others, reverse=True)[needed - 1] if needed else 0


class Simulation:
    """Runs `size` voters; `loss` is the probability that a message gets lost.

    `cut` has the nodes without a network, `deaf` the pairs (sender, receiver) that lose messages in
    this direction. `ambush` cuts off the next leader, when it begins to "lead" or to "commit".
    """

    core_type: type[RaftCore] = RaftCore
    has_pre_votes: bool = True

    def __init__(
        self,
        seed: int,
        size: int = 3,
        loss: float = 0.0,
        sync_chance: float = 1.0,
        spare: int = 0,
        batches_max: int = 4,
    ) -> None:
        """Make a simulation; `spare` replicas are observers at first.

        A fetch returns at most `batches_max` batches.
        """
        self.random = random.Random(seed)
        self.now_ms = 0
        self.loss = loss
        self.sync_chance = sync_chance
        self.batches_max = batches_max
        self.cut: set[int] = set()
        self.deaf: set[tuple[int, int]] = set()
        self.ambush = ""
        self.rare = RareStates()
        self.replicas = {node: Replica(node) for node in range(1, size + spare + 1)}
        self.locals = {node: Voter(ReplicaKey(node, uuid(node))) for node in self.replicas}
        self.voters = VoterSet.of(*(self.locals[node] for node in range(1, size + 1)))
        self.committed: list[Entry] = []
        self.leaders: dict[int, int] = {}
        self.votes: dict[tuple[int, int], int] = {}
        self._majorities: dict[int, Majority] = {}  # of the leaders
        self._candidates: dict[int, set[int]] = {}
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
        replica.compared = min(replica.compared, len(replica.log))

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
        self._check_majority(replica, core)
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
            self.write_state(replica, ready.quorum_state)
        if ready.truncate_to is not None:
            while replica.log and replica.log[-1].base_offset >= ready.truncate_to:
                replica.log.pop()
            replica.synced = min(replica.synced, len(replica.log))
            replica.compared = min(replica.compared, len(replica.log))
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

    def write_state(self, replica: Replica, state: QuorumState) -> None:
        """Write the state file durably."""
        self._check_state(replica, state)
        self._count_candidates(replica, state)
        replica.state = state

    def _count_candidates(self, replica: Replica, new: QuorumState) -> None:
        epoch = replica.state.epoch
        if new.voted is not None and new.voted.id == replica.id and new.leader_id is None:
            self._candidates.setdefault(new.epoch, set()).add(replica.id)
        is_split = len(self._candidates.get(epoch, ())) > 1 and epoch not in self.leaders
        if is_split and new.epoch > epoch:
            self.rare.reached(RareState.SPLIT_VOTE)

    def _spring(self, event: str, replica: Replica) -> None:
        if self.ambush == event:
            self.ambush, self.cut = "", {replica.id}

    def _check_leader(self, replica: Replica, core: RaftCore) -> None:
        leader = self.leaders.get(core.epoch)
        if leader == replica.id:
            return
        assert leader is None, f"R1: {leader} and {replica.id} lead epoch {core.epoch}"
        self.leaders[core.epoch] = replica.id
        self._spring("lead", replica)
        if all(entry.epoch < core.epoch for entry in self.committed[-1:]):
            held = replica.log[: len(self.committed)]
            assert held == self.committed, "LC: a leader lacks committed records"

    def _check_majority(self, replica: Replica, core: RaftCore) -> None:
        """Check CQ: the leader's majority, or the one of its new voters, is not silent."""
        if not core.is_leader or len(core.voters) == 1:
            self._majorities.pop(replica.id, None)
            return
        majority = self._majorities.get(replica.id)
        if majority is None or (majority.epoch, majority.voters) != (core.epoch, core.voters):
            majority = self._majorities[replica.id] = Majority(core, self.now_ms)
        silence_ms = majority.silence_ms(core.local.key, self.now_ms)
        assert silence_ms <= SILENCE_MAX_MS, f"CQ: a leader without a majority for {silence_ms} ms"

    def _check_state(self, replica: Replica, new: QuorumState) -> None:
        old = replica.state
        assert new.epoch >= old.epoch, "R2: the epoch fell"
        if new.epoch == old.epoch:
            if old.leader_id is not None:
                assert new.leader_id == old.leader_id, "R2: the leader of an epoch is forgotten"
            if old.voted is not None and new.leader_id is None:
                assert new.voted == old.voted, "R2: the vote of an epoch is forgotten"
        if new.voted is not None:
            vote = self.votes.setdefault((replica.id, new.epoch), new.voted.id)
            assert vote == new.voted.id, "R2: voted twice in an epoch"

    def _check_committed(self, replica: Replica, high_watermark: int) -> None:
        if replica.core is not None and replica.core.is_leader:
            voters = replica.core.voters
            ends = [self.replicas[node].synced_end_offset for node in voters.voters]
            self._spring("commit", replica)
            durable = sum(end >= high_watermark for end in ends)
            assert durable >= voters.majority, "LC: a majority lacks committed records"
        while replica.compared < len(replica.log):
            entry = replica.log[replica.compared]
            if entry.next_offset > high_watermark:
                break
            if replica.compared == len(self.committed):
                self.committed.append(entry)
            assert entry == self.committed[replica.compared], "HW: a committed record changed"
            replica.compared += 1

    def _send(self, replica: Replica, message: Any) -> None:
        to = message.to if not isinstance(message, VoteResponse) else message.request.candidate.id
        if isinstance(message, VoteResponse) and message.granted and not message.request.pre_vote:
            vote = self.votes.setdefault((replica.id, message.epoch), to)
            assert vote == to, "R2: voted twice in an epoch"
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
        if lost or sender in self.cut or to in self.cut or (sender, to) in self.deaf:
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
        assert request.replica.id != leader.id, "R4: a replica fetches from itself"
        response = core.on_fetch(request, self.now_ms)
        majority = self._majorities.get(leader.id)
        if majority is not None and response.error is ErrorCode.NONE:
            majority.fetched_ms[request.replica.id] = self.now_ms
        self.settle(leader)
        entries: list[Entry] = []
        if response.has_records:
            entries = [entry for entry in leader.log if entry.base_offset >= request.offset]
            entries = entries[: self.random.randint(1, self.batches_max)]
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
                assert len(ids ^ before.voters.keys()) <= 1, "VC: two voters changed at once"
                end = self.committed[-1].next_offset if self.committed else 0
                changed = ids != before.voters.keys()
                assert not changed or offset < end, "VC: two changes of voters are uncommitted"

    def _check_stated_voters(self, replica: Replica, core: RaftCore) -> None:
        checked = (replica.log[-1] if replica.log else None, core.voters)
        if replica.stated == checked:
            return
        replica.stated = checked
        history = VotersHistory(self.voters, 1)
        for entry in replica.log:
            history.take(entry.control, entry.base_offset)
        stated = history.latest.voters.voters.keys()
        assert core.voters.voters.keys() == stated, "VS: the log does not state these voters"

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

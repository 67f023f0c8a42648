"""Planted mistakes in the Raft core: each must break an invariant of the simulation.

`python -m tests.cluster.raft_mistakes` searches for the seeds that reveal each mistake; the tests
use one pinned seed of each.
"""

import random
import sys

import attrs

from barnabas.cluster.quorum.quorum_state import QuorumState
from barnabas.cluster.quorum.raft import RaftCore
from barnabas.cluster.quorum.raft_messages import FetchRequest, FetchResponse, VoteRequest
from barnabas.cluster.quorum.raft_state import Entry, QuorumDataLossError
from barnabas.cluster.quorum.raft_validation import fetch_error
from barnabas.protocol.errors import ErrorCode
from tests.cluster.quorum_simulation import Simulation

SEEDS_MAX = 300


class ForgetsLeadershipAtRestart(RaftCore):
    """A restarted leader starts as unattached in the epoch that it led."""

    def start(self, now_ms: int) -> None:
        if self.state.leader_id == self.local.key.id and len(self.voters) > 1:
            self._set_state(QuorumState(epoch=self.epoch))
        super().start(now_ms)


class VotesTwice(RaftCore):
    """A voter grants a vote to a second candidate of the epoch."""

    def _grants(self, request: VoteRequest) -> bool:
        self.state = attrs.evolve(self.state, voted=None)
        return super()._grants(request)


class GrantsVotesToShorterLogs(RaftCore):
    """A voter does not compare the logs."""

    def _grants(self, request: VoteRequest) -> bool:
        return super()._grants(attrs.evolve(request, last_epoch=10**6))


class CountsUnsyncedRecords(RaftCore):
    """A leader counts its own records before they are durable."""

    def _append(self, entry: Entry) -> Entry:
        super()._append(entry)
        self._progress.of_voter(self.local.key.id).end_offset = entry.next_offset
        return entry


class CountsDivergedFollowers(RaftCore):
    """A leader takes the fetch offset of a diverged follower as its progress."""

    def on_fetch(self, request: FetchRequest, now_ms: int) -> FetchResponse:
        if fetch_error(request, self.epoch, is_leader=self.is_leader) is ErrorCode.NONE:
            self._note_progress(request, now_ms)
        return super().on_fetch(request, now_ms)


class FollowsItself(RaftCore):
    """A leader that resigned follows itself after the election timeout."""

    def _leave_epoch(self, now_ms: int) -> None:
        self._follow(now_ms)


class LeadsWithoutMajority(RaftCore):
    """A candidate leads with half of the votes."""

    def _count_votes(self, now_ms: int) -> None:
        self._granted |= {-1}
        super()._count_votes(now_ms)


# Each mistake with a seed that reveals it.
MISTAKES: dict[type[RaftCore], int] = {
    ForgetsLeadershipAtRestart: 0,
    VotesTwice: 0,
    GrantsVotesToShorterLogs: 0,
    CountsUnsyncedRecords: 4,
    CountsDivergedFollowers: 260,
    FollowsItself: 0,
    LeadsWithoutMajority: 0,
}


def broken(core_type: type[RaftCore], seed: int) -> str | None:
    """Run a seed; return the violated invariant, or None."""
    chance = random.Random(seed)
    simulation = Simulation(
        seed,
        size=chance.choice([3, 5]),
        loss=chance.choice([0.0, 0.1]),
        core_type=core_type,
        sync_chance=0.3,
    )
    try:
        for number in range(60):
            _disturb(simulation, chance, number)
            simulation.run(chance.randrange(1500))
    except (AssertionError, QuorumDataLossError) as error:
        return str(error).partition("\n")[0]
    return None


def _disturb(simulation: Simulation, chance: random.Random, number: int) -> None:
    node = chance.randrange(1, len(simulation.replicas) + 1)
    match chance.randrange(10):
        case 0 if simulation.replicas[node].core is not None:
            simulation.crash(node)
        case 1 | 2 if simulation.replicas[node].core is None:
            simulation.start(node)
        case 3:
            simulation.cut = {node} if chance.random() < 0.5 else set()
        case 4 | 8 | 9:  # the node that leads, with all that it has not replicated
            leaders = [r.id for r in simulation.replicas.values() if r.core and r.core.is_leader]
            for leader in leaders:
                core = simulation.replicas[leader].core
                if core is not None:
                    core.propose([b"unreplicated %d" % number], simulation.now_ms)
                    simulation.settle(simulation.replicas[leader])
                simulation.cut = {leader}
        case 5:  # restarts in the middle of elections
            for restarted in simulation.replicas:
                simulation.crash(restarted)
                simulation.start(restarted)
                simulation.run(chance.randrange(400))
        case _:
            simulation.propose(b"%d" % number)


def main() -> None:
    """Print the first seed that reveals each mistake."""
    for mistake in MISTAKES:
        for seed in range(SEEDS_MAX):
            found = broken(mistake, seed)
            if found is not None:
                print(f"{mistake.__name__}: seed {seed}: {found}")
                break
        else:
            print(f"{mistake.__name__}: not found in {SEEDS_MAX} seeds")
    correct = [seed for seed in range(SEEDS_MAX) if broken(RaftCore, seed) is not None]
    print(f"seeds that fail without a mistake: {correct}")


if __name__ == "__main__":
    sys.exit(main())

"""Planted mistakes in changes of the voters: each must break an invariant of the simulation.

`python -m tests.cluster.voter_mistakes` searches for the seeds; the tests use one pinned seed each.
"""

import random
import sys

import attrs

from barnabas.cluster.quorum.raft import RaftCore
from barnabas.cluster.quorum.raft_state import Entry, QuorumDataLossError
from barnabas.cluster.quorum.voters import ReplicaKey, Voter, VoterSet
from barnabas.protocol.messages_base import Message
from tests.cluster.quorum_simulation import Replica, Simulation

SEEDS_MAX = 120


@attrs.frozen
class Types:
    """The classes under test."""

    simulation: type[Simulation] = Simulation
    core: type[RaftCore] = RaftCore


class ChangesTwiceAtOnce(Simulation):
    """A leader adds a voter while an earlier change is not committed."""

    def add(self, core: RaftCore, voter: Voter) -> None:
        core.change_voters(VoterSet({**core.voters.voters, voter.key.id: voter}), self.now_ms)

    def remove(self, core: RaftCore, key: ReplicaKey) -> None:
        others = {node: each for node, each in core.voters.voters.items() if node != key.id}
        if others:
            core.change_voters(VoterSet(others), self.now_ms)


class KeepsTruncatedVoters(Simulation):
    """A follower that truncates its log keeps the voters that the log stated."""

    def truncated(self, replica: Replica, core: RaftCore, offset: int) -> None:
        pass


class CountsOldVoters(RaftCore):
    """A leader commits with the majority of the set before the last change."""

    _before: VoterSet | None = None

    def _append_voters(self, voters: VoterSet, control: tuple[Message, ...], now_ms: int) -> Entry:
        self._before = self.voters
        return super()._append_voters(voters, control, now_ms)

    def _advance_high_watermark(self) -> None:
        voters, self.voters = self.voters, self._before or self.voters
        super()._advance_high_watermark()
        self.voters = voters


class ElectsWithOneVoteLess(RaftCore):
    """A candidate takes the majority of the set without the last voter."""

    def _count_votes(self, now_ms: int) -> None:
        if len(self.voters) > 1 and len(self._granted) >= self.voters.majority - 1:
            self._granted |= {-1}
        super()._count_votes(now_ms)


# Each mistake with a seed that reveals it.
MISTAKES: dict[Types, int] = {
    Types(simulation=ChangesTwiceAtOnce): 3,
    Types(simulation=KeepsTruncatedVoters): 17,
    Types(core=CountsOldVoters): 0,
    Types(core=ElectsWithOneVoteLess): 0,
}


def broken(types: Types, seed: int) -> str | None:
    """Run a seed; return the violated invariant, or None."""
    chance = random.Random(seed)
    simulation = types.simulation(
        seed,
        size=chance.choice([1, 2, 3]),
        spare=2,
        loss=chance.choice([0.0, 0.1]),
        core_type=types.core,
        sync_chance=0.5,
    )
    try:
        for number in range(60):
            _disturb(simulation, chance, number)
            simulation.run(chance.randrange(1500))
        simulation.cut = set()
        for replica in simulation.replicas.values():
            if replica.core is None:
                simulation.start(replica.id)
        simulation.loss = 0.0
        simulation.run(20_000)
        leads = [each for each in simulation.replicas.values() if each.core and each.core.is_leader]
        assert leads, "no leader after a time without faults"
    except (AssertionError, QuorumDataLossError) as error:
        return str(error).partition("\n")[0]
    return None


def _disturb(simulation: Simulation, chance: random.Random, number: int) -> None:
    node = chance.choice(list(simulation.replicas))
    match chance.randrange(9):
        case 0 if simulation.replicas[node].core is not None:
            simulation.crash(node)
        case 1 | 2 if simulation.replicas[node].core is None:
            simulation.start(node)
        case 3:
            simulation.cut = {node} if chance.random() < 0.5 else set()
        case 4 | 5 | 6:
            simulation.change_voters(node)
            if chance.random() < 0.3:  # the leader is cut off before the change is replicated
                leaders = (
                    r.id for r in simulation.replicas.values() if r.core and r.core.is_leader
                )
                simulation.cut = set(leaders)
        case _:
            simulation.propose(b"%d" % number)


def name(types: Types) -> str:
    """Return the name of the planted mistake."""
    return (types.core if types.simulation is Simulation else types.simulation).__name__


def main() -> None:
    """Print the first seed that reveals each mistake."""
    for types in MISTAKES:
        for seed in range(SEEDS_MAX):
            found = broken(types, seed)
            if found is not None:
                print(f"{name(types)}: seed {seed}: {found}", flush=True)
                break
        else:
            print(f"{name(types)}: not found in {SEEDS_MAX} seeds", flush=True)
    for seed in range(SEEDS_MAX):
        found = broken(Types(), seed)
        if found is not None:
            print(f"without a mistake: seed {seed}: {found}", flush=True)
    print("end")


if __name__ == "__main__":
    sys.exit(main())

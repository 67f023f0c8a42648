"""Seeds of the Raft core: random faults, then rest, then a follower that cannot hear its leader.

`run(seed)` returns the rare states that it reached. It raises AssertionError with the names of
`quorum_simulation`, and

    LIVENESS  without faults the quorum has a leader, and all replicas have the same log
    DEPOSED   a leader that a majority hears keeps its epoch
"""

import random

from barnabas.cluster.quorum.raft_state import QuorumDataLossError
from barnabas.testing.simulation.rare_states import RareStates
from tests.cluster.quorum_simulation import Simulation

STEPS = 40
REST_MS = 20_000
DEAF_MS = 10_000


def run(seed: int, simulated: type[Simulation] = Simulation) -> RareStates:
    """Run a seed; raises AssertionError."""
    chance = random.Random(seed)
    simulation = simulated(
        seed,
        size=chance.choice([3, 3, 5]),
        loss=chance.choice([0.0, 0.1]),
        sync_chance=chance.choice([1.0, 0.3]),
        batches_max=chance.choice([1, 4]),
    )
    try:
        for number in range(STEPS):
            disturb(simulation, chance, number)
            simulation.run(chance.randrange(1500))
        heal(simulation)
        leader = settled(simulation)
        simulation.propose(b"last")
        _replicate(simulation)
        if simulation.has_pre_votes:
            _check_deaf_follower(simulation, chance, leader)
    except QuorumDataLossError as error:
        raise AssertionError(f"HW: {error}") from error
    return simulation.rare


def disturb(simulation: Simulation, chance: random.Random, number: int) -> None:
    """Begin or end one fault, or append a record."""
    node = chance.randrange(1, len(simulation.replicas) + 1)
    match chance.randrange(12):
        case 0 if simulation.replicas[node].core is not None:
            simulation.crash(node)
        case 1 | 2 if simulation.replicas[node].core is None:
            simulation.start(node)
        case 3:
            simulation.cut = {node} if chance.random() < 0.5 else set()
        case 4 | 8:
            isolate_leaders(simulation, b"unreplicated %d" % number)
        case 5:  # restarts in the middle of elections
            for restarted in simulation.replicas:
                simulation.crash(restarted)
                simulation.start(restarted)
                simulation.run(chance.randrange(400))
        case 6 | 7:
            simulation.ambush = chance.choice(["lead", "commit"])
        case _:
            simulation.propose(b"%d" % number)


def isolate_leaders(simulation: Simulation, value: bytes) -> None:
    """Cut off the nodes that lead, with a record that they have not replicated."""
    for replica in simulation.replicas.values():
        if replica.core is not None and replica.core.is_leader:
            replica.core.propose([value], simulation.now_ms)
            simulation.settle(replica)
            simulation.cut = {replica.id}


def heal(simulation: Simulation) -> None:
    """End all faults."""
    simulation.cut, simulation.deaf, simulation.ambush = set(), set(), ""
    simulation.loss, simulation.sync_chance = 0.0, 1.0
    for node, replica in simulation.replicas.items():
        if replica.core is None:
            simulation.start(node)


def settled(simulation: Simulation) -> int:
    """Run until all replicas know one leader; return it."""
    leaders: set[int | None] = set()
    for _ in range(REST_MS // 1000):
        simulation.run(1000)
        cores = [replica.core for replica in simulation.replicas.values()]
        leaders = {core.leader_id for core in cores if core is not None}
        leader = next(iter(leaders)) if len(leaders) == 1 else None
        if leader is not None:
            return leader
    raise AssertionError(f"LIVENESS: the replicas follow {leaders}")


def _replicate(simulation: Simulation) -> None:
    """Run until all replicas have all records."""
    for _ in range(REST_MS // 1000):
        simulation.run(1000)
        is_committed = simulation.committed[-1].records == (b"last",)
        logs = [replica.log for replica in simulation.replicas.values()]
        if is_committed and all(log == simulation.committed for log in logs):
            return
    raise AssertionError("LIVENESS: a replica lacks records")


def _check_deaf_follower(simulation: Simulation, chance: random.Random, leader: int) -> None:
    """A follower that does not hear its leader asks the others for pre-votes, without effect."""
    core = simulation.replicas[leader].core
    assert core is not None
    epoch = core.epoch
    others = [node for node in core.voters.voters if node != leader]
    simulation.deaf = {(leader, chance.choice(others))}
    simulation.run(DEAF_MS)
    assert core.is_leader, "DEPOSED: a leader that has a majority"
    assert core.epoch == epoch, "DEPOSED: the leader has another epoch"

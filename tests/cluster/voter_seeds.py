"""Seeds of changes of the voters: replicas join and leave through random faults, then rest.

`run(seed)` returns the rare states that it reached; it raises AssertionError with the names of
`quorum_simulation` and `raft_seeds`.
"""

import random

from barnabas.cluster.quorum.raft_state import QuorumDataLossError
from barnabas.testing.simulation.rare_states import RareState, RareStates
from tests.cluster.quorum_simulation import Simulation
from tests.cluster.raft_seeds import heal, settled

STEPS = 60


def run(seed: int) -> RareStates:
    """Run a seed; raises AssertionError."""
    chance = random.Random(seed)
    simulation = Simulation(
        seed,
        size=chance.choice([1, 2, 3]),
        spare=2,
        loss=chance.choice([0.0, 0.1]),
        sync_chance=0.5,
    )
    try:
        for number in range(STEPS):
            _disturb(simulation, chance, number)
            simulation.run(chance.randrange(1500))
        heal(simulation)
        settled(simulation)
    except QuorumDataLossError as error:
        raise AssertionError(f"HW: {error}") from error
    return simulation.rare


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
            leaders = [r.id for r in simulation.replicas.values() if r.core and r.core.is_leader]
            is_changed = simulation.change_voters(node)
            if is_changed and leaders == [node]:
                simulation.rare.reached(RareState.LEADER_REMOVED_ITSELF)
            if chance.random() < 0.3:  # the leader is cut off before the change is replicated
                simulation.cut = set(leaders)
        case _:
            simulation.propose(b"%d" % number)

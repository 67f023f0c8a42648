"""A deterministic simulation of a whole cluster, in one thread and without input or output.

What lives here: a world with one heap of events (`world`), a network of connections (`network`),
disks, nodes that drive the real cores of `barnabas.cluster` (`quorum_replica`, `sim_node`), faults
drawn from a seed (`faults`), and invariants that are checked at each effect. What may not: a clock,
a file, a socket, or a random number that does not come from the seed.

How data passes: `runner.prepare(seed)` builds the cluster of a seed and `runner.run` disturbs it,
heals it, and checks that it comes to rest. An invariant that does not hold raises InvariantError.
`python -m barnabas.testing.simulation --seed N` prints what happens in a seed.
"""

from barnabas.testing.simulation.attached_client import ClientCore, attach
from barnabas.testing.simulation.broker_waits import SimProduce, SimProduced
from barnabas.testing.simulation.network import Failure
from barnabas.testing.simulation.quorum_invariants import InvariantError
from barnabas.testing.simulation.rare_states import RareState
from barnabas.testing.simulation.runner import Simulation, prepare, run

__all__ = [
    "ClientCore",
    "Failure",
    "InvariantError",
    "RareState",
    "SimProduce",
    "SimProduced",
    "Simulation",
    "attach",
    "prepare",
    "run",
]

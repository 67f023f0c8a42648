"""A deterministic simulation of a whole cluster, in one thread: nodes as they ship, and clients.

What lives here: a world with one heap of events (`world`), the tasks of its processes
(`sim_tasks`), connections as streams of bytes (`sim_streams`), disks, the machine of a node
(`sim_machine`), clients, faults drawn from a seed (`faults`), and invariants that are checked at
each effect. What may not: a sequence of the server (what is written, sent and answered, in which
order), a clock, a socket, or a random number that does not come from the seed.

How data passes: `runner.prepare(seed)` builds the cluster of a seed and `runner.run` disturbs it,
heals it, and checks that it comes to rest. An invariant that does not hold raises InvariantError.
`python -m barnabas.testing.simulation --seed N` prints what happens in a seed.
"""

from barnabas.testing.simulation.attached_client import ClientCore, attach
from barnabas.testing.simulation.data_clients import produce_request, produced
from barnabas.testing.simulation.network import Failure
from barnabas.testing.simulation.quorum_invariants import InvariantError
from barnabas.testing.simulation.rare_states import RareState
from barnabas.testing.simulation.runner import Simulation, prepare, run

__all__ = [
    "ClientCore",
    "Failure",
    "InvariantError",
    "RareState",
    "Simulation",
    "attach",
    "prepare",
    "produce_request",
    "produced",
    "run",
]

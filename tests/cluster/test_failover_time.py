"""The time from the kill of a quorum's leader to the next leader, in simulated time."""

import pytest

from barnabas.cluster.quorum.raft_state import Role
from tests.cluster import quorum_simulation
from tests.cluster.quorum_simulation import Simulation

KILLS = 200
NOTICED_MS = (30, 60)
"""A connection that is closed and then refused shows the end of the process (B17).

The least time is that of messages in flight: a connection is closed after what was sent over it.
"""


@pytest.fixture(autouse=True)
def with_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """Timers are exact to 5 ms, and requests to a node that has ended are refused at once."""
    monkeypatch.setattr(quorum_simulation, "FETCH_MS", 5)
    monkeypatch.setattr(quorum_simulation, "REQUEST_TIMEOUT_MS", 2)


class RefusingSimulation(Simulation):
    """A node that was killed refuses messages."""

    def send(self, sender: int, to: int, deliver: object) -> bool:
        if self.replicas[to].core is None:
            return False
        return super().send(sender, to, deliver)  # type: ignore[arg-type]

    def leader(self) -> int | None:
        return next(
            (node for node, each in self.replicas.items() if each.core and each.core.is_leader),
            None,
        )

    def kill_leader(self) -> None:
        """Kill the leader; the others notice it soon after."""
        leader = self.leader()
        assert leader is not None
        self.crash(leader)
        for node, replica in self.replicas.items():
            if node != leader:
                self.at(self.random.randrange(*NOTICED_MS), lambda r=replica: notice(self, r))


def notice(simulation: Simulation, replica: quorum_simulation.Replica) -> None:
    assert replica.core is not None
    replica.core.on_leader_unreachable(simulation.now_ms)
    simulation.settle(replica)


def election_ms(seed: int) -> int:
    """Return the simulated time from a kill of the leader to the next leader."""
    simulation = RefusingSimulation(seed)
    while simulation.leader() is None:
        simulation.run(50)
    simulation.propose(b"value")
    simulation.run(300)
    cores = [each.core for each in simulation.replicas.values()]
    assert sum(core is not None and core.role is Role.FOLLOWER for core in cores) == 2
    simulation.kill_leader()
    killed_ms = simulation.now_ms
    while simulation.leader() is None:
        simulation.run(5)
    return simulation.now_ms - killed_ms


def test_next_leader_is_elected_within_half_a_second_of_a_kill() -> None:
    """Both survivors notice the end at the same time; their votes are split seldom."""
    times = sorted(election_ms(seed) for seed in range(KILLS))
    assert times[KILLS // 2] < 200, times[KILLS // 2]
    assert times[round(KILLS * 0.99) - 1] < 500, times[-5:]

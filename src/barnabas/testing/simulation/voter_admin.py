"""An administrator of the quorum in the simulation: adds and removes voters, one at a time.

R5: an acknowledged change is in the voters of every later leader, until it is undone.
VU: controllers that join by themselves are voters at the end, with their current addresses.
"""

from collections.abc import Callable
from typing import Final

from barnabas.cluster.quorum.raft import RaftCore
from barnabas.cluster.quorum.voters import ReplicaKey
from barnabas.protocol.errors import ErrorCode, error_code
from barnabas.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from barnabas.protocol.messages.remove_raft_voter import (
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)
from barnabas.testing.simulation.network import Failure
from barnabas.testing.simulation.quorum_format import controller_endpoint
from barnabas.testing.simulation.quorum_invariants import require
from barnabas.testing.simulation.rare_states import RareState
from barnabas.testing.simulation.sim_cluster import SimCluster
from barnabas.testing.simulation.world import Process

_CLIENT_ID: Final = 31_000
_TIMEOUT_MS: Final = 35_000
_CHANGE_TIMEOUT_MS: Final = 30_000
_RETRY_MS: Final = 500


def leader_core(cluster: SimCluster) -> RaftCore | None:
    """Return the core of a node that leads the quorum, or believes that it does."""
    for node in cluster.nodes.values():
        if node.is_leader:
            return node.core
    return None


def change_voters(
    cluster: SimCluster,
    process: Process,
    leader: RaftCore,
    key: ReplicaKey,
    done: Callable[[ErrorCode | None], None],
    *,
    adds: bool,
) -> None:
    """Have a leader add or remove a voter; `done` gets None when the outcome is unknown."""

    def answered(response: AddRaftVoterResponse | RemoveRaftVoterResponse) -> None:
        outcome = error_code(response.error_code)
        cluster.world.note("voter", key, "add" if adds else "remove", outcome.name)
        if outcome is ErrorCode.NONE and not adds and key == leader.local.key:
            cluster.world.rare.reached(RareState.LEADER_REMOVED_ITSELF)
        done(outcome)

    def failed(_: Failure) -> None:
        done(None)

    cluster.requests.ask(
        process,
        leader.local.key.id,
        "controller",
        _addition(key) if adds else _removal(key),
        answered,
        failed,
        timeout_ms=_TIMEOUT_MS,
    )


def _addition(key: ReplicaKey) -> AddRaftVoterRequest:
    endpoint = controller_endpoint(key.id)
    listener = AddRaftVoterRequest.Listener(
        name=endpoint.name, host=endpoint.host, port=endpoint.port
    )
    return AddRaftVoterRequest(
        cluster_id=None,
        timeout_ms=_CHANGE_TIMEOUT_MS,
        voter_id=key.id,
        voter_directory_id=key.directory_id,
        listeners=[listener],
    )


def _removal(key: ReplicaKey) -> RemoveRaftVoterRequest:
    return RemoveRaftVoterRequest(
        cluster_id=None, voter_id=key.id, voter_directory_id=key.directory_id
    )


class VoterAdmin:
    """Moves the voters among the controllers; a change that fails is tried again.

    `fewest` voters remain. `voters` has the keys whose presence is known: True for a voter, False
    for a removed one.
    """

    def __init__(self, cluster: SimCluster, fewest: int, pause_ms: int) -> None:
        self._cluster = cluster
        self._fewest = fewest
        self._pause_ms = pause_ms
        self._process = Process(cluster.world, _CLIENT_ID)
        self._process.start()
        self._random = cluster.world.stream("voter admin")
        self._known: dict[ReplicaKey, bool] = {}
        self.changes = 0
        self.is_stopped = False
        self.is_idle = True

    def start(self) -> None:
        """Begin to change the voters."""
        self._process.after_ms(self._random.randrange(2 * self._pause_ms), self._next)

    def _next(self) -> None:
        core = self._leader_core()
        if self.is_stopped:
            return
        if core is None:
            self._process.after_ms(_RETRY_MS, self._next)
            return
        keys = [node.quorum_key for node in self._cluster.nodes.values() if node.is_controller]
        outside = [key for key in keys if key.id not in core.voters.voters]
        may_remove = len(core.voters) > self._fewest
        if outside and (not may_remove or self._random.random() < 0.5):
            self._ask(self._random.choice(outside), core, adds=True)
        elif may_remove:
            self._ask(self._random.choice(core.voters.replica_keys), core, adds=False)
        else:
            self._process.after_ms(_RETRY_MS, self._next)

    def _leader_core(self) -> RaftCore | None:
        return leader_core(self._cluster)

    def _ask(self, key: ReplicaKey, core: RaftCore, *, adds: bool) -> None:
        self.is_idle = False
        self._known.pop(key, None)

        def answered(outcome: ErrorCode | None) -> None:
            if outcome is ErrorCode.NONE:
                self.changes += 1
                self._known[key] = adds
            self._end(self._pause_ms if outcome is ErrorCode.NONE else _RETRY_MS)

        change_voters(self._cluster, self._process, core, key, answered, adds=adds)

    def _end(self, pause_ms: int) -> None:
        self.is_idle = True
        self._process.after_ms(pause_ms, self._next)

    def stop(self) -> None:
        """Begin no further change."""
        self.is_stopped = True

    def check_end(self) -> None:
        """Check R5 after a rest."""
        core = self._leader_core()
        for key, is_voter in self._known.items():
            found = core is not None and core.voters.is_voter(key)
            require(found == is_voter, "R5", f"{key} is a voter: {found}, acknowledged: {is_voter}")


class VoterUpkeepCheck:
    """Checks VU, where nodes change the voters by themselves (`voter_maintenance`)."""

    def __init__(self, cluster: SimCluster) -> None:
        self._cluster = cluster

    def start(self) -> None:
        """Do nothing: the nodes act by themselves."""

    def stop(self) -> None:
        """Do nothing: the nodes act by themselves."""

    def check_end(self) -> None:
        """Check VU."""
        core = leader_core(self._cluster)
        if core is None:
            require(False, "LIVENESS", "no leader")
            return
        for node_id in self._cluster.controller_ids:
            local = self._cluster.nodes[node_id].core.local
            found = core.voters.voters.get(node_id)
            require(found == local, "VU", f"the voters have {found} for {local}")

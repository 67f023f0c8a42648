"""Disks of the quorum that are lost in the simulation, and the procedure after it (KIP-853).

A voter with an empty disk has another directory id, so it is another replica, which only observes.
The operator removes the lost voter and adds the new one, before the next disk is lost.

R5: at the end, the new replicas are voters, and the lost ones are not.
"""

from typing import Final

from barnabas.cluster.quorum.voters import ReplicaKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.types import Uuid
from barnabas.testing.simulation.quorum_invariants import require
from barnabas.testing.simulation.sim_cluster import SimCluster
from barnabas.testing.simulation.sim_node import SimNode
from barnabas.testing.simulation.voter_admin import change_voters, leader_core
from barnabas.testing.simulation.world import Process

_CLIENT_ID: Final = 35_000
_RETRY_MS: Final = 500
_FIRST_DIRECTORY: Final = 2_000_000
_GONE: Final = (ErrorCode.NONE, ErrorCode.VOTER_NOT_FOUND)
_ADDED: Final = (ErrorCode.NONE, ErrorCode.DUPLICATE_VOTER)


class DiskReplacements:
    """Replaces the quorum's disk of one voter after the other."""

    def __init__(self, cluster: SimCluster, pause_ms: int) -> None:
        self._cluster = cluster
        self._pause_ms = pause_ms
        self._process = Process(cluster.world, _CLIENT_ID)
        self._process.start()
        self._random = cluster.world.stream("disk replacements")
        self._lost: set[ReplicaKey] = set()
        self._current: tuple[ReplicaKey, ReplicaKey] | None = None  # the lost one, and the new one
        self.is_stopped = False
        self.replaced = 0

    def start(self) -> None:
        """Begin to replace disks."""
        self._later()

    def _later(self) -> None:
        self._process.after_ms(self._random.randrange(1, 2 * self._pause_ms), self._next)

    def _next(self) -> None:
        core = leader_core(self._cluster)
        if self.is_stopped:
            return
        if core is None or core.high_watermark < 0:
            self._process.after_ms(_RETRY_MS, self._next)
            return
        self._lose_disk(self._cluster.nodes[self._random.choice(sorted(core.voters.voters))])

    def _lose_disk(self, node: SimNode) -> None:
        lost = node.quorum_key
        directory = Uuid((_FIRST_DIRECTORY + len(self._lost)).to_bytes(16, "big"))
        node.process.kill()
        node.replace_quorum_disk(directory)
        self._lost.add(lost)
        self._current = lost, node.quorum_key
        self._cluster.world.note(node.process, "lost the disk of the quorum")
        delay_ms = self._random.randrange(100, 3_000)
        self._cluster.world.after(delay_ms * 1000, self._cluster.start_node, node)
        self._process.after_ms(self._random.randrange(100, 3_000), self._remove)

    def _remove(self) -> None:
        self._change(is_addition=False)

    def _add(self) -> None:
        self._change(is_addition=True)

    def _change(self, *, is_addition: bool) -> None:
        """Send one half of the procedure until it has succeeded; then follows what is next."""
        if self._current is None:
            return
        lost, new = self._current
        core = leader_core(self._cluster)
        again = self._add if is_addition else self._remove
        if core is None:
            self._process.after_ms(_RETRY_MS, again)
            return

        def done(outcome: ErrorCode | None) -> None:
            if outcome not in (_ADDED if is_addition else _GONE):
                self._process.after_ms(_RETRY_MS, again)
            elif is_addition:
                self._current = None
                self.replaced += 1
                self._later()
            else:
                self._add()

        key = new if is_addition else lost
        change_voters(self._cluster, self._process, core, key, done, adds=is_addition)

    def stop(self) -> None:
        """Lose no further disk; a procedure in progress continues."""
        self.is_stopped = True

    def check_end(self) -> None:
        """Check R5 after a rest."""
        core = leader_core(self._cluster)
        require(self._current is None, "LIVENESS", f"{self._current} is not replaced")
        keys = () if core is None else core.voters.replica_keys
        require(not self._lost.intersection(keys), "R5", f"lost disks among the voters {keys}")

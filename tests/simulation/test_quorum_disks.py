"""Scripted seeds: voters that lose their disk, by the documented procedure and by wrong ones."""

from typing import Any

import attrs
import pytest

from barnabas.protocol.types import Uuid
from barnabas.testing.simulation import InvariantError, Simulation, prepare, run
from barnabas.testing.simulation.disk_replacements import DiskReplacements
from barnabas.testing.simulation.faults import Fault, FaultKind
from barnabas.testing.simulation.seed_options import NO_FEATURES, draw_options
from barnabas.testing.simulation.voter_admin import leader_core

SECONDS = 20


def cluster(seed: int, faults: list[Fault], **changes: Any) -> Simulation:
    options = attrs.evolve(
        draw_options(1, SECONDS, NO_FEATURES),
        controllers=3,
        brokers=1,
        is_combined=False,
        admins=1,
        admin_pause_ms=20,
        partitions=1,
        replication_factor=1,
        min_insync_replicas=1,
        producers=1,
        operator_pause_ms=0,
        voter_pause_ms=0,
        copiers=0,
        **changes,
    )
    return prepare(seed, SECONDS, options=options, faults=faults)


def test_lost_disks_that_are_removed_and_added_lose_nothing() -> None:
    faults = [Fault(1_000 * n, FaultKind.KILL, (n % 3 + 1,), 500, 0.5) for n in range(3, 18, 3)]

    simulation = run(cluster(3, faults, quorum_disk_pause_ms=1_000))

    (replacements,) = (each for each in simulation.actors if isinstance(each, DiskReplacements))
    assert replacements.replaced > 1


class Loss:
    """A voter that loses its disk while another one is behind, and the third one ends then."""

    def __init__(self, simulation: Simulation, *, is_formatted: bool) -> None:
        self.cluster = simulation.cluster
        self.is_formatted = is_formatted
        simulation.world.after(8_000_000, self.cut)
        simulation.world.after(10_000_000, self.lose)

    def cut(self) -> None:
        """Cut one follower of the quorum from the other voters."""
        core = leader_core(self.cluster)
        assert core is not None
        self.leader = self.cluster.nodes[core.local.key.id]
        self.behind, self.lost = (
            node
            for node in self.cluster.nodes.values()
            if node.is_controller and node is not self.leader
        )
        for node in (self.leader, self.lost):
            self.cluster.network.cut(node.process.node_id, self.behind.process.node_id)
            self.cluster.network.cut(self.behind.process.node_id, node.process.node_id)

    def lose(self) -> None:
        """Replace the disk of the other follower by one with the same id; end the leader."""
        self.leader.process.kill()
        self.lost.process.kill()
        self.lost.replace_quorum_disk(self.lost.quorum_key.directory_id)
        if self.is_formatted:
            self.lost.format(self.behind.core.voters)
        self.cluster.network.heal()
        self.cluster.start_node(self.lost)


def test_lost_disk_that_is_not_added_only_observes() -> None:
    simulation = cluster(3, [])
    node = simulation.cluster.nodes[1]

    def lose() -> None:
        node.process.kill()
        node.replace_quorum_disk(Uuid(bytes(15) + b"\x07"))
        simulation.cluster.start_node(node)

    simulation.world.after(8_000_000, lose)
    run(simulation)

    core = node.core
    assert not core.voters.is_voter(node.quorum_key)
    assert node.quorum_state.voted is None
    assert core.high_watermark > 0


@pytest.mark.parametrize("is_formatted", [True, False])
def test_lost_disk_with_its_former_directory_id_loses_committed_changes(
    is_formatted: bool,
) -> None:
    """The wrong procedure: to the others, the empty disk is the one that has the log.

    It gives its vote to the voter that is behind, which leads without the changes that the lost
    disk and the third voter have committed.
    """
    simulation = cluster(3, [])
    Loss(simulation, is_formatted=is_formatted)

    with pytest.raises(InvariantError, match=r"^LC"):
        run(simulation)

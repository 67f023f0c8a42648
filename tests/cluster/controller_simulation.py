"""The simulated quorum with a controller on each node, and clients that submit operations.

Checks at every step: an acknowledged operation is in every later image (R3), an image at one offset
is the same on all nodes, and no image of a truncated record is published.
"""

from typing import Any

from barnabas.cluster.controller.controller import Controller
from barnabas.cluster.controller.controller_state_machine import ControllerStateMachine
from barnabas.cluster.metadata.image import MetadataImage
from barnabas.cluster.quorum.raft import RaftCore
from barnabas.cluster.quorum.raft_state import Entry, Ready
from barnabas.config import NodeConfig
from barnabas.protocol.errors import KafkaError
from tests.cluster.quorum_simulation import Replica, Simulation
from tests.cluster.states import CLUSTER_ID, registration, uuid
from tests.cluster.test_controller_state_machine import BOOTSTRAP

CONFIG = NodeConfig.load(None, {})


class ControllerSimulation(Simulation):
    """Each operation registers one broker, with an unused id."""

    def __init__(
        self,
        seed: int,
        machine_type: type[ControllerStateMachine] = ControllerStateMachine,
        **options: Any,
    ) -> None:
        self.machine_type = machine_type
        self.machines: dict[RaftCore, ControllerStateMachine] = {}
        self.submitted = 0
        self.acknowledged: set[int] = set()
        self.failed = 0
        self.images: dict[int, tuple[int, ...]] = {}
        super().__init__(seed, **options)

    def machine_of(self, replica: Replica, core: RaftCore) -> ControllerStateMachine:
        """Return the machine of a node in its current life."""
        machine = self.machines.get(core)
        if machine is None:
            controller = Controller(lambda: CONFIG, lambda: uuid(5), lambda n: 0, lambda: 1)
            image = MetadataImage(cluster_id=CLUSTER_ID)
            machine = self.machine_type(core, controller, image, bootstrap=BOOTSTRAP)
            machine.replicate(replica.log)
            self.machines[core] = machine
        return machine

    def submit(self) -> None:
        """Submit an operation to every node that believes that it leads."""
        for replica in self.replicas.values():
            if replica.core is not None and replica.core.is_leader:
                self.submitted += 1
                machine = self.machine_of(replica, replica.core)
                machine.submit(registration(self.submitted), 4, self.submitted, self.now_ms)
                self.settle(replica)

    def take_ready(self, replica: Replica, core: RaftCore) -> Ready:
        machine = self.machine_of(replica, core)
        effects = machine.take_effects(self.now_ms)
        for batch in effects.committed:
            brokers = tuple(sorted(batch.image.brokers))
            known = self.images.setdefault(batch.image.offset, brokers)
            assert known == brokers, "two images at one offset"
        for completion in effects.completions:
            if isinstance(completion.outcome, KafkaError):
                self.failed += 1
                continue
            assert isinstance(completion.token, int)
            self.acknowledged.add(completion.token)
            assert completion.token in machine.image.brokers, "acknowledged without effect"
        return effects.ready

    def appended(self, replica: Replica, entries: list[Entry]) -> None:
        assert replica.core is not None
        self.machine_of(replica, replica.core).replicate(entries)

    def check_end(self) -> None:
        """After a time without faults, all nodes have all acknowledged operations."""
        for replica in self.replicas.values():
            assert replica.core is not None
            image = self.machine_of(replica, replica.core).image
            missing = self.acknowledged - image.brokers.keys()
            assert not missing, f"acknowledged, but missing on node {replica.id}: {missing}"


def run(simulation: ControllerSimulation) -> ControllerSimulation:
    """Submit operations through cuts, crashes and restarts, then heal and check."""
    simulation.run(5_000)
    for _ in range(12):
        for _ in range(simulation.random.randrange(1, 6)):
            simulation.submit()
            simulation.run(simulation.random.randrange(40, 300))
        node = simulation.random.randrange(1, len(simulation.replicas) + 1)
        fault = simulation.random.randrange(3)
        if fault == 0:
            simulation.cut = {node}
            simulation.submit()
        elif fault == 1 and simulation.replicas[node].core is not None:
            simulation.crash(node)
        simulation.run(simulation.random.randrange(500, 6_000))
        simulation.cut = set()
        if simulation.replicas[node].core is None:
            simulation.start(node)
    simulation.loss, simulation.sync_chance = 0.0, 1.0
    simulation.run(20_000)
    simulation.submit()
    simulation.run(10_000)
    simulation.check_end()
    return simulation

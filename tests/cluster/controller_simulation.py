"""The simulated quorum with a controller on each node, and clients that submit operations.

At every step an AssertionError begins with the name of the invariant that does not hold, one of
`quorum_simulation` or

    R3   an acknowledged operation is in every later image
    IM   an image at one offset is the same on all nodes
    TX   an image has all records of a metadata transaction, or none of them
    PID  no producer id is allocated twice
"""

from typing import Any

import attrs

from barnabas.cluster.controller.controller import Controller
from barnabas.cluster.controller.controller_state_machine import Completion, ControllerStateMachine
from barnabas.cluster.metadata.feature_levels import METADATA_VERSION
from barnabas.cluster.metadata.image import MetadataImage
from barnabas.cluster.metadata.record_versions import encode_at
from barnabas.cluster.quorum.raft import RaftCore
from barnabas.cluster.quorum.raft_state import Entry, Ready
from barnabas.config import NodeConfig
from barnabas.protocol.errors import KafkaError
from barnabas.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from barnabas.protocol.messages_base import Message
from barnabas.protocol.records.metadata_records import (
    BeginTransactionRecord,
    EndTransactionRecord,
    RegisterBrokerRecord,
)
from tests.cluster.quorum_simulation import Replica, Simulation
from tests.cluster.states import CLUSTER_ID, registration, uuid
from tests.cluster.test_controller_state_machine import BOOTSTRAP

CONFIG = NodeConfig.load(None, {})
TRANSACTED = 10_000
"""The first id of the brokers that are registered in transactions."""


@attrs.define
class Transaction:
    """A metadata transaction of a leader, that registers two brokers in two batches."""

    replica: Replica
    core: RaftCore
    epoch: int
    batches: list[list[Message]]

    @property
    def is_open(self) -> bool:
        """True while its leader can continue it."""
        core = self.core
        return self.replica.core is core and core.is_leader and core.epoch == self.epoch


class ControllerSimulation(Simulation):
    """Each operation registers one broker, with an unused id, or allocates producer ids."""

    machine_type: type[ControllerStateMachine] = ControllerStateMachine

    def __init__(self, seed: int, **options: Any) -> None:
        self.machines: dict[RaftCore, ControllerStateMachine] = {}
        self.submitted = 0
        self.acknowledged: set[int] = set()
        self.failed = 0
        self.images: dict[int, tuple[int, ...]] = {}
        self.blocks: set[int] = set()
        self.open: Transaction | None = None
        self.pairs: list[tuple[int, int]] = []
        super().__init__(seed, **options)

    def machine_of(self, replica: Replica, core: RaftCore) -> ControllerStateMachine:
        """Return the machine of a node in its current life."""
        machine = self.machines.get(core)
        if machine is None:
            controller = Controller(
                lambda: CONFIG, lambda: uuid(5), lambda n: 0, lambda: 1, wall_ms=lambda: 0
            )
            image = MetadataImage(cluster_id=CLUSTER_ID)
            machine = self.machine_type(core, controller, image, bootstrap=BOOTSTRAP)
            machine.replicate(replica.log)
            self.machines[core] = machine
        return machine

    def submit(self) -> None:
        """Submit an operation to every node that believes that it leads."""
        for replica in self.replicas.values():
            core = replica.core
            if core is None or not core.is_leader or self._is_open(core):
                continue
            machine = self.machine_of(replica, core)
            brokers = machine.controller.image.brokers
            if brokers and self.random.random() < 0.3:
                broker = brokers[min(brokers)]
                request = AllocateProducerIdsRequest(broker_id=broker.id, broker_epoch=broker.epoch)
                machine.submit(request, 0, None, self.now_ms)
            else:
                self.submitted += 1
                machine.submit(registration(self.submitted), 4, self.submitted, self.now_ms)
            self.settle(replica)

    def take_ready(self, replica: Replica, core: RaftCore) -> Ready:
        machine = self.machine_of(replica, core)
        effects = machine.take_effects(self.now_ms)
        for batch in effects.committed:
            self._check_image(batch.image)
        for completion in effects.completions:
            self._complete(machine, completion)
        return effects.ready

    def _check_image(self, image: MetadataImage) -> None:
        brokers = tuple(sorted(image.brokers))
        known = self.images.setdefault(image.offset, brokers)
        assert known == brokers, "IM: two images at one offset"
        for one, other in self.pairs:
            is_whole = (one in image.brokers) == (other in image.brokers)
            assert is_whole, "TX: an image has half of a transaction"

    def _complete(self, machine: ControllerStateMachine, completion: Completion) -> None:
        outcome, token = completion.outcome, completion.token
        if isinstance(outcome, KafkaError):
            self.failed += 1
        elif isinstance(outcome, AllocateProducerIdsResponse):
            first = outcome.producer_id_start
            assert first not in self.blocks, f"PID: the ids from {first} on are allocated twice"
            self.blocks.add(first)
        else:
            assert isinstance(token, int)
            self.acknowledged.add(token)
            assert token in machine.image.brokers, "R3: acknowledged without effect"

    # Metadata transactions, as a controller of Apache Kafka writes them

    def _is_open(self, core: RaftCore) -> bool:
        return self.open is not None and self.open.core is core and self.open.is_open

    def write_transaction(self) -> None:
        """Begin a transaction, or write its next batch; its leader may change before the end."""
        if self.open is not None and self.open.is_open:
            self._write_batch(self.open)
            return
        leaders = [each for each in self.replicas.values() if each.core and each.core.is_leader]
        core = leaders[0].core if leaders else None
        if core is None:
            return
        brokers = (TRANSACTED + self.submitted, TRANSACTED + self.submitted + 1)
        self.submitted += 2
        one, other = (RegisterBrokerRecord(broker_id=each) for each in brokers)
        batches: list[list[Message]] = [
            [BeginTransactionRecord(), one],
            [other],
            [EndTransactionRecord()],
        ]
        self.pairs.append(brokers)
        self.settle(leaders[0])
        self.open = Transaction(leaders[0], core, core.epoch, batches)
        self._write_batch(self.open)

    def _write_batch(self, transaction: Transaction) -> None:
        replica, core = transaction.replica, transaction.core
        machine = self.machine_of(replica, core)
        level = machine.controller.image.features[METADATA_VERSION]
        records = [encode_at(record, level) for record in transaction.batches.pop(0)]
        machine.replicate([core.propose(records, self.now_ms)])
        if not transaction.batches:
            self.open = None
            machine.controller.image = machine._latest_image()
        self.settle(replica)

    def appended(self, replica: Replica, entries: list[Entry]) -> None:
        assert replica.core is not None
        self.machine_of(replica, replica.core).replicate(entries)

    def check_end(self) -> None:
        """After a time without faults, all nodes have all acknowledged operations."""
        for replica in self.replicas.values():
            assert replica.core is not None
            image = self.machine_of(replica, replica.core).image
            missing = self.acknowledged - image.brokers.keys()
            assert not missing, f"R3: node {replica.id} lacks the acknowledged {missing}"


def run(seed: int) -> ControllerSimulation:
    """Submit operations through cuts, crashes and restarts, then heal and check."""
    simulation = ControllerSimulation(seed, loss=0.05, sync_chance=0.7)
    simulation.run(5_000)
    for _ in range(12):
        for _ in range(simulation.random.randrange(1, 6)):
            if simulation.random.random() < 0.3:
                simulation.write_transaction()
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

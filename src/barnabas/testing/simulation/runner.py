"""Running seeds: build the cluster of a seed, disturb it, heal it, and check its end."""

import attrs

from barnabas.cluster.metadata.feature_levels import (
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    METADATA_VERSION,
)
from barnabas.cluster.metadata.image import MetadataImage
from barnabas.cluster.quorum.voters import ReplicaKey, Voter, VoterSet
from barnabas.config import NodeConfig
from barnabas.protocol.records.metadata_records import FeatureLevelRecord
from barnabas.protocol.types import Uuid
from barnabas.testing.simulation.admin_clients import AdminClient
from barnabas.testing.simulation.data_clients import SimClient
from barnabas.testing.simulation.data_workload import DataWorkload
from barnabas.testing.simulation.faults import LOSING_POWER, Fault, draw_faults
from barnabas.testing.simulation.network import Network
from barnabas.testing.simulation.partition_invariants import PartitionInvariants
from barnabas.testing.simulation.quorum_invariants import QuorumInvariants, require
from barnabas.testing.simulation.seed_options import SeedOptions, draw_options
from barnabas.testing.simulation.sim_cluster import SimCluster
from barnabas.testing.simulation.sim_node import ClusterSettings, SimNode
from barnabas.testing.simulation.world import Process, World

_METADATA_VERSION_4_3 = 30
_CALM_BEFORE_MS = 5_000
_CALM_AFTER_MS = 30_000


@attrs.define(slots=True, eq=False)
class Simulation:
    """The cluster of one seed, its world and its invariants."""

    world: World
    cluster: SimCluster
    options: SeedOptions
    faults: list[Fault]
    admins: list[AdminClient]
    data: DataWorkload
    invariants: QuorumInvariants
    attached: list[SimClient] = attrs.field(factory=list[SimClient])

    def values(self, topic: str, partition: int) -> list[bytes]:
        """Return the values of the records that are committed in a partition, in their order."""
        return self.data.values(topic, partition)


def prepare(
    seed: int,
    seconds: int = 60,
    *,
    options: SeedOptions | None = None,
    faults: list[Fault] | None = None,
) -> Simulation:
    """Return the simulation of a seed; options and faults are the seed's, unless given."""
    options = options or draw_options(seed, seconds)
    if faults is None:
        faults = draw_faults(seed, options.node_ids, options.seconds * 1000)
    world = World(seed)
    network = Network(world)
    cluster = SimCluster(world, network)
    invariants, partitions = QuorumInvariants(_digest), PartitionInvariants()
    voters = (Voter(ReplicaKey(node_id, _uuid(node_id))) for node_id in options.voter_ids)
    settings = ClusterSettings(
        voters=VoterSet.of(*voters),
        config=NodeConfig.load(None, {}),
        bootstrap=[
            FeatureLevelRecord(name=METADATA_VERSION, feature_level=_METADATA_VERSION_4_3),
            FeatureLevelRecord(
                name=ELIGIBLE_LEADER_REPLICAS_VERSION, feature_level=options.elr_version
            ),
        ],
        observer=invariants,
        partitions=partitions,
        is_durable=any(fault.kind in LOSING_POWER for fault in faults),
    )
    for node_id in options.node_ids:
        is_broker = node_id in options.broker_ids
        node = SimNode(
            Process(world, node_id),
            network,
            settings,
            directories=[_uuid(100 + node_id)] if is_broker else [],
            rack=f"rack-{node_id % options.racks}",
        )
        cluster.add(node)
    admins = [
        AdminClient(cluster, number, options.admin_pause_ms) for number in range(options.admins)
    ]
    data = DataWorkload.of(cluster, options, partitions)
    return Simulation(world, cluster, options, faults, admins, data, invariants)


def run(simulation: Simulation) -> Simulation:
    """Run a simulation: a calm start, faults (safety), then healing and rest (liveness).

    Raises InvariantError when an invariant does not hold.
    """
    cluster, world = simulation.cluster, simulation.world
    cluster.start()
    for admin in simulation.admins:
        admin.start()
    simulation.data.start()
    for client in simulation.attached:
        client.start()
    world.run(_CALM_BEFORE_MS)
    cluster.schedule(simulation.faults)
    world.run(simulation.options.seconds * 1000)
    world.note("healed")
    cluster.heal()
    for admin in simulation.admins:
        admin.is_stopped = True
    simulation.data.stop()
    for client in simulation.attached:
        client.is_stopped = True
    world.run(_CALM_AFTER_MS)
    check_liveness(simulation)
    return simulation


def check_liveness(simulation: Simulation) -> None:
    """After a rest without faults: one leader that all know, and every broker unfenced."""
    nodes = simulation.cluster.nodes.values()
    leaders = {(node.replica.core.leader_id, node.replica.core.epoch) for node in nodes}
    is_one = len(leaders) == 1 and (None not in next(iter(leaders)))
    require(is_one, "LIVENESS", f"the nodes know the leaders {leaders}")
    for admin in simulation.admins:
        require(admin.is_idle, "LIVENESS", "an operation has no outcome")
        for node in nodes:
            admin.check(node.replica.machine.image)
    for node in nodes:
        image = node.replica.machine.image
        fenced = [
            broker_id
            for broker_id in simulation.options.broker_ids
            if broker_id not in image.brokers or image.brokers[broker_id].fenced
        ]
        require(not fenced, "LIVENESS", f"on {node.process} the brokers {fenced} are fenced")
    simulation.data.check_end()


def _digest(image: MetadataImage) -> object:
    brokers = ((b.id, b.epoch, b.fenced) for b in image.brokers.values())
    topics = sorted((name, len(topic.partitions)) for name, topic in image.topics_by_name.items())
    return tuple(sorted(brokers)), tuple(topics), tuple(sorted(image.features.items()))


def _uuid(number: int) -> Uuid:
    return Uuid(number.to_bytes(16, "big"))

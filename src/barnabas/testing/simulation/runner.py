"""Running seeds: build the cluster of a seed, disturb it, heal it, and check its end."""

from collections.abc import Collection, Iterator
from typing import Final

import attrs

from barnabas.cluster.metadata.image import MetadataImage
from barnabas.cluster.quorum.voters import ReplicaKey
from barnabas.config import NodeConfig
from barnabas.protocol.types import Uuid
from barnabas.testing.simulation.actors import Actor
from barnabas.testing.simulation.admin_clients import AdminClient
from barnabas.testing.simulation.data_workload import DATA_TOPIC, DataWorkload
from barnabas.testing.simulation.disk_replacements import DiskReplacements
from barnabas.testing.simulation.faults import DISK_FAULTS, Fault, draw_faults
from barnabas.testing.simulation.group_workload import GroupWorkload
from barnabas.testing.simulation.kraft_upgrade import KraftUpgrade
from barnabas.testing.simulation.network import Network
from barnabas.testing.simulation.operator_client import OperatorClient
from barnabas.testing.simulation.partition_invariants import PartitionInvariants
from barnabas.testing.simulation.quorum_format import (
    configured_voters,
    feature_levels,
    initial_controllers,
)
from barnabas.testing.simulation.quorum_invariants import QuorumInvariants, require
from barnabas.testing.simulation.record_deleter import RecordDeleter
from barnabas.testing.simulation.seed_options import (
    ALL_FEATURES,
    Feature,
    SeedOptions,
    draw_options,
)
from barnabas.testing.simulation.sim_cluster import SimCluster
from barnabas.testing.simulation.sim_node import ClusterSettings, SimNode, metadata_directory
from barnabas.testing.simulation.sim_wire import RELEASES, SimWire
from barnabas.testing.simulation.throttle_operator import ThrottleOperator
from barnabas.testing.simulation.transaction_workload import TransactionWorkload
from barnabas.testing.simulation.voter_admin import VoterAdmin, VoterUpkeepCheck
from barnabas.testing.simulation.world import Process, World

_PROPERTIES: Final = {
    "group.initial.rebalance.delay.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "group.consumer.min.session.timeout.ms": "8000",
    "group.consumer.session.timeout.ms": "8000",
}
"""Dead members of groups leave before a simulation ends."""

_CALM_BEFORE_MS = 5_000
_CALM_AFTER_MS = 30_000


@attrs.define(slots=True, eq=False)
class Simulation:
    """The cluster of one seed, its world and its invariants."""

    world: World
    cluster: SimCluster
    options: SeedOptions
    faults: list[Fault]
    actors: list[Actor]
    data: DataWorkload
    invariants: QuorumInvariants

    def values(self, topic: str, partition: int) -> list[bytes]:
        """Return the values of the records that are committed in a partition, in their order."""
        return self.data.values(topic, partition)

    def lost_values(self, topic: str, partition: int) -> set[bytes]:
        """Return the values that were committed and that an unclean election has ended.

        It happens after min.insync.replicas brokers lost power, or by an operator: no client can
        prevent it.
        """
        return self.data.lost_values(topic, partition)


def prepare(
    seed: int,
    seconds: int = 60,
    *,
    features: Collection[Feature] = ALL_FEATURES,
    options: SeedOptions | None = None,
    faults: list[Fault] | None = None,
) -> Simulation:
    """Return the simulation of a seed; options and faults are the seed's, unless given.

    The seed draws among `features`. Name them for a seed whose run must stay the same.
    """
    options = options or draw_options(seed, seconds, features)
    if faults is None:
        without = () if options.has_disk_faults else DISK_FAULTS
        faults = draw_faults(seed, options.node_ids, options.seconds * 1000, without)
    world = World(seed)
    cluster = SimCluster(world, _network(world, options))
    partitions = PartitionInvariants(world.fail)
    invariants = QuorumInvariants(_digest, partitions.published)
    settings = _settings(options, invariants, partitions)
    for node_id in (*options.node_ids, *options.spare_ids):
        cluster.add(_node(cluster, settings, options, node_id))
    data = DataWorkload.of(cluster, options, partitions)
    actors = [*_admins(cluster, options, partitions), data]
    if options.copiers:
        actors.append(TransactionWorkload(cluster, DATA_TOPIC, options, partitions))
    if options.members or options.classic_members:
        actors.append(GroupWorkload(cluster, DATA_TOPIC, options, partitions))
    if options.deletion_pause_ms:
        actors.append(RecordDeleter(cluster, DATA_TOPIC, options, partitions))
    if options.throttle_bytes:
        actors.append(ThrottleOperator(cluster, DATA_TOPIC, options))
    return Simulation(world, cluster, options, faults, actors, data, invariants)


def _network(world: World, options: SeedOptions) -> Network:
    """Return a network that carries messages as objects, where neither option asks for bytes."""
    network = Network(world)
    if options.old_peer or options.byte_share:
        old = {options.old_peer: RELEASES[options.old_release]} if options.old_peer else {}
        network.carry = SimWire(world, old, options.byte_share).carry
    return network


def _admins(
    cluster: SimCluster, options: SeedOptions, partitions: PartitionInvariants
) -> Iterator[Actor]:
    for number in range(options.admins):
        yield AdminClient(cluster, number, options.admin_pause_ms)
    if options.voter_pause_ms:
        yield VoterAdmin(cluster, min(options.controllers, 2), options.voter_pause_ms)
    if options.upgrades_kraft:
        yield KraftUpgrade(cluster)
    if options.has_voter_upkeep:
        yield VoterUpkeepCheck(cluster)
    if options.quorum_disk_pause_ms:
        yield DiskReplacements(cluster, options.quorum_disk_pause_ms)
    if options.operator_pause_ms:
        yield OperatorClient(cluster, DATA_TOPIC, options, partitions)


def _settings(
    options: SeedOptions, invariants: QuorumInvariants, partitions: PartitionInvariants
) -> ClusterSettings:
    keys = [ReplicaKey(node_id, metadata_directory(node_id)) for node_id in options.voter_ids]
    levels = feature_levels(
        options.metadata_version, options.elr_version, options.transaction_version
    )
    return ClusterSettings(
        voters=initial_controllers(keys),
        config=_config(options),
        levels=levels,
        observer=invariants,
        partitions=partitions,
        snapshot_entries=options.snapshot_entries,
        kept_snapshots=options.kept_snapshots,
        kraft_version=options.kraft_version,
        static_voters=(
            configured_voters(options.voter_ids)
            if options.upgrades_kraft
            else initial_controllers(keys)
        ),
        has_voter_upkeep=options.has_voter_upkeep,
    )


def _config(options: SeedOptions) -> NodeConfig:
    drawn = {
        "replica.fetch.max.bytes": str(options.replica_fetch_bytes),
        "replica.lag.time.max.ms": str(options.replica_lag_ms),
    }
    return NodeConfig.load(None, {**_PROPERTIES, **drawn})


def _node(
    cluster: SimCluster, settings: ClusterSettings, options: SeedOptions, node_id: int
) -> SimNode:
    return SimNode(
        Process(cluster.world, node_id),
        cluster.network,
        settings,
        is_controller=node_id in options.voter_ids or node_id in options.spare_ids,
        directories=_directories(options, node_id),
        rack=f"rack-{node_id % options.racks}",
    )


def _directories(options: SeedOptions, node_id: int) -> list[Uuid]:
    """Return the log directories of a node; a controller has none."""
    if node_id not in options.broker_ids:
        return []
    return [_uuid(100 * number + node_id) for number in range(1, options.directories + 1)]


def run(simulation: Simulation) -> Simulation:
    """Run a simulation: a calm start, faults (safety), then healing and rest (liveness).

    Raises InvariantError when an invariant does not hold.
    """
    cluster, world = simulation.cluster, simulation.world
    cluster.start()
    for actor in simulation.actors:
        actor.start()
    world.run(_CALM_BEFORE_MS)
    cluster.schedule(simulation.faults)
    world.run(simulation.options.seconds * 1000)
    world.note("healed")
    cluster.heal()
    for actor in simulation.actors:
        actor.stop()
    world.run(_CALM_AFTER_MS)
    check_liveness(simulation)
    return simulation


def check_liveness(simulation: Simulation) -> None:
    """After a rest without faults: one leader that all know, and every broker unfenced."""
    nodes = simulation.cluster.nodes.values()
    leaders = {(node.replica.core.leader_id, node.replica.core.epoch) for node in nodes}
    is_one = len(leaders) == 1 and (None not in next(iter(leaders)))
    require(is_one, "LIVENESS", f"the nodes know the leaders {leaders}")
    for node in nodes:
        image = node.replica.machine.image
        fenced = [
            broker_id
            for broker_id in simulation.options.broker_ids
            if broker_id not in image.brokers or image.brokers[broker_id].fenced
        ]
        require(not fenced, "LIVENESS", f"on {node.process} the brokers {fenced} are fenced")
    for actor in simulation.actors:
        actor.check_end()
    for node in nodes:
        pending = {} if node.broker is None else node.broker.pending()
        left = {name: count for name, count in pending.items() if count}
        require(not left, "RESOURCES", f"{node.process} still has {left}")


def _digest(image: MetadataImage) -> object:
    brokers = ((b.id, b.epoch, b.fenced) for b in image.brokers.values())
    topics = sorted((name, len(topic.partitions)) for name, topic in image.topics_by_name.items())
    return tuple(sorted(brokers)), tuple(topics), tuple(sorted(image.features.items()))


def _uuid(number: int) -> Uuid:
    return Uuid(number.to_bytes(16, "big"))

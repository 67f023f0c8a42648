"""Running seeds: build the cluster of a seed, disturb it, heal it, and check its end."""

import gc
from collections.abc import Collection, Iterator
from functools import partial

import attrs

from barnabas.cluster.metadata.image import MetadataImage
from barnabas.cluster.quorum.voters import ReplicaKey
from barnabas.protocol.types import Uuid
from barnabas.testing.simulation.actors import Actor
from barnabas.testing.simulation.admin_clients import AdminClient
from barnabas.testing.simulation.data_workload import DATA_TOPIC, DataWorkload
from barnabas.testing.simulation.disk_replacements import DiskReplacements
from barnabas.testing.simulation.faults import DISK_FAULTS, Fault, draw_faults
from barnabas.testing.simulation.group_workload import GroupWorkload
from barnabas.testing.simulation.kraft_upgrade import KraftUpgrade
from barnabas.testing.simulation.mirror_flow import MirrorFlow
from barnabas.testing.simulation.mirror_promotion import MirrorPromotion
from barnabas.testing.simulation.old_releases import RELEASES
from barnabas.testing.simulation.operator_client import OperatorClient
from barnabas.testing.simulation.partition_invariants import PartitionInvariants
from barnabas.testing.simulation.quorum_format import (
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
from barnabas.testing.simulation.sim_logging import lines_of
from barnabas.testing.simulation.sim_node import ClusterSettings, SimNode, metadata_directory
from barnabas.testing.simulation.sim_properties import node_properties
from barnabas.testing.simulation.throttle_operator import ThrottleOperator
from barnabas.testing.simulation.transaction_workload import TransactionWorkload
from barnabas.testing.simulation.voter_admin import VoterAdmin, VoterUpkeepCheck
from barnabas.testing.simulation.world import Process, World

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
        """Return the values that were committed and that an unclean election has discarded.

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
    cluster = SimCluster(world)
    if options.old_peer:
        cluster.streams.releases = {options.old_peer: RELEASES[options.old_release]}
    partitions = PartitionInvariants(world.fail)
    invariants = QuorumInvariants(_digest, partitions.published)
    settings = _settings(cluster, options, invariants, partitions)
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
    if options.mirror_pause_ms:
        actors.append(MirrorFlow(cluster, options, partitions))
        if options.mirror_promotion_ms:
            actors.append(MirrorPromotion(cluster, options, partitions))
    if options.throttle_bytes:
        actors.append(ThrottleOperator(cluster, DATA_TOPIC, options))
    return Simulation(world, cluster, options, faults, actors, data, invariants)


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
    cluster: SimCluster,
    options: SeedOptions,
    invariants: QuorumInvariants,
    partitions: PartitionInvariants,
) -> ClusterSettings:
    keys = [ReplicaKey(node_id, metadata_directory(node_id)) for node_id in options.voter_ids]
    return ClusterSettings(
        path=cluster.path,
        voters=initial_controllers(keys),
        levels=feature_levels(
            options.metadata_version, options.elr_version, options.transaction_version
        ),
        quorum=invariants,
        partitions=partitions,
        has_initial_voters=options.kraft_version > 0,
    )


def _node(
    cluster: SimCluster, settings: ClusterSettings, options: SeedOptions, node_id: int
) -> SimNode:
    return SimNode(
        Process(cluster.world, node_id),
        cluster.streams,
        settings,
        is_controller=node_id in options.controller_ids,
        directories=_directories(options, node_id),
        properties=partial(node_properties, options, node_id),
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
    was_collecting = gc.isenabled()
    gc.disable()  # it takes most of the time of a run with many objects
    try:
        with lines_of(simulation.world):
            _run(simulation)
    finally:
        simulation.cluster.close()
        if was_collecting:
            gc.enable()
    return simulation


def _run(simulation: Simulation) -> None:
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


def check_liveness(simulation: Simulation) -> None:
    """After a rest without faults: one leader that all know, and every broker unfenced."""
    nodes = simulation.cluster.nodes.values()
    leaders = {(node.core.leader_id, node.core.epoch) for node in nodes}
    is_one = len(leaders) == 1 and (None not in next(iter(leaders)))
    require(is_one, "LIVENESS", f"the nodes know the leaders {leaders}")
    for node in nodes:
        image = node.committed_image or MetadataImage()
        fenced = [
            broker_id
            for broker_id in simulation.options.broker_ids
            if broker_id not in image.brokers or image.brokers[broker_id].fenced
        ]
        require(not fenced, "LIVENESS", f"on {node.process} the brokers {fenced} are fenced")
    for actor in simulation.actors:
        actor.check_end()
    for node in nodes:
        left = {name: count for name, count in node.pending().items() if count}
        require(not left, "RESOURCES", f"{node.process} still has {left}")


def _digest(image: MetadataImage) -> object:
    brokers = ((b.id, b.epoch, b.fenced) for b in image.brokers.values())
    topics = sorted((name, len(topic.partitions)) for name, topic in image.topics_by_name.items())
    return tuple(sorted(brokers)), tuple(topics), tuple(sorted(image.features.items()))


def _uuid(number: int) -> Uuid:
    return Uuid(number.to_bytes(16, "big"))

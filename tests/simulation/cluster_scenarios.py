"""Clusters of the whole simulation in which a mistake shows soon: their options and their faults.

Each is drawn from a seed, with a separate random stream.
"""

import random
from collections.abc import Sequence

import attrs

from barnabas.testing.simulation import Simulation, prepare
from barnabas.testing.simulation.faults import Fault, FaultKind
from barnabas.testing.simulation.network import Delays
from barnabas.testing.simulation.seed_options import NO_FEATURES, SeedOptions, draw_options
from tests.simulation.scripted_options import replicated


def _one_partition(seed: int, **changes: object) -> SeedOptions:
    """Return options with three controllers, one broker, one partition and one administrator."""
    return attrs.evolve(
        draw_options(seed, 10, NO_FEATURES),
        controllers=3,
        brokers=1,
        is_combined=False,
        replication_factor=1,
        min_insync_replicas=1,
        partitions=1,
        admins=1,
        admin_pause_ms=100,
        **changes,
    )


def busy_quorum(seed: int) -> Simulation:
    """Return a cluster that writes a snapshot of its quorum after every few batches."""
    options = _one_partition(
        seed, producers=1, producer_pause_ms=1_000, snapshot_entries=3, kept_snapshots=1
    )
    return prepare(seed, 10, options=options)


def eager_copier(seed: int) -> Simulation:
    """Return a cluster in which a producer begins each transaction right after the previous one."""
    options = replicated(
        10,
        partitions=1,
        producer_pause_ms=20,
        copiers=1,
        copier_pause_ms=0,
        transaction_version=2,
        is_unclean=False,
    )
    return prepare(seed, 10, options=options, faults=[])


def busy_partition(seed: int) -> Simulation:
    """Return a cluster with one partition whose replicas lead in turn, and fall behind."""
    chance = random.Random(f"busy partition {seed}")
    options = _busy_partition(seed, chance)
    brokers = [node for node in options.node_ids if node > options.controllers]
    return prepare(seed, 15, options=options, faults=_disturbances(chance, brokers))


def _busy_partition(seed: int, chance: random.Random) -> SeedOptions:
    return attrs.evolve(
        draw_options(seed, 15, NO_FEATURES),
        controllers=1,
        brokers=3,
        is_combined=False,
        replication_factor=3,
        min_insync_replicas=chance.choice((1, 2)),
        partitions=1,
        producers=2,
        producer_pause_ms=chance.choice((5, 20)),
        admins=0,
        operator_pause_ms=chance.choice((0, 200)),
        is_unclean=False,
        voter_pause_ms=0,
        copiers=0,
        elr_version=chance.choice((0, 1)),
        replica_fetch_bytes=chance.choice((400, 1_500)),
    )


def _disturbances(chance: random.Random, brokers: Sequence[int]) -> list[Fault]:
    """Return many short faults of a few brokers."""
    kinds = (FaultKind.KILL, FaultKind.POWER_LOSS, FaultKind.PAUSE, FaultKind.CUT_PAIR)
    chosen = [kind for kind in kinds if chance.random() < 0.6] or list(kinds)
    longest_ms, at_ms = chance.choice((300, 1_500, 5_000)), 0
    faults: list[Fault] = []
    while at_ms < 15_000:
        kind = chance.choice(chosen)
        count = 2 if kind is FaultKind.CUT_PAIR else 1
        nodes = tuple(chance.sample(brokers, k=count))
        faults.append(Fault(at_ms, kind, nodes, chance.randrange(50, longest_ms), 0.5))
        at_ms += chance.randrange(50, 1_500)
    return faults


def pending_isr(seed: int) -> Simulation:
    """Return two replicas whose ISR changes while the leader or the controller is cut off."""
    chance = random.Random(f"pending ISR {seed}")
    options = _pending_isr(seed)
    controller, *brokers = options.node_ids
    faults: list[Fault] = []
    at_ms = 0
    while at_ms < 15_000:
        one = chance.choice(brokers)
        faults += [
            Fault(at_ms, FaultKind.CUT_PAIR, tuple(brokers), chance.randrange(500, 4_000), 0.5),
            Fault(
                at_ms + chance.randrange(2_000),
                chance.choice((FaultKind.CUT_PAIR, FaultKind.CUT_ONE_WAY)),
                (controller, one) if chance.random() < 0.5 else (one, controller),
                chance.randrange(500, 4_000),
                0.5,
            ),
            Fault(at_ms + chance.randrange(4_000), FaultKind.SHUTDOWN, (one,), 300, 0.5),
        ]
        at_ms += chance.randrange(2_000, 5_000)
    return prepare(seed, 15, options=options, faults=faults)


def _pending_isr(seed: int) -> SeedOptions:
    return attrs.evolve(
        _busy_partition(seed, random.Random(f"busy partition {seed}")),
        brokers=2,
        replication_factor=2,
        min_insync_replicas=1,
        operator_pause_ms=0,
        replica_lag_ms=1_500,
    )


def expanding_isr(seed: int) -> Simulation:
    """Return two replicas, one of which stops just after the leader has let it join the ISR.

    The controller's disk is slow then, so the change is pending for seconds. When the leader is
    killed afterwards, the replica leads: it is in the ISR that the controller has written.
    """
    chance = random.Random(f"expanding ISR {seed}")
    options = attrs.evolve(_pending_isr(seed), seconds=40, producer_pause_ms=20)
    controller, *brokers = options.node_ids
    faults: list[Fault] = []
    at_ms = 500
    while at_ms < 30_000:
        follower, leader = chance.sample(brokers, k=2)
        away_ms = chance.randrange(2_500, 3_500)
        resumed_ms = at_ms + away_ms
        slow_ms, again_ms = chance.randrange(2_500, 4_000), chance.randrange(20, 400)
        killed_ms = resumed_ms + again_ms + chance.randrange(2_000, 4_000)
        faults += [
            Fault(at_ms, FaultKind.PAUSE, (follower,), away_ms, 0.5),
            Fault(resumed_ms - 100, FaultKind.SLOW_DISK, (controller,), slow_ms, 0.9),
            Fault(resumed_ms + again_ms, FaultKind.PAUSE, (follower,), 4_000, 0.5),
            Fault(killed_ms, FaultKind.KILL, (leader,), 11_000, 0.5),
        ]
        at_ms = killed_ms + chance.randrange(12_000, 15_000)
    return prepare(seed, 40, options=options, faults=sorted(faults, key=lambda each: each.at_ms))


def old_voters(seed: int) -> Simulation:
    """Return a cluster one of whose three voters has the versions of Kafka 3.9."""
    options = _one_partition(
        seed,
        producers=0,
        operator_pause_ms=0,
        copiers=0,
        elr_version=0,
        transaction_version=0,
        metadata_version=21,
        old_peer=1 + seed % 3,
        old_release="3.9",
    )
    return prepare(seed, 10, options=options)


def deleted_records(seed: int) -> Simulation:
    """Return three replicas of one partition whose first records are deleted all the time."""
    options = replicated(15, partitions=1, producer_pause_ms=20, deletion_pause_ms=200)
    return prepare(seed, 15, options=options)


def throttled_replicas(seed: int) -> Simulation:
    """Return replicas that fall behind in turn, and often catch up under a throttle."""
    chance = random.Random(f"throttles {seed}")
    options = replicated(
        20,
        partitions=3,
        producers=4,
        producer_pause_ms=20,
        throttle_bytes=300,
        replica_fetch_bytes=400,
    )
    faults: list[Fault] = []
    at_ms = 500
    while at_ms < 20_000:
        node, for_ms = (chance.choice(options.broker_ids),), chance.randrange(500, 3_000)
        faults.append(Fault(at_ms, FaultKind.KILL, node, for_ms, 0.5))
        at_ms += for_ms + chance.randrange(500, 2_000)
    return prepare(seed, 20, options=options, faults=faults)


def moving_controllers(seed: int) -> Simulation:
    """Return controllers with another address after each start, one of which joins by itself."""
    options = replicated(15, spare_controllers=1, has_voter_upkeep=True)
    return prepare(seed, 15, options=options)


def upgraded_quorum(seed: int) -> Simulation:
    """Return static voters whose kraft.version is upgraded."""
    options = replicated(15, kraft_version=0, upgrades_kraft=True, has_voter_upkeep=True)
    return prepare(seed, 15, options=options)


def changing_controllers(seed: int) -> Simulation:
    """Return brokers that are suspended in turn, while the controller changes all the time."""
    options = replicated(
        15, is_combined=False, partitions=3, producer_pause_ms=20, replica_lag_ms=1_500
    )
    faults = [Fault(at_ms, FaultKind.RESIGN, (), 0, 0.5) for at_ms in range(500, 14_500, 120)]
    brokers = options.broker_ids
    faults += [
        Fault(at_ms, FaultKind.PAUSE, (brokers[turn % len(brokers)],), 2_200, 0.5)
        for turn, at_ms in enumerate(range(1_000, 14_000, 1_500))
    ]
    return prepare(seed, 15, options=options, faults=sorted(faults, key=lambda each: each.at_ms))


def disturbed_elections(seed: int) -> Simulation:
    """Return voters that are restarted at once, again and again, while messages take long."""
    chance = random.Random(f"elections {seed}")
    options = _one_partition(seed, producers=1, producer_pause_ms=500)
    options = attrs.evolve(options, seconds=30, controllers=chance.choice((3, 5)))
    faults: list[Fault] = []
    for at_ms in range(1_000, 28_000, 4_000):
        faults += [Fault(at_ms, FaultKind.LEADER_LOSES_POWER, (), chance.randrange(50, 3_000), 0.1)]
        faults += [
            Fault(
                at_ms + chance.randrange(200, 3_900),
                FaultKind.KILL,
                (chance.choice(options.voter_ids),),
                chance.randrange(1, 20),
                0.5,
            )
            for _ in range(20)
        ]
    simulation = prepare(
        seed, 30, options=options, faults=sorted(faults, key=lambda each: each.at_ms)
    )
    simulation.world.after(6_000_000, _delay_messages, simulation)
    return simulation


def _delay_messages(simulation: Simulation) -> None:
    simulation.cluster.network.delays = Delays(tail=1_500_000, tail_chance=0.5)


def three_releases(seed: int) -> Simulation:
    """Return a quorum with snapshots, moving controllers and nodes of three releases."""
    options = replicated(
        15,
        metadata_version=21,
        elr_version=0,
        transaction_version=0,
        old_peer=seed % 3,
        old_release=("3.9", "4.0")[seed % 2],
        admins=1,
        admin_pause_ms=100,
        snapshot_entries=20,
        kept_snapshots=1,
        spare_controllers=1,
        has_voter_upkeep=True,
        deletion_pause_ms=500,
        throttle_bytes=1_000,
        replica_fetch_bytes=2_000,
    )
    return prepare(seed, 15, options=options)


def repeated_batches(seed: int) -> Simulation:
    """Return idempotent producers whose leaders are killed in turn, or answer too late."""
    chance = random.Random(f"repeated batches {seed}")
    options = replicated(
        20,
        partitions=2,
        producers=0,
        producer_pause_ms=10,
        idempotent_producers=2,
        operator_pause_ms=200,
        is_unclean=False,
    )
    faults: list[Fault] = []
    at_ms = 500
    while at_ms < 19_000:
        kind = chance.choice((FaultKind.KILL, FaultKind.RESETS, FaultKind.CUT_PAIR))
        count = 2 if kind is FaultKind.CUT_PAIR else 1
        nodes = tuple(chance.sample(options.broker_ids, k=count))
        faults.append(Fault(at_ms, kind, nodes, chance.randrange(200, 6_000), 0.5))
        at_ms += chance.randrange(500, 3_000)
    return prepare(seed, 20, options=options, faults=faults)


def mirrored_topic(seed: int) -> Simulation:
    """Return a mirror whose replicas are cut off from each other, or killed.

    A cut lasts longer than a request waits, so the flow sends batches again that are not committed.
    """
    chance = random.Random(f"mirrored topic {seed}")
    options = replicated(
        20, partitions=1, producers=0, mirror_pause_ms=60, operator_pause_ms=0, is_unclean=False
    )
    faults: list[Fault] = []
    for at_ms in (1_000, 11_000):
        pair = tuple(chance.sample(options.broker_ids, k=2))
        killed = (chance.choice(options.broker_ids),)
        faults.append(Fault(at_ms, FaultKind.CUT_PAIR, pair, 8_000, 0.5))
        faults.append(Fault(at_ms + 7_000, FaultKind.KILL, killed, 1_000, 0.5))
    return prepare(seed, 20, options=options, faults=faults)


def promoted_mirror(seed: int) -> Simulation:
    """Return a mirror that starts again beyond its end and is promoted, under faults."""
    chance = random.Random(f"promoted mirror {seed}")
    options = replicated(
        20,
        partitions=1,
        producers=0,
        mirror_pause_ms=60,
        mirror_restart_ms=2_000,
        mirror_promotion_ms=5_000,
        operator_pause_ms=0,
        is_unclean=False,
    )
    faults: list[Fault] = []
    for at_ms in (1_000, 5_000, 9_000, 13_000):
        pair = tuple(chance.sample(options.broker_ids, k=2))
        killed = (chance.choice(options.broker_ids),)
        faults.append(Fault(at_ms, FaultKind.CUT_PAIR, pair, 2_000, 0.5))
        faults.append(Fault(at_ms + 3_000, FaultKind.KILL, killed, 500, 0.5))
    return prepare(seed, 20, options=options, faults=faults)


def replaced_disks(seed: int) -> Simulation:
    """Return voters that are cut off in turn, while the disks of others are replaced."""
    chance = random.Random(f"replaced disks {seed}")
    options = _one_partition(seed, producers=0, quorum_disk_pause_ms=500, voter_pause_ms=0)
    options = attrs.evolve(
        options, seconds=20, admin_pause_ms=20, copiers=0, operator_pause_ms=0, spare_controllers=0
    )
    faults = [
        Fault(at_ms, FaultKind.CUT_NODE, (chance.choice(options.voter_ids),), 1_500, 0.5)
        for at_ms in range(1_000, 19_000, 2_000)
    ]
    return prepare(seed, 20, options=options, faults=faults)


def forwarding_brokers(seed: int) -> Simulation:
    """Return brokers that forward the requests of administrators, and lose their connections."""
    options = replicated(
        6, is_combined=False, partitions=1, producers=0, admins=4, admin_pause_ms=1_000
    )
    faults = [
        Fault(at_ms, FaultKind.RESETS, options.node_ids, 1_500, 0.5)
        for at_ms in range(500, 5_500, 500)
    ]
    return prepare(seed, 6, options=options, faults=faults)

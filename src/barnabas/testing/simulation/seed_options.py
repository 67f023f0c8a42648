"""The size and the settings of a simulated cluster, drawn from the seed.

The plain options came first. Each `Feature` is drawn from a separate random stream with its name,
and only when `draw_options` may draw it. So a seed that is pinned with a set of features keeps its
options when a feature is added.
"""

import random
from collections.abc import Callable, Collection, Mapping
from enum import Enum
from typing import Final

import attrs

_METADATA_VERSION: Final = 30  # of 4.3
_GROUP_VERSIONS_SINCE: Final = 27
"""A metadata.version with eligible leader replicas and the second version of transactions."""


class Feature(Enum):
    """An addition to the plain options that a seed may have."""

    SEVERAL_DIRECTORIES = "several directories"
    DISK_FAULTS = "disk faults"
    OLD_METADATA_VERSION = "old metadata version"
    STATIC_VOTERS = "static voters"
    GROUP_MEMBERS = "group members"
    OLD_PEER = "old peer"
    QUORUM_DISKS = "quorum disks"
    CLASSIC_MEMBERS = "classic members"
    DELETED_RECORDS = "deleted records"
    THROTTLES = "throttles"
    VOTER_UPKEEP = "voter upkeep"
    KRAFT_UPGRADE = "kraft upgrade"
    IDEMPOTENT_PRODUCERS = "idempotent producers"
    MIRROR = "mirror"


ALL_FEATURES: Final = tuple(Feature)
NO_FEATURES: Final = ()


@attrs.frozen(slots=True, kw_only=True)
class SeedOptions:
    """A cluster of `controllers` voters and `brokers` brokers; the first of both are combined.

    With `is_combined`, the first nodes have both roles; otherwise no node has both.
    """

    controllers: int
    brokers: int
    is_combined: bool
    racks: int
    elr_version: int
    admins: int
    admin_pause_ms: int
    partitions: int
    replication_factor: int
    min_insync_replicas: int
    producers: int
    producer_pause_ms: int
    seconds: int
    snapshot_entries: int
    kept_snapshots: int
    spare_controllers: int
    voter_pause_ms: int
    operator_pause_ms: int
    is_unclean: bool
    has_rack_consumers: bool
    copiers: int
    transaction_version: int
    directories: int = 1
    has_disk_faults: bool = False
    replica_fetch_bytes: int = 1 << 20
    replica_lag_ms: int = 30_000
    metadata_version: int = _METADATA_VERSION
    kraft_version: int = 1
    members: int = 0
    classic_members: int = 0
    is_group_mixed: bool = False
    """True when the members of both protocols are in one group."""
    old_peer: int = 0
    """The node whose RPC versions are those of an older Kafka, 0 for none."""
    old_release: str = ""
    quorum_disk_pause_ms: int = 0
    """The pause between replacements of a voter's disk, 0 for none."""
    deletion_pause_ms: int = 0
    """The pause between deletions of the first records of a partition, 0 for none."""
    throttle_bytes: int = 0
    """The rate of throttled replication in bytes a second, 0 for no throttles."""
    copier_pause_ms: int = 50
    """The pause of a copier between its transactions."""
    has_voter_upkeep: bool = False
    """True when controllers join the voters by themselves, and have another address each life."""
    upgrades_kraft: bool = False
    """True when an operator upgrades kraft.version, from static voters."""
    idempotent_producers: int = 0
    mirror_pause_ms: int = 0
    """The pause of a flow between its requests to a mirror topic, 0 for no mirror."""
    mirror_restart_ms: int = 0
    """The pause between restarts of the mirror's log beyond its end, 0 for none."""
    mirror_promotion_ms: int = 0
    """When the mirror is promoted, 0 for never."""

    @property
    def voter_ids(self) -> tuple[int, ...]:
        """The ids of the voters."""
        return tuple(range(1, self.controllers + 1))

    @property
    def spare_ids(self) -> tuple[int, ...]:
        """The ids of controllers that are not voters at first."""
        first = self.controllers + self.brokers + 1
        return tuple(range(first, first + self.spare_controllers))

    @property
    def controller_ids(self) -> tuple[int, ...]:
        """The ids of the controllers, voters and spare ones."""
        return *self.voter_ids, *self.spare_ids

    @property
    def broker_ids(self) -> tuple[int, ...]:
        """The ids of the brokers."""
        first = 1 if self.is_combined else self.controllers + 1
        return tuple(range(first, first + self.brokers))

    def rack_of(self, consumer: int) -> str:
        """Return the rack of a consumer, empty for one that reads only from leaders."""
        return f"rack-{consumer % self.racks}" if self.has_rack_consumers else ""

    @property
    def node_ids(self) -> tuple[int, ...]:
        """The ids of all nodes but the spare controllers."""
        return tuple(sorted({*self.voter_ids, *self.broker_ids}))

    def __str__(self) -> str:
        kind = "combined" if self.is_combined else "apart"
        names = [each.name for each in attrs.fields(SeedOptions) if each.name != "is_combined"]
        values = [f"{name}={getattr(self, name)}" for name in names]
        return " ".join([kind, *values])


def draw_options(
    seed: int, seconds: int, features: Collection[Feature] = ALL_FEATURES
) -> SeedOptions:
    """Return the options of a seed; faults last for `seconds` of simulated time."""
    options = _plain_options(seed, seconds)
    for feature, draw in _DRAWS.items():
        if feature in features:
            options = draw(options, random.Random(f"{feature.value} {seed}"))
    return options


def _plain_options(seed: int, seconds: int) -> SeedOptions:
    chance = random.Random(f"options {seed}")
    quorum = random.Random(f"quorum options {seed}")
    operations = random.Random(f"operations {seed}")
    transactions = random.Random(f"transactions {seed}")
    brokers = chance.choice((1, 3, 3, 3, 4, 5))
    factor = min(brokers, chance.choice((1, 2, 3, 3, 3, 3)))
    return SeedOptions(
        controllers=chance.choice((1, 3, 3, 3, 5)),
        brokers=brokers,
        is_combined=chance.random() < 0.6,
        racks=chance.choice((1, 1, 3)),
        elr_version=chance.choice((0, 1, 1)),
        admins=chance.choice((0, 1, 3)),
        admin_pause_ms=chance.choice((20, 100, 1000)),
        partitions=chance.choice((1, 3, 6)),
        replication_factor=factor,
        min_insync_replicas=min(factor, chance.choice((1, 2, 2))),
        producers=chance.choice((1, 2, 4)),
        producer_pause_ms=chance.choice((20, 100, 500)),
        seconds=seconds,
        snapshot_entries=quorum.choice((50, 300, 2_000)),
        kept_snapshots=quorum.choice((1, 2, 2)),
        spare_controllers=quorum.choice((0, 0, 1)),
        voter_pause_ms=quorum.choice((0, 0, 5_000)),
        operator_pause_ms=operations.choice((0, 500, 3_000)),
        is_unclean=operations.random() < 0.2,
        has_rack_consumers=operations.random() < 0.5,
        copiers=transactions.choice((0, 0, 1, 2)),
        transaction_version=transactions.choice((0, 2, 2)),
    )


def _draw_directories(options: SeedOptions, chance: random.Random) -> SeedOptions:
    return attrs.evolve(options, directories=chance.choice((1, 1, 2, 3)))


def _draw_disk_faults(options: SeedOptions, chance: random.Random) -> SeedOptions:
    return attrs.evolve(options, has_disk_faults=chance.random() < 0.5)


def _draw_metadata_version(options: SeedOptions, chance: random.Random) -> SeedOptions:
    return _at_metadata_version(options, chance.choice((17, 21, 27, 30, 30)))


def _at_metadata_version(options: SeedOptions, level: int) -> SeedOptions:
    if level < _GROUP_VERSIONS_SINCE:
        options = attrs.evolve(options, elr_version=0, transaction_version=0)
    return attrs.evolve(options, metadata_version=level)


def _draw_static_voters(options: SeedOptions, chance: random.Random) -> SeedOptions:
    if chance.random() < 0.25:
        return attrs.evolve(options, kraft_version=0, voter_pause_ms=0)
    return options


def _draw_members(options: SeedOptions, chance: random.Random) -> SeedOptions:
    return attrs.evolve(options, members=chance.choice((0, 0, 2, 3)))


def _draw_classic_members(options: SeedOptions, chance: random.Random) -> SeedOptions:
    count, is_mixed = chance.choice((0, 0, 2, 3)), chance.random() < 0.5
    return attrs.evolve(options, classic_members=count, is_group_mixed=is_mixed)


_OLD_RELEASES: Final = {"3.9": 21, "4.0": 25}
"""Older releases of Kafka, and their highest metadata.version."""


def _draw_old_peer(options: SeedOptions, chance: random.Random) -> SeedOptions:
    if chance.random() < 0.6:
        return options
    release = chance.choice(sorted(_OLD_RELEASES))
    level = min(options.metadata_version, _OLD_RELEASES[release])
    options = _at_metadata_version(options, level)
    return attrs.evolve(options, old_peer=chance.choice(options.node_ids), old_release=release)


def _draw_quorum_disks(options: SeedOptions, chance: random.Random) -> SeedOptions:
    """Return options with replaced disks of voters, where a majority of the voters is left."""
    is_possible = options.controllers >= 3 and options.kraft_version and not options.voter_pause_ms
    if not is_possible or chance.random() < 0.5:
        return options
    return attrs.evolve(options, quorum_disk_pause_ms=chance.choice((2_000, 8_000)))


def _draw_deletions(options: SeedOptions, chance: random.Random) -> SeedOptions:
    """Return options with deletions, but not with copiers, which may not have read the records."""
    if options.copiers or chance.random() < 0.5:
        return options
    return attrs.evolve(options, deletion_pause_ms=chance.choice((200, 1_000, 5_000)))


def _draw_throttles(options: SeedOptions, chance: random.Random) -> SeedOptions:
    return attrs.evolve(options, throttle_bytes=chance.choice((0, 0, 300, 1_000)))


def _draw_upkeep(options: SeedOptions, chance: random.Random) -> SeedOptions:
    """Return options with voter upkeep, unless administrators remove voters."""
    has_admin = options.voter_pause_ms or options.quorum_disk_pause_ms
    is_possible = options.kraft_version > 0 and not has_admin
    return attrs.evolve(options, has_voter_upkeep=is_possible and chance.random() < 0.5)


def _draw_kraft_upgrade(options: SeedOptions, chance: random.Random) -> SeedOptions:
    if options.kraft_version or chance.random() < 0.3:
        return options
    return attrs.evolve(options, upgrades_kraft=True, has_voter_upkeep=True)


def _draw_idempotent_producers(options: SeedOptions, chance: random.Random) -> SeedOptions:
    return attrs.evolve(options, idempotent_producers=chance.choice((0, 1, 2)))


def _draw_mirror(options: SeedOptions, chance: random.Random) -> SeedOptions:
    options = attrs.evolve(options, mirror_pause_ms=chance.choice((0, 50, 500)))
    if not options.mirror_pause_ms:
        return options
    return attrs.evolve(
        options,
        mirror_restart_ms=chance.choice((0, 2_000, 10_000)),
        mirror_promotion_ms=chance.choice((0, 5_000, 1_000 * options.seconds // 2)),
    )


_DRAWS: Final[Mapping[Feature, Callable[[SeedOptions, random.Random], SeedOptions]]] = {
    Feature.SEVERAL_DIRECTORIES: _draw_directories,
    Feature.DISK_FAULTS: _draw_disk_faults,
    Feature.OLD_METADATA_VERSION: _draw_metadata_version,
    Feature.STATIC_VOTERS: _draw_static_voters,
    Feature.GROUP_MEMBERS: _draw_members,
    Feature.OLD_PEER: _draw_old_peer,
    Feature.QUORUM_DISKS: _draw_quorum_disks,
    Feature.CLASSIC_MEMBERS: _draw_classic_members,
    Feature.DELETED_RECORDS: _draw_deletions,
    Feature.THROTTLES: _draw_throttles,
    Feature.VOTER_UPKEEP: _draw_upkeep,
    Feature.KRAFT_UPGRADE: _draw_kraft_upgrade,
    Feature.IDEMPOTENT_PRODUCERS: _draw_idempotent_producers,
    Feature.MIRROR: _draw_mirror,
}

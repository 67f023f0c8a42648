"""The size and the settings of a simulated cluster, drawn from the seed."""

import random

import attrs


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


def draw_options(seed: int, seconds: int) -> SeedOptions:
    """Return the options of a seed; faults last for `seconds` of simulated time."""
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

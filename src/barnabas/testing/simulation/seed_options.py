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

    @property
    def voter_ids(self) -> tuple[int, ...]:
        """The ids of the voters."""
        return tuple(range(1, self.controllers + 1))

    @property
    def broker_ids(self) -> tuple[int, ...]:
        """The ids of the brokers."""
        first = 1 if self.is_combined else self.controllers + 1
        return tuple(range(first, first + self.brokers))

    @property
    def node_ids(self) -> tuple[int, ...]:
        """The ids of all nodes."""
        return tuple(sorted({*self.voter_ids, *self.broker_ids}))

    def __str__(self) -> str:
        kind = "combined" if self.is_combined else "apart"
        return (
            f"controllers={self.controllers} brokers={self.brokers} {kind} "
            f"racks={self.racks} elr={self.elr_version} admins={self.admins} "
            f"every {self.admin_pause_ms} ms "
            f"partitions={self.partitions} rf={self.replication_factor} "
            f"min.isr={self.min_insync_replicas} producers={self.producers} "
            f"every {self.producer_pause_ms} ms seconds={self.seconds}"
        )


def draw_options(seed: int, seconds: int) -> SeedOptions:
    """Return the options of a seed; faults last for `seconds` of simulated time."""
    chance = random.Random(f"options {seed}")
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
    )

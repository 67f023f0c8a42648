"""Place the replicas of new partitions: striped over racks, then over the brokers of each rack.

As Kafka's `StripedReplicaPlacer`: leaders rotate over the racks, a partition uses one broker of
each rack before a second one of any rack, and fenced brokers come last and never lead. The first
broker is random, so that small topics do not all start on the same broker.
"""

from collections.abc import Callable, Iterable

from barnabas.cluster.metadata.image import BrokerImage
from barnabas.protocol.errors import ErrorCode, KafkaError


class _Ring:
    """Brokers of one rack and state; each round yields every broker once, from the next one on."""

    def __init__(self, brokers: list[int], offset: int) -> None:
        self._brokers = brokers
        self._offset = offset
        self._round = -1
        self._taken = 0

    def take(self, number: int) -> int | None:
        """Return the next broker of round `number`, or None when the round is complete."""
        if number != self._round:
            self._round, self._taken = number, 0
            self._offset += 1
        if self._taken >= len(self._brokers):
            return None
        broker = self._brokers[(self._taken + self._offset) % len(self._brokers)]
        self._taken += 1
        return broker


class _Rack:
    def __init__(self, brokers: list[BrokerImage], random: Callable[[int], int]) -> None:
        active = [broker.id for broker in brokers if not broker.fenced]
        fenced = [broker.id for broker in brokers if broker.fenced]
        self.active = _Ring(active, random(len(active)) if active else 0)
        self.fenced = _Ring(fenced, random(len(fenced)) if fenced else 0)


def place(
    partitions: int,
    replication_factor: int,
    brokers: Iterable[BrokerImage],
    random: Callable[[int], int],
) -> list[tuple[int, ...]]:
    """Return the replicas of each new partition, the preferred leader first.

    `random(n)` returns a number below n.

    Raises KafkaError INVALID_REPLICATION_FACTOR when there are too few brokers, or all are fenced.
    """
    usable = sorted(
        (b for b in brokers if not b.in_controlled_shutdown and not _is_cordoned(b)),
        key=lambda broker: broker.id,
    )
    _check(replication_factor, usable)
    by_rack: dict[str | None, list[BrokerImage]] = {}
    for broker in usable:
        by_rack.setdefault(broker.rack, []).append(broker)
    racks = [_Rack(by_rack[name], random) for name in sorted(by_rack, key=lambda rack: rack or "")]
    first = random(len(racks))
    return [
        _place_one(racks, first + number, number, replication_factor)
        for number in range(partitions)
    ]


def _is_cordoned(broker: BrokerImage) -> bool:
    """True when all directories are cordoned: closed to new partitions (KIP-1066)."""
    return bool(broker.directories) and set(broker.directories) <= set(broker.cordoned_directories)


def _check(replication_factor: int, usable: list[BrokerImage]) -> None:
    refusal = f"Unable to replicate the partition {replication_factor} time(s): "
    if not any(not broker.fenced for broker in usable):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR, refusal + "All brokers are currently fenced."
        )
    if replication_factor > len(usable):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            refusal + f"The target replication factor of {replication_factor} cannot be reached "
            f"because only {len(usable)} broker(s) are registered or some brokers have all their "
            "log directories cordoned.",
        )


def _place_one(
    racks: list[_Rack], first: int, number: int, replication_factor: int
) -> tuple[int, ...]:
    chosen: list[int] = []
    for kind in ("active", "fenced"):
        exhausted = 0
        at = first
        while len(chosen) < replication_factor and exhausted < len(racks):
            ring: _Ring = getattr(racks[at % len(racks)], kind)
            broker = ring.take(number)
            at += 1
            if broker is None:
                exhausted += 1
            else:
                exhausted = 0
                chosen.append(broker)
    return tuple(chosen)

"""Planted mistakes in the controller's decisions on partitions.

Each must break a rule of the simulation. `python -m tests.cluster.partition_mistakes` searches for
the seeds that reveal each mistake; the tests use one pinned seed of each.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from barnabas.cluster.controller import (
    election_rules,
    isr_changes,
    partition_alteration,
)
from barnabas.cluster.controller.partition_change_builder import RECOVERING, PartitionChangeBuilder
from barnabas.protocol.records.metadata_records import BrokerRegistrationChangeRecord
from tests.cluster.partition_simulation import RuleBrokenError, World

SEEDS_MAX = 300
STEPS = 300

Mistake = Callable[[], Any]


def isr_without_partition_epoch() -> Any:
    """23: AlterPartition does not compare the partition epoch."""
    check = partition_alteration._check

    def careless(image: Any, broker_id: int, partition: Any, data: Any, isr: Any) -> None:
        data.partition_epoch = partition.partition_epoch
        check(image, broker_id, partition, data, isr)

    return patch.object(partition_alteration, "_check", careless)


def new_incarnation_keeps_its_isr_seat() -> Any:
    """26: the earlier incarnation of a broker does not leave its ISRs."""
    return patch.object(isr_changes, "end_incarnation", lambda *_, **__: [])


def unclean_restart_stays_eligible() -> Any:
    """27: a broker that lost its page cache stays in the ELR."""
    end = isr_changes.end_incarnation
    return patch.object(
        isr_changes,
        "end_incarnation",
        lambda context, broker_id, most, *, is_clean: end(context, broker_id, most, is_clean=True),
    )


def elr_survives_an_unclean_election() -> Any:
    """29: replicas stay eligible after an unclean election."""
    record_in_sync = PartitionChangeBuilder._record_in_sync

    def careless(self: PartitionChangeBuilder, record: Any, elr: Any) -> None:
        is_unclean = self.recovery_state == RECOVERING and record.leader >= 0
        kept = [each for each in self.partition.elr if each not in self.isr]
        record_in_sync(self, record, kept if is_unclean else elr)

    return patch.object(PartitionChangeBuilder, "_record_in_sync", careless)


def fenced_before_it_leaves_its_isrs() -> Any:
    """31: the record that fences a broker comes first, in a separate batch."""

    def careless(context: Any, broker: Any, most: int | None = None) -> list[Any]:
        record = BrokerRegistrationChangeRecord(
            broker_id=broker.id, broker_epoch=broker.epoch, fenced=1
        )
        return [record]

    return patch.object(isr_changes, "fence", careless)


def reassignment_ends_without_all_added_replicas() -> Any:
    """35: a reassignment completes when one of its replicas is in sync."""

    def careless(self: PartitionChangeBuilder) -> None:
        isr = [replica for replica in self.isr if replica not in self.removing]
        if (self.adding or self.removing) and isr:
            self.replicas = [each for each in self.replicas if each not in self.removing]
            self.isr, self.adding, self.removing = isr, (), ()

    return patch.object(PartitionChangeBuilder, "_complete_reassignment", careless)


def removed_replica_stays_in_the_leader_epoch() -> Any:
    """35: a reassignment completes in the same leader epoch."""
    return patch.object(
        PartitionChangeBuilder, "_start_epoch_where_needed", lambda self, record: None
    )


def offline_directory_may_lead() -> Any:
    """40: a replica in a failed log directory is elected."""

    def careless(image: Any, partition: Any, broker_id: int, is_active: Any) -> bool:
        return broker_id in image.brokers and is_active(broker_id)

    return patch.object(election_rules, "may_lead", careless)


def last_in_sync_replica_is_dropped() -> Any:
    """43: with ELR off, the ISR becomes empty."""
    record_in_sync = PartitionChangeBuilder._record_in_sync

    def careless(self: PartitionChangeBuilder, record: Any, elr: Any) -> None:
        record_in_sync(self, record, elr)
        if tuple(self.isr) != self.partition.isr:
            record.isr = list(self.isr)

    return patch.object(PartitionChangeBuilder, "_record_in_sync", careless)


# Mistake -> (a seed that reveals it, with ELR or without).
MISTAKES: dict[Mistake, tuple[int, bool]] = {
    isr_without_partition_epoch: (0, True),
    new_incarnation_keeps_its_isr_seat: (0, True),
    unclean_restart_stays_eligible: (3, True),
    elr_survives_an_unclean_election: (0, True),
    fenced_before_it_leaves_its_isrs: (0, True),
    reassignment_ends_without_all_added_replicas: (1, True),
    removed_replica_stays_in_the_leader_epoch: (0, True),
    offline_directory_may_lead: (1, True),
    last_in_sync_replica_is_dropped: (0, False),
}


@contextmanager
def planted(mistake: Mistake | None) -> Iterator[None]:
    """Plant a mistake, or none."""
    if mistake is None:
        yield
        return
    with mistake():
        yield


def broken(mistake: Mistake | None, seed: int, *, has_elr: bool) -> str | None:
    """Return the rule that a run breaks, or None."""
    with planted(mistake):
        try:
            World(seed, has_elr=has_elr).run(STEPS)
        except RuleBrokenError as violation:
            return str(violation)
    return None


def main() -> None:
    """Print for each mistake how many of the seeds reveal it, and the first."""
    for mistake, (_, has_elr) in MISTAKES.items():
        found = [seed for seed in range(SEEDS_MAX) if broken(mistake, seed, has_elr=has_elr)]
        print(f"{mistake.__name__}: {len(found)} of {SEEDS_MAX} seeds, first {found[:1]}")


if __name__ == "__main__":
    main()

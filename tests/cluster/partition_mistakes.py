"""Planted mistakes in the controller's decisions on partitions; each function returns its patch.

The numbers are those of `tests.simulation.mistake_table`.
"""

from typing import Any
from unittest.mock import patch

from barnabas.cluster.controller import (
    election_rules,
    isr_changes,
    partition_alteration,
)
from barnabas.cluster.controller.partition_change_builder import RECOVERING, PartitionChangeBuilder
from barnabas.protocol.records.metadata_records import BrokerRegistrationChangeRecord


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
